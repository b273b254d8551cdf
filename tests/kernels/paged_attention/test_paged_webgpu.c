/*
 * Every WebGPU variant against the CPU's scalar kernels: types, groups, head and block sizes,
 * windows, caps, sinks, int8 caches, slots, holes and mixed batches. Memory that no token may see
 * is NaN, around the tensors too.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "numeric.h"
#include "variant_compare.h"

#define F32 QUIRE_FLOAT32
#define F16 QUIRE_FLOAT16
#define BF16 QUIRE_BFLOAT16

enum { SEQUENCES = 4 };

/* One call. What is 0 is off; scale 0 is the default. */
typedef struct row {
  const char *variant;
  quire_dtype type;
  int64_t heads, kv_heads, size, block;
  int64_t past[SEQUENCES], fresh[SEQUENCES];
  int64_t sequences;
  const char *quantised; /* PER_TENSOR or PER_CHANNEL */
  int64_t window;
  double scale, softcap;
  bool sink, non_causal, packed, slots, lse;
  bool holes;                /* a block of the history is unmapped, and one that is written to */
  bool poison;               /* the last token's value is NaN: only rows that see it may show it */
  int64_t range, rows, keys; /* tunables */
} row;

/* clang-format off */
static const row rows[] = {
    /* decode: ranges of few keys, so that there are many of them */
    {"decode_subgroups", F16, 8, 2, 128, 16, {300, 0, 77}, {1, 1, 1}, 3, .range = 128},
    {"decode_subgroups", F16, 6, 2, 96, 3, {40, 200, 5}, {2, 1, 0}, 3, .window = 30, .sink = true, .lse = true, .range = 64},
    {"decode_subgroups", F32, 2, 2, 40, 1, {90, 17}, {1, 3}, 2, .softcap = 2, .packed = true, .holes = true},
    {"decode_subgroups", BF16, 16, 1, 128, 16, {130}, {4}, 1, .non_causal = true, .slots = true, .range = 64},
    {"decode_subgroups", F16, 7, 1, 64, 16, {33, 100}, {1, 1}, 2, "PER_TENSOR", .lse = true, .sink = true, .range = 32},
    {"decode_subgroups", F32, 4, 2, 256, 48, {100, 20}, {1, 2}, 2, "PER_CHANNEL", .holes = true},
    {"decode_subgroups", F16, 4, 4, 8, 256, {300, 3}, {1, 1}, 2, .scale = -0.5, .packed = true},
    {"decode", F16, 8, 2, 128, 16, {300, 0, 77}, {1, 1, 1}, 3, .range = 128},
    {"decode", F16, 6, 2, 96, 3, {40, 200, 5}, {2, 1, 0}, 3, .window = 30, .sink = true, .lse = true, .range = 64},
    {"decode", F32, 2, 2, 40, 1, {90, 17}, {1, 3}, 2, .softcap = 2, .packed = true, .holes = true},
    {"decode", BF16, 16, 1, 128, 16, {130}, {4}, 1, .non_causal = true, .slots = true, .range = 64},
    {"decode", F16, 7, 1, 64, 16, {33, 100}, {1, 1}, 2, "PER_CHANNEL", .lse = true, .sink = true, .range = 32},
    {"decode", F32, 4, 2, 256, 48, {100, 20}, {1, 2}, 2, "PER_TENSOR", .holes = true},
    {"decode", F16, 4, 4, 8, 256, {300, 3}, {1, 1}, 2, .scale = -0.5, .packed = true},
    /* the same in one pass less */
    {"decode_subgroups_stored", F16, 8, 2, 64, 16, {30, 0, 77}, {1, 1, 0}, 3, .slots = true, .sink = true},
    {"decode_subgroups_stored", F32, 2, 1, 16, 3, {30, 9}, {4, 1}, 2, .packed = true, .holes = true},
    {"decode_stored", BF16, 8, 2, 64, 16, {30, 0, 77}, {1, 1, 0}, 3, .slots = true, .sink = true},
    {"decode_stored", F32, 2, 1, 16, 3, {30, 9}, {4, 1}, 2, .packed = true, .holes = true},
    /* tiles, beside rows of short sequences */
    {"prefill_subgroups", F16, 4, 2, 128, 16, {0, 40, 9, 100}, {37, 1, 0, 8}, 4, .lse = true},
    {"prefill_subgroups", F32, 3, 1, 40, 3, {70, 3}, {33, 9}, 2, .window = 20, .sink = true, .poison = true},
    {"prefill_subgroups", F16, 10, 2, 64, 16, {5, 150}, {21, 1}, 2, "PER_CHANNEL", .lse = true, .sink = true, .range = 64},
    {"prefill", F16, 4, 2, 128, 16, {0, 40, 9, 100}, {37, 1, 0, 8}, 4, .poison = true, .slots = true},
    {"prefill", BF16, 2, 1, 80, 16, {100}, {70}, 1, .softcap = 3, .packed = true, .holes = true, .lse = true},
    {"prefill", F16, 66, 1, 8, 16, {20, 7}, {19, 1}, 2, .non_causal = true},
    {"prefill", F32, 2, 1, 256, 16, {0}, {20}, 1, .quantised = "PER_TENSOR"},
    {"prefill", F16, 2, 2, 128, 16, {60}, {80}, 1, .poison = true, .rows = 64, .keys = 128},
    /* any shape */
    {"general", F16, 6, 2, 5, 3, {40, 12, 0}, {3, 0, 11}, 3, .slots = true, .lse = true, .poison = true},
    {"general", BF16, 3, 3, 7, 16, {20}, {5}, 1, .packed = true, .holes = true, .softcap = 5},
    {"general", F16, 2, 1, 3, 4, {9, 30}, {2, 1}, 2, "PER_CHANNEL", .sink = true, .lse = true},
    {"general", F32, 2, 1, 20, 16, {70}, {2}, 1, "PER_TENSOR", .window = 9},
    {"general", F32, 2, 1, 1100, 2, {5}, {2}, 1, .non_causal = true},
    {"general", F16, 71, 1, 64, 16, {3}, {12}, 1, .sink = true},
    {"general", F16, 2, 1, 16, 2, {0}, {0}, .sequences = 1},
};
/* clang-format on */

/* ---- data ---- */

typedef struct problem {
  variant_call call;
  void *owned[VARIANT_MAX_TENSORS];
  size_t owned_count;
  uint64_t random;
  int64_t tokens, columns, blocks;
  int32_t *table;
} problem;

static float uniform(problem *p) {
  p->random = p->random * 6364136223846793005u + 1442695040888963407u;
  return 2 * (float)(p->random >> 40) / (float)(1 << 24) - 1;
}

static void *add(problem *p, const char *name, quire_dtype dtype, int32_t ndim,
                 const int64_t *shape) {
  variant_tensor *tensor = &p->call.inputs[p->call.input_count++];
  *tensor = (variant_tensor){.name = name, .dtype = dtype, .ndim = ndim};
  size_t count = 1;
  for (int32_t d = 0; d < ndim; d++) {
    tensor->shape[d] = shape[d];
    count *= (size_t)shape[d];
  }
  void *data = calloc(count + 1, quire_dtype_size(dtype));
  assert_non_null(data);
  p->owned[p->owned_count++] = data;
  tensor->data = data;
  return data;
}

static void store(quire_dtype dtype, void *data, int64_t index, float value) {
  if (dtype == F32) {
    ((float *)data)[index] = value;
  } else if (dtype == F16) {
    ((uint16_t *)data)[index] = quire_f32_to_f16(value);
  } else if (dtype == BF16) {
    ((uint16_t *)data)[index] = quire_f32_to_bf16(value);
  } else {
    ((int8_t *)data)[index] = (int8_t)(isnan(value) ? 0 : lrintf(60 * value));
  }
}

static void fill(problem *p, quire_dtype dtype, void *data, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; i++) {
    store(dtype, data, i, uniform(p));
  }
}

static int64_t keys_of(const row *r, int64_t n) {
  return r->past[n] + r->fresh[n];
}

/* Blocks in descending order; columns behind the live length hold what must not be used. */
static void add_table(problem *p, const row *r) {
  p->columns = 1;
  p->blocks = 2;
  for (int64_t n = 0; n < r->sequences; n++) {
    const int64_t used = (keys_of(r, n) + r->block - 1) / r->block;
    p->columns = used + 1 > p->columns ? used + 1 : p->columns;
    p->blocks += used;
  }
  const int64_t shape[] = {r->sequences, p->columns};
  int32_t *table = add(p, "block_table", QUIRE_INT32, 2, shape);
  p->table = table;
  int64_t next = p->blocks - 2;
  for (int64_t n = 0; n < r->sequences; n++) {
    for (int64_t c = 0; c < p->columns; c++) {
      const bool used = c * r->block < keys_of(r, n);
      table[n * p->columns + c] = (int32_t)(used ? next-- : p->blocks + c % 2 * 1000000);
    }
  }
  if (r->holes) {
    table[1] = -1;
    table[(keys_of(r, 0) - 1) / r->block] = (int32_t)p->blocks;
  }
}

/* NaN wherever no key of a sequence lies. */
static void add_caches(problem *p, const row *r) {
  const quire_dtype dtype = r->quantised != NULL ? QUIRE_INT8 : r->type;
  const int64_t shape[] = {p->blocks, r->block, r->kv_heads, r->size};
  const int64_t width = r->kv_heads * r->size;
  static const char *const names[] = {"key_cache", "value_cache"};
  for (size_t i = 0; i < 2; i++) {
    void *cache = add(p, names[i], dtype, 4, shape);
    for (int64_t e = 0; e < p->blocks * r->block * width; e++) {
      store(dtype, cache, e, NAN);
    }
    for (int64_t n = 0; n < r->sequences; n++) {
      for (int64_t j = 0; j < keys_of(r, n); j++) {
        const int64_t block = p->table[n * p->columns + j / r->block];
        if (block >= 0 && block < p->blocks) {
          fill(p, dtype, cache, (block * r->block + j % r->block) * width, width);
        }
      }
    }
  }
}

static void add_rows(problem *p, const row *r) {
  const int64_t queries = r->heads * r->size;
  const int64_t keys = r->kv_heads * r->size;
  const int64_t width = r->packed ? queries + 2 * keys : queries;
  const int64_t query_shape[] = {p->tokens, width};
  void *query = add(p, "query", r->type, 2, query_shape);
  fill(p, r->type, query, 0, p->tokens * width);
  if (!r->packed) {
    const int64_t shape[] = {p->tokens, keys};
    void *key = add(p, "key", r->type, 2, shape);
    fill(p, r->type, key, 0, p->tokens * keys);
    void *value = add(p, "value", r->type, 2, shape);
    fill(p, r->type, value, 0, p->tokens * keys);
    for (int64_t e = (p->tokens - 1) * keys; r->poison && e < p->tokens * keys; e++) {
      store(r->type, value, e, NAN);
    }
  }
}

static void add_lengths(problem *p, const row *r) {
  const int64_t ends = r->sequences + 1;
  int32_t *cumulative = add(p, "cumulative_sequence_length", QUIRE_INT32, 1, &ends);
  int32_t *past = add(p, "past_seqlens", QUIRE_INT32, 1, &r->sequences);
  int32_t *slots = r->slots ? add(p, "slot_mapping", QUIRE_INT32, 1, &p->tokens) : NULL;
  for (int64_t n = 0; n < r->sequences; n++) {
    past[n] = (int32_t)r->past[n];
    cumulative[n + 1] = cumulative[n] + (int32_t)r->fresh[n];
    for (int64_t i = 0; slots != NULL && i < r->fresh[n]; i++) {
      const int64_t at = r->past[n] + i;
      slots[cumulative[n] + i] =
          (int32_t)(p->table[n * p->columns + at / r->block] * r->block + at % r->block);
    }
  }
  if (slots != NULL) { /* stored nowhere, or where no sequence sees it */
    slots[0] = -1;
    slots[1] = (int32_t)((p->blocks - 1) * r->block);
  }
}

/* Powers of two: their reciprocals are exact, so that the CPU's rounding is the only one. */
static void add_scales(problem *p, const row *r) {
  const bool by_channel = strcmp(r->quantised, "PER_CHANNEL") == 0;
  const int64_t shape[] = {by_channel ? r->kv_heads : 1, 1, r->size};
  static const char *const names[] = {"k_scale", "v_scale"};
  for (size_t i = 0; i < 2; i++) {
    float *scale = add(p, names[i], F32, by_channel ? 3 : 1, shape);
    for (int64_t e = 0; e < (by_channel ? r->kv_heads * r->size : 1); e++) {
      scale[e] = e % 5 == 4 ? 0 : ldexpf(1, -5 - (int)(e % 3));
    }
  }
}

static void set_float(variant_call *call, const char *name, double value) {
  call->attributes[call->attribute_count++] =
      (quire_named_value){.name = name, .type = QUIRE_VALUE_TYPE_FLOAT, .f = value};
}

static void set_values(variant_call *call, const row *r) {
  variant_set_int(call->attributes, &call->attribute_count, "num_heads", r->heads);
  variant_set_int(call->attributes, &call->attribute_count, "kv_num_heads", r->kv_heads);
  variant_set_int(call->attributes, &call->attribute_count, "is_causal", !r->non_causal);
  variant_set_int(call->attributes, &call->attribute_count, "local_window_size", r->window);
  set_float(call, "scale", r->scale);
  set_float(call, "softcap", r->softcap);
  if (r->quantised != NULL) {
    variant_set_text(call->attributes, &call->attribute_count, "k_quant_type", r->quantised);
    variant_set_text(call->attributes, &call->attribute_count, "v_quant_type", r->quantised);
  }
  const struct {
    const char *name;
    int64_t value;
  } tunables[] = {{"rangeKeys", r->range}, {"tileRows", r->rows}, {"prefillKeys", r->keys}};
  for (size_t i = 0; i < sizeof tunables / sizeof *tunables; i++) {
    if (tunables[i].value != 0) {
      variant_set_int(call->tunables, &call->tunable_count, tunables[i].name, tunables[i].value);
    }
  }
}

static void make(problem *p, const row *r, uint64_t seed) {
  memset(p, 0, sizeof *p);
  p->random = seed;
  p->call.op = "com.microsoft.PagedAttention";
  for (int64_t n = 0; n < r->sequences; n++) {
    p->tokens += r->fresh[n];
  }
  add_table(p, r);
  add_rows(p, r);
  add_caches(p, r);
  add_lengths(p, r);
  if (r->quantised != NULL) {
    add_scales(p, r);
  }
  if (r->sink) {
    fill(p, r->type, add(p, "head_sink", r->type, 1, &r->heads), 0, r->heads);
  }
  if (r->lse) {
    p->call.outputs[p->call.output_count++] = (variant_tensor){.name = "softmax_lse", .ndim = -1};
  }
  set_values(&p->call, r);
}

static void drop(problem *p) {
  for (size_t i = 0; i < p->owned_count; i++) {
    free(p->owned[i]);
  }
}

/* ---- tests ---- */

static void check_complete(const variant_world *world) {
  const quire_operator *op =
      quire_context_find_operator(world->context, "com.microsoft.PagedAttention");
  for (size_t v = 0; v < quire_operator_variant_count(op); v++) {
    const char *name = quire_operator_variant_name(op, v);
    bool found = strcmp(quire_operator_variant_backend(op, v), "webgpu") != 0;
    for (size_t i = 0; !found && i < sizeof rows / sizeof *rows; i++) {
      found = strcmp(rows[i].variant, name) == 0;
    }
    if (!found) {
      fail_msg("no row insists on %s", name);
    }
  }
}

static void test_variants(void **state) {
  (void)state;
  variant_world world;
  variant_open(&world, true, false);
  check_complete(&world);
  for (size_t i = 0; world.gpu != NULL && i < sizeof rows / sizeof *rows; i++) {
    problem p;
    make(&p, &rows[i], 4711 + i);
    const char *chosen = "";
    print_message("row %zu: %s\n", i, rows[i].variant);
    const variant_tolerance tolerance = {2e-5};
    if (variant_compare(&world, &p.call, rows[i].variant, tolerance, &chosen) != QUIRE_OK) {
      fail_msg("row %zu: %s is not offered", i, rows[i].variant);
    }
    assert_string_equal(chosen, rows[i].variant);
    drop(&p);
  }
  const bool skipped = world.gpu == NULL;
  variant_close(&world);
  if (skipped) {
    skip();
  }
}

/* What every device guarantees, without subgroups, serves everything: the planner's own choice. */
static void test_default_limits(void **state) {
  (void)state;
  variant_world world;
  variant_open(&world, false, true);
  for (size_t i = 1; world.gpu != NULL && i < sizeof rows / sizeof *rows; i += 4) {
    problem p;
    make(&p, &rows[i], 42 + i);
    p.call.tunable_count = 0;
    const variant_tolerance tolerance = {2e-5};
    const char *chosen = "";
    if (variant_compare(&world, &p.call, NULL, tolerance, &chosen) != QUIRE_OK) {
      fail_msg("row %zu is refused", i);
    }
    assert_null(strstr(chosen, "subgroups"));
    drop(&p);
  }
  const bool skipped = world.gpu == NULL;
  variant_close(&world);
  if (skipped) {
    skip();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_variants),
      cmocka_unit_test(test_default_limits),
  };
  return cmocka_run_group_tests_name("paged attention on webgpu", tests, NULL, NULL);
}
