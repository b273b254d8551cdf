/* Random calls of PagedDecode and MergeAttentionStates. */
#include <math.h>

#include "differential_call.h"

enum { MOST_ROWS = 6 };

typedef struct problem {
  quire_dtype element, cache;
  int64_t rows, kv_heads, heads, size, pages, page, columns, window;
  int64_t lengths[MOST_ROWS];
  int32_t *table;
} problem;

static void choose(diff_call *call, problem *p) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const int64_t sizes[] = {1, 3, 16, 32, 64, 80, 128, 256, 257};
  static const int64_t groups[] = {1, 2, 4, 5, 8};
  static const int64_t pages[] = {1, 7, 16, 32};
  static const int64_t lengths[] = {1, 2, 63, 64, 65, 300, 512, 1023, 1024, 1025, 1700};
  p->element = floats[call->seed % 3];
  p->cache = diff_once_in(&call->random, 3) ? QUIRE_INT8 : p->element;
  p->rows = diff_between(&call->random, 1, MOST_ROWS);
  p->kv_heads = diff_between(&call->random, 1, 3);
  p->heads = p->kv_heads * diff_pick(&call->random, groups, 5);
  p->size = diff_pick(&call->random, sizes, 9);
  p->page = diff_pick(&call->random, pages, 4);
  p->window = diff_once_in(&call->random, 4) ? diff_between(&call->random, 1, 300) : 0;
  int64_t longest = 1;
  for (int64_t r = 0; r < p->rows; ++r) {
    p->lengths[r] = diff_pick(&call->random, lengths, 11);
    longest = p->lengths[r] > longest ? p->lengths[r] : longest;
  }
  p->columns = (longest + p->page - 1) / p->page + diff_between(&call->random, 0, 2);
}

static void make_table(diff_call *call, problem *p) {
  const int64_t shape[2] = {p->rows, p->columns};
  const diff_tensor *table = diff_add(call, "page_table", false, QUIRE_INT32, 2, shape, NULL);
  p->table = table->tensor.data;
  p->pages = 1;
  for (int64_t r = 0; r < p->rows; ++r) {
    for (int64_t c = 0; c * p->page < p->lengths[r]; ++c) {
      p->table[r * p->columns + c] = (int32_t)p->pages++;
    }
  }
  for (int64_t i = 0; i < p->rows * p->columns; ++i) { /* used entries, in random order */
    const int64_t other = diff_between(&call->random, 0, i);
    const int32_t mine = p->table[i];
    if (mine < p->pages && p->table[other] < p->pages) {
      p->table[i] = p->table[other];
      p->table[other] = mine;
    }
  }
}

/* Numbers for tokens that some row sees; `size` of pages, 1 of their scales. */
static void fill_pages(diff_call *call, const problem *p, const diff_tensor *pages, int64_t size,
                       float mean, float scale) {
  for (int64_t r = 0; r < p->rows; ++r) {
    const int64_t first =
        p->window > 0 && p->lengths[r] > p->window ? p->lengths[r] - p->window : 0;
    for (int64_t j = first; j < p->lengths[r]; ++j) {
      const int64_t page = p->table[r * p->columns + j / p->page];
      for (int64_t h = 0; h < p->kv_heads; ++h) {
        for (int64_t d = 0; d < size; ++d) {
          const int64_t at =
              h * pages->strides[0] + page * pages->strides[1] + j % p->page * pages->strides[2];
          diff_store(pages, at + d, mean + diff_normal(&call->random) * scale);
        }
      }
    }
  }
}

static void add_pages(diff_call *call, const problem *p) {
  const bool is_int8 = p->cache == QUIRE_INT8;
  const int64_t size = is_int8 ? (p->size + 3) / 4 * 4 : p->size; /* whole words */
  const int64_t shape[4] = {p->kv_heads, p->pages, p->page, size};
  const int64_t token_major[4] = {size, p->page * p->kv_heads * size, p->kv_heads * size, 1};
  const int64_t scale_major[3] = {1, p->page * p->kv_heads, p->kv_heads};
  const bool is_token_major = diff_once_in(&call->random, 3);
  static const char *const names[2] = {"key_pages", "value_pages"};
  static const char *const scales[2] = {"key_scales", "value_scales"};
  for (int i = 0; i < 2; ++i) {
    const diff_tensor *pages =
        diff_add(call, names[i], false, p->cache, 4, shape, is_token_major ? token_major : NULL);
    fill_pages(call, p, pages, p->size, 0, is_int8 ? 50 : 1);
    if (is_int8) {
      const diff_tensor *scale = diff_add(call, scales[i], false, QUIRE_FLOAT32, 3, shape,
                                          is_token_major ? scale_major : NULL);
      fill_pages(call, p, scale, 1, 0.02f, 0.01f);
    }
  }
}

void diff_make_paged_decode(diff_call *call, uint64_t seed) {
  problem p = {0};
  diff_call_begin(call, "quire.PagedDecode", seed);
  call->flags = QUIRE_RUN_STRICT;
  choose(call, &p);
  diff_say(call, " %s, pages %s, heads %lld/%lld, size %lld, pages of %lld, window %lld, lengths",
           quire_dtype_name(p.element), quire_dtype_name(p.cache), (long long)p.heads,
           (long long)p.kv_heads, (long long)p.size, (long long)p.page, (long long)p.window);
  for (int64_t r = 0; r < p.rows; ++r) {
    diff_say(call, " %lld", (long long)p.lengths[r]);
  }
  const int64_t shape[3] = {p.rows, p.heads, p.size};
  make_table(call, &p);
  diff_fill(call, diff_add(call, "query", false, p.element, 3, shape, NULL), 1);
  add_pages(call, &p);
  const diff_tensor *lengths =
      diff_add(call, "context_lengths", false, QUIRE_INT32, 1, &p.rows, NULL);
  for (int64_t r = 0; r < p.rows; ++r) {
    diff_store(lengths, r, (float)p.lengths[r]);
  }
  diff_number(call, "scale", 0.25);
  if (p.window > 0) {
    diff_integer(call, "local_window_size", p.window);
  }
  if (diff_once_in(&call->random, 4)) {
    diff_integer(call, "partial_blocks", diff_between(&call->random, 1, 40));
  }
  if (diff_once_in(&call->random, 4)) {
    diff_fill(call, diff_add(call, "head_sink", false, p.element, 1, &p.heads, NULL), 2);
  }
  (void)diff_add(call, "output", true, p.element, 3, shape, NULL);
  if (diff_once_in(&call->random, 2)) {
    (void)diff_add(call, "softmax_lse", true, QUIRE_FLOAT32, 2, shape, NULL);
  }
  diff_call_end(call);
}

void diff_make_merge(diff_call *call, uint64_t seed) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const int64_t sizes[] = {1, 3, 15, 16, 17, 40, 64, 128, 257};
  const quire_dtype element = floats[seed % 3];
  diff_call_begin(call, "quire.MergeAttentionStates", seed);
  const int64_t shape[3] = {diff_between(&call->random, 0, 9), diff_between(&call->random, 1, 5),
                            diff_pick(&call->random, sizes, 9)};
  diff_say(call, " %s, %lld rows, %lld heads, size %lld", quire_dtype_name(element),
           (long long)shape[0], (long long)shape[1], (long long)shape[2]);
  static const char *const parts[2][2] = {{"output_a", "softmax_lse_a"},
                                          {"output_b", "softmax_lse_b"}};
  for (int i = 0; i < 2; ++i) {
    diff_fill(call, diff_add(call, parts[i][0], false, element, 3, shape, NULL), 1);
    const diff_tensor *lse = diff_add(call, parts[i][1], false, QUIRE_FLOAT32, 2, shape, NULL);
    for (int64_t k = 0; k < shape[0] * shape[1]; ++k) { /* an empty part now and then */
      diff_store(lse, k,
                 diff_once_in(&call->random, 6) ? -INFINITY : diff_normal(&call->random) * 5);
    }
  }
  (void)diff_add(call, "output", true, element, 3, shape, NULL);
  (void)diff_add(call, "softmax_lse", true, QUIRE_FLOAT32, 2, shape, NULL);
  diff_call_end(call);
}
