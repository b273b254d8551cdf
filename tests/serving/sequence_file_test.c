/* Saving and restoring: what comes back is what went in, or nothing does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serving_fixture.h"

enum { BLOCKS = 12, H = 2, D = 3, SLOTS = 4, DK = 2, TOKENS = 11, MOST = 8192 };

static const int32_t text[64] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
static const quire_prefix_key alice = {{1, 0, 0, 7}};
static const quire_prefix_key bob = {{1, 0, 0, 8}};

/* An engine: a full group [NB, P, H, D], a window group of pages [H, NB, P, D], and states. */
typedef struct place {
  quire_cache *cache;
  counting_allocator counting;
  int64_t sizes[2];
  float key[BLOCKS * 8 * H * D], value[BLOCKS * 8 * H * D], pages[H * BLOCKS * 8 * D];
  float states[SLOTS][DK];
  int64_t shape[4], pages_shape[4], state_shape[2];
  quire_cache_tensor tensors[4];
} place;

static void place_init(place *at, int64_t full_size, int64_t window_size) {
  memset(at, 0, sizeof *at);
  counting_allocator_init(&at->counting);
  at->sizes[0] = full_size;
  at->sizes[1] = window_size;
  const quire_cache_group groups[2] = {{BLOCKS, full_size, 0}, {BLOCKS, window_size, 6}};
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.allocator = &at->counting.allocator;
  options.groups = groups;
  options.group_count = 2;
  options.sequence_limit = 4;
  options.state_slots = SLOTS;
  at->cache = make_cache_with(&options);
  memcpy(at->shape, (int64_t[]){BLOCKS, full_size, H, D}, sizeof at->shape);
  memcpy(at->pages_shape, (int64_t[]){H, BLOCKS, window_size, D}, sizeof at->pages_shape);
  memcpy(at->state_shape, (int64_t[]){SLOTS, DK}, sizeof at->state_shape);
  at->tensors[0] =
      (quire_cache_tensor){"key", {at->key, 0, QUIRE_FLOAT32, 4, at->shape, NULL}, 0, 0, 1};
  at->tensors[1] =
      (quire_cache_tensor){"value", {at->value, 0, QUIRE_FLOAT32, 4, at->shape, NULL}, 0, 0, 1};
  at->tensors[2] = (quire_cache_tensor){
      "pages", {at->pages, 0, QUIRE_FLOAT32, 4, at->pages_shape, NULL}, 1, 1, 2};
  at->tensors[3] = (quire_cache_tensor){
      "state", {at->states, 0, QUIRE_FLOAT32, 2, at->state_shape, NULL}, -1, 0, -1};
}

static void place_release(place *at) {
  quire_cache_release(at->cache);
  assert_int_equal(at->counting.bytes, 0);
}

/* Element of a tensor at a position of a sequence; NULL where its window has slid. */
static float *element(place *at, quire_sequence s, int tensor, int64_t position, int h, int d) {
  const int32_t *blocks = NULL;
  int64_t count = 0;
  const size_t group = tensor == 2;
  MUST(quire_sequence_get_blocks(at->cache, s, group, &blocks, &count, error));
  const int64_t size = at->sizes[group];
  const int64_t block = blocks[position / size];
  if (block < 0) {
    return NULL;
  }
  if (tensor == 2) {
    return &at->pages[((h * BLOCKS + block) * size + position % size) * D + d];
  }
  float *data = tensor == 0 ? at->key : at->value;
  return &data[((block * size + position % size) * H + h) * D + d];
}

static float content(int tensor, int64_t position, int h, int d) {
  return (float)(1000 * tensor + 10 * position + 4 * h + d);
}

static quire_sequence fill(place *at, const quire_prefix_key *key, int64_t tokens) {
  const quire_sequence s = begin(at->cache, key, NULL, 0, 0);
  for (int64_t i = 0; i < tokens; ++i) {
    grow(at->cache, s, text + i, 1);
    for (int e = 0; e < 3 * H * D; ++e) {
      *element(at, s, e / (H * D), i, e / D % H, e % D) = content(e / (H * D), i, e / D % H, e % D);
    }
  }
  for (int d = 0; d < DK && tokens > 0; ++d) {
    at->states[facts_of(at->cache, s).state][d] = (float)(tokens + d);
  }
  return s;
}

/* Positions of the window group before `first` need not be there. */
static void compare(place *at, quire_sequence s, int64_t tokens) {
  const quire_sequence_facts facts = facts_of(at->cache, s);
  assert_int_equal(facts.committed, tokens);
  assert_int_equal(facts.length, tokens);
  for (int64_t i = 0; i < tokens; ++i) {
    for (int e = 0; e < 3 * H * D; ++e) {
      const float *is = element(at, s, e / (H * D), i, e / D % H, e % D);
      if (e / (H * D) < 2 || i >= tokens - 5) {
        assert_non_null(is);
        assert_true(*is == content(e / (H * D), i, e / D % H, e % D));
      }
    }
  }
  for (int d = 0; d < DK && tokens > 0; ++d) {
    assert_true(at->states[facts.state][d] == (float)(tokens + d));
  }
}

static const char path[] = "sequence_file_test.safetensors";

static quire_sequence restore(place *at, const quire_prefix_key *key) {
  quire_sequence s = 0;
  MUST(quire_sequence_restore(at->cache, key, at->tensors, 4, path, &s, error));
  check_cache(at->cache);
  return s;
}

static void save(place *at, quire_sequence s) {
  const uint64_t before = fingerprint(at->cache);
  MUST(quire_sequence_save(at->cache, s, at->tensors, 4, path, error));
  assert_true(before == fingerprint(at->cache));
}

static void what_was_saved_comes_back(void **state) {
  (void)state;
  static const int64_t lengths[] = {0, 1, 3, 4, 8, TOKENS};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
    for (int with_key = 0; with_key < 2; ++with_key) {
      place from;
      place to;
      place_init(&from, 4, 2);
      place_init(&to, 8, 4); /* other block sizes */
      const quire_prefix_key *key = with_key ? &alice : NULL;
      save(&from, fill(&from, key, lengths[i]));
      (void)fill(&to, &bob, 3); /* blocks are not where they were */
      const quire_sequence s = restore(&to, key);
      compare(&to, s, lengths[i]);
      assert_int_equal(facts_of(to.cache, s).findable, with_key ? lengths[i] / 8 * 8 : 0);
      compare(&from, restore(&from, key), lengths[i]);
      grow(to.cache, s, text + lengths[i], 2); /* and goes on */
      place_release(&from);
      place_release(&to);
    }
  }
  assert_int_equal(remove(path), 0);
}

static void restored_prefixes_are_found(void **state) {
  (void)state;
  place from;
  place to;
  place_init(&from, 4, 4);
  place_init(&to, 4, 4);
  save(&from, fill(&from, &alice, TOKENS));
  const quire_sequence s = restore(&to, &alice);
  grow(to.cache, s, text + TOKENS, 5);
  int64_t matched = 0;
  MUST(quire_cache_match(to.cache, &alice, text, 20, &matched, error));
  assert_int_equal(matched, 0); /* a hybrid model: there is no checkpoint */
  assert_int_equal(facts_of(to.cache, s).findable, 16);
  place_release(&from);
  place_release(&to);
  assert_int_equal(remove(path), 0);
}

static size_t read_file(unsigned char *bytes) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t size = fread(bytes, 1, MOST, file);
  assert_true(size < MOST);
  (void)fclose(file);
  return size;
}

static void write_file(const unsigned char *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static void refused(place *at, const char *what, size_t where, const quire_prefix_key *key) {
  const uint64_t before = fingerprint(at->cache);
  quire_sequence s = 7;
  quire_error error;
  const quire_status status =
      quire_sequence_restore(at->cache, key, at->tensors, 4, path, &s, &error);
  if (status == QUIRE_OK || s != 7 || fingerprint(at->cache) != before) {
    fail_msg("%s at %zu: %s", what, where, quire_status_name(status));
  }
  if (status != QUIRE_BAD_VALUE && status != QUIRE_LIMIT) {
    fail_msg("%s at %zu: %s: %s", what, where, quire_status_name(status), error.message);
  }
}

static void damaged_files_are_refused(void **state) {
  (void)state;
  static unsigned char bytes[MOST];
  place at;
  place_init(&at, 4, 2);
  save(&at, fill(&at, &alice, 5));
  const size_t size = read_file(bytes);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] ^= (unsigned char)(1u << i % 8);
    write_file(bytes, size);
    refused(&at, "a changed bit", i, &alice);
    bytes[i] ^= (unsigned char)(1u << i % 8);
  }
  for (size_t i = 0; i < size; i += i < 600 ? 1 : 7) {
    write_file(bytes, i);
    refused(&at, "the end", i, &alice);
  }
  write_file(bytes, size + 1);
  refused(&at, "one byte more", size, &alice);
  write_file(bytes, size);
  refused(&at, "another key", 0, &bob);
  refused(&at, "no key", 0, NULL);
  compare(&at, restore(&at, &alice), 5);
  place_release(&at);
  assert_int_equal(remove(path), 0);
}

static void files_of_other_models_are_refused(void **state) {
  (void)state;
  place at;
  place_init(&at, 4, 2);
  save(&at, fill(&at, &alice, 5));
  quire_cache_tensor *tensors = at.tensors;
  tensors[1].name = "values";
  refused(&at, "another name", 1, &alice);
  tensors[1].name = "value";
  tensors[1].tensor.dtype = QUIRE_INT32;
  refused(&at, "another type", 1, &alice);
  tensors[1].tensor.dtype = QUIRE_FLOAT32;
  at.shape[3] = 2;
  refused(&at, "another shape", 0, &alice);
  at.shape[3] = D;
  const quire_cache_tensor first = tensors[0];
  tensors[0] = tensors[1];
  tensors[1] = first;
  refused(&at, "another order", 0, &alice);
  tensors[1] = tensors[0];
  tensors[0] = first;
  compare(&at, restore(&at, &alice), 5);
  place_release(&at);
  assert_int_equal(remove(path), 0);
}

typedef struct bad_tensor {
  const char *what;
  quire_status status;
  const char *name;
  quire_dtype dtype;
  int32_t ndim, group, block_axis, row_axis;
} bad_tensor;

static void tensors_are_checked(void **state) {
  (void)state;
  static const bad_tensor table[] = {
      {"no name", QUIRE_BAD_VALUE, NULL, QUIRE_FLOAT32, 4, 0, 0, 1},
      {"empty name", QUIRE_BAD_VALUE, "", QUIRE_FLOAT32, 4, 0, 0, 1},
      {"name that is used", QUIRE_BAD_VALUE, "key", QUIRE_FLOAT32, 4, 0, 0, 1},
      {"name that is reserved", QUIRE_BAD_VALUE, "quire.tokens", QUIRE_FLOAT32, 4, 0, 0, 1},
      {"name for metadata", QUIRE_BAD_VALUE, "__metadata__", QUIRE_FLOAT32, 4, 0, 0, 1},
      {"name with a quote", QUIRE_BAD_VALUE, "a\"", QUIRE_FLOAT32, 4, 0, 0, 1},
      {"no type", QUIRE_BAD_TYPE, "value", QUIRE_DTYPE_NONE, 4, 0, 0, 1},
      {"rank 0", QUIRE_BAD_RANK, "value", QUIRE_FLOAT32, 0, 0, 0, 1},
      {"rank 9", QUIRE_BAD_RANK, "value", QUIRE_FLOAT32, 9, 0, 0, 1},
      {"no group", QUIRE_BAD_VALUE, "value", QUIRE_FLOAT32, 4, 2, 0, 1},
      {"group -2", QUIRE_BAD_VALUE, "value", QUIRE_FLOAT32, 4, -2, 0, 1},
      {"block axis 4", QUIRE_BAD_SHAPE, "value", QUIRE_FLOAT32, 4, 0, 4, 1},
      {"one axis for both", QUIRE_BAD_SHAPE, "value", QUIRE_FLOAT32, 4, 0, 1, 1},
      {"rows of another size", QUIRE_BAD_SHAPE, "value", QUIRE_FLOAT32, 4, 0, 0, 2},
      {"too few blocks", QUIRE_BAD_SHAPE, "value", QUIRE_FLOAT32, 4, 0, 2, 1},
      {"a row axis in states", QUIRE_BAD_SHAPE, "value", QUIRE_FLOAT32, 4, -1, 0, 1},
  };
  place at;
  place_init(&at, 4, 2);
  const quire_sequence s = fill(&at, &alice, 5);
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
    const bad_tensor *bad = &table[i];
    const quire_cache_tensor good = at.tensors[1];
    at.tensors[1] = (quire_cache_tensor){bad->name,
                                         {at.value, 0, bad->dtype, bad->ndim, at.shape, NULL},
                                         bad->group,
                                         bad->block_axis,
                                         bad->row_axis};
    const quire_status status = quire_sequence_save(at.cache, s, at.tensors, 4, path, NULL);
    if (status != bad->status) {
      fail_msg("%s: %s", bad->what, quire_status_name(status));
    }
    at.tensors[1] = good;
  }
  assert_int_equal(quire_sequence_save(at.cache, s, at.tensors, 3, path, NULL), QUIRE_BAD_VALUE);
  assert_int_equal(quire_sequence_save(at.cache, s, at.tensors, 4, NULL, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_sequence_save(at.cache, s, at.tensors, 4, "no/such/folder", NULL),
                   QUIRE_NOT_FOUND);
  quire_sequence t = 0;
  assert_int_equal(quire_sequence_restore(at.cache, NULL, at.tensors, 4, "no such file", &t, NULL),
                   QUIRE_NOT_FOUND);
  /* A folder opens as a file does, but it cannot be read, nor be what a file is renamed to. */
  assert_int_equal(quire_sequence_restore(at.cache, NULL, at.tensors, 4, ".", &t, NULL), QUIRE_IO);
  assert_int_equal(mkdir("sequence_file_test.folder", 0700), 0);
  assert_int_equal(
      quire_sequence_save(at.cache, s, at.tensors, 4, "sequence_file_test.folder", NULL), QUIRE_IO);
  assert_int_equal(rmdir("sequence_file_test.folder"), 0);
  assert_int_equal(t, 0);
  assert_int_equal(quire_sequence_save(at.cache, 99, at.tensors, 4, path, NULL), QUIRE_NOT_FOUND);
  MUST(quire_sequence_append(at.cache, s, 1, error));
  MUST_FAIL(at.cache, QUIRE_BAD_REQUEST, "SV-7",
            quire_sequence_save(at.cache, s, at.tensors, 4, path, error));
  place_release(&at);
  assert_int_not_equal(remove(path), 0); /* a refused call leaves no file */
}

/* Rows would lie over each other: read, but never written. */
static void folded_tensors_are_not_restored_into(void **state) {
  (void)state;
  static const int64_t folded[][4] = {{0, 0, D, 1}, {H * D, H * D, D, 1}, {4 * H * D, H * D, 1, 1}};
  place at;
  place_init(&at, 4, 2);
  save(&at, fill(&at, &alice, 5));
  static float before[sizeof at.value / sizeof(float)];
  memcpy(before, at.value, sizeof before);
  for (size_t i = 0; i < sizeof folded / sizeof folded[0]; ++i) {
    quire_sequence t = 0;
    at.tensors[1].tensor.strides = folded[i];
    MUST_FAIL(at.cache, QUIRE_BAD_REQUEST, "SV-10",
              quire_sequence_restore(at.cache, NULL, at.tensors, 4, path, &t, error));
    assert_int_equal(t, 0);
    assert_memory_equal(at.value, before, sizeof before);
  }
  at.tensors[1].tensor.strides = NULL;
  compare(&at, restore(&at, &alice), 5);
  place_release(&at);
  assert_int_equal(remove(path), 0);
}

static void full_pools_refuse_to_restore(void **state) {
  (void)state;
  place at;
  place_init(&at, 4, 4);
  const quire_sequence s = fill(&at, NULL, TOKENS);
  save(&at, s);
  MUST(quire_sequence_append(at.cache, s, BLOCKS * 4 - TOKENS - 8, error)); /* two are left */
  quire_sequence t = 0;
  MUST_FAIL(at.cache, QUIRE_OUT_OF_MEMORY, "SV-3",
            quire_sequence_restore(at.cache, NULL, at.tensors, 4, path, &t, error));
  place_release(&at);
  assert_int_equal(remove(path), 0);
}

static void memory_may_fail(void **state) {
  (void)state;
  place at;
  place_init(&at, 4, 2);
  const quire_sequence s = fill(&at, &alice, 5);
  size_t before = at.counting.requests;
  save(&at, s);
  const size_t save_sites = at.counting.requests - before;
  before = at.counting.requests;
  MUST(quire_sequence_free(at.cache, restore(&at, &alice), error));
  const size_t restore_sites = at.counting.requests - before;
  assert_true(save_sites >= 4 && restore_sites >= 4);
  for (size_t site = 1; site <= save_sites + restore_sites; ++site) {
    const bool is_save = site <= save_sites;
    const size_t bytes = at.counting.bytes;
    at.counting.fail_at = at.counting.requests + (is_save ? site : site - save_sites);
    quire_sequence t = 0;
    MUST_FAIL(at.cache, QUIRE_OUT_OF_MEMORY, "",
              is_save ? quire_sequence_save(at.cache, s, at.tensors, 4, path, error)
                      : quire_sequence_restore(at.cache, &alice, at.tensors, 4, path, &t, error));
    assert_int_equal(at.counting.bytes, bytes);
    at.counting.fail_at = 0;
  }
  compare(&at, restore(&at, &alice), 5); /* what was there before is there still */
  place_release(&at);
  assert_int_equal(remove(path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_saved_comes_back),
      cmocka_unit_test(restored_prefixes_are_found),
      cmocka_unit_test(damaged_files_are_refused),
      cmocka_unit_test(files_of_other_models_are_refused),
      cmocka_unit_test(tensors_are_checked),
      cmocka_unit_test(folded_tensors_are_not_restored_into),
      cmocka_unit_test(full_pools_refuse_to_restore),
      cmocka_unit_test(memory_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
