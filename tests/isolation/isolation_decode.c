/*
 * PagedDecode: a row may see its query and the rows of the pages that its table names for the
 * tokens in its window. MergeAttentionStates: a row sees itself.
 */
#include <math.h>
#include <string.h>

#include "isolation_call.h"

enum { MOST_ROWS = 4 };

typedef struct problem {
  iso_call *call;
  quire_dtype element, pages_type;
  int64_t rows, heads, kv_heads, size, padded_size, pages, page, columns, window;
  int32_t *table, *lengths;
  iso_tensor *pages_of[2], *scales[2];
} problem;

static void choose(problem *p) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const int64_t sizes[] = {1, 3, 8, 8, 16, 17, 20, 32, 64};
  static const int64_t page_sizes[] = {1, 2, 3, 4, 8, 16, 128};
  diff_random *shape = &p->call->shape;
  p->element = floats[diff_between(shape, 0, 2)];
  p->pages_type = diff_once_in(shape, 3) ? QUIRE_INT8 : p->element;
  p->rows = diff_between(shape, 1, MOST_ROWS);
  p->kv_heads = diff_between(shape, 1, 2);
  p->heads = p->kv_heads * diff_between(shape, 1, 4);
  p->size = diff_pick(shape, sizes, 9);
  p->padded_size = p->pages_type == QUIRE_INT8 ? (p->size + 3) / 4 * 4 : p->size;
  p->page = diff_pick(shape, page_sizes, p->size <= 16 && diff_once_in(shape, 4) ? 7 : 6);
  p->columns = diff_between(shape, 1, p->page == 128 ? 9 : 6);
  p->pages = diff_between(shape, 1, p->page == 128 ? 5 : 9);
  p->window = diff_once_in(shape, 4) ? diff_between(shape, 1, 9) : 0;
}

static void add_pages(problem *p) {
  static const char *const names[2] = {"key_pages", "value_pages"};
  static const char *const scales[2] = {"key_scales", "value_scales"};
  const int64_t shape[4] = {p->kv_heads, p->pages, p->page, p->padded_size};
  const int64_t token_major[4] = {p->padded_size, p->page * p->kv_heads * p->padded_size,
                                  p->kv_heads * p->padded_size, 1};
  const int64_t scale_major[3] = {1, p->page * p->kv_heads, p->kv_heads};
  const bool is_strided = !p->call->is_device && diff_once_in(&p->call->shape, 3);
  for (int side = 0; side < 2; ++side) {
    p->pages_of[side] =
        iso_input(p->call, names[side], p->pages_type, 4, shape, is_strided ? token_major : NULL);
    p->scales[side] = p->pages_type != QUIRE_INT8
                          ? NULL
                          : iso_input(p->call, scales[side], QUIRE_FLOAT32, 3, shape,
                                      is_strided ? scale_major : NULL);
  }
}

static void add_tensors(problem *p) {
  iso_call *call = p->call;
  const int64_t query[3] = {p->rows, p->heads, p->size};
  (void)iso_input(call, "query", p->element, 3, query, NULL);
  add_pages(p);
  (void)iso_output(call, "output", p->element, 3, query, NULL);
  (void)iso_output(call, "softmax_lse", QUIRE_FLOAT32, 2, query, NULL);
  if (diff_once_in(&call->shape, 3)) {
    iso_fix(call, iso_input(call, "head_sink", p->element, 1, &p->heads, NULL), 0, p->heads, 1);
  }
  iso_number(call, "scale", 0.3);
  iso_int(call, "local_window_size", p->window > 0 ? p->window : -1);
  iso_int(call, "partial_blocks",
          diff_once_in(&call->shape, 4) ? diff_between(&call->shape, 1, 9) : 0);
}

static void make_integers(problem *p) {
  iso_call *call = p->call;
  diff_random *content = &call->content;
  p->table = iso_integers(call, "page_table", 2, p->rows, p->columns, p->pages);
  p->lengths = iso_integers(call, "context_lengths", 1, p->rows, 1, p->columns * p->page + 1);
  for (int64_t i = 0; i < p->rows * p->columns; ++i) {
    p->table[i] = (int32_t)diff_between(content, 0, p->pages - 1);
  }
  for (int64_t r = 0; r < p->rows; ++r) {
    p->lengths[r] = (int32_t)diff_between(content, 1, p->columns * p->page);
    if (p->rows > 1 && diff_once_in(content, 8)) { /* padding */
      p->lengths[r] = 0;
      p->table[r * p->columns] = -1;
    }
  }
  iso_spoil(call);
}

static int64_t first_seen(const problem *p, int64_t row) {
  return p->window > 0 && p->lengths[row] > p->window ? p->lengths[row] - p->window : 0;
}

static int32_t page_of(const problem *p, int64_t row, int64_t position) {
  return p->table[row * p->columns + position / p->page];
}

static bool exists(const problem *p, int32_t page) {
  return page >= 0 && page < p->pages;
}

/* PD-V11 and PD-V12. */
static bool is_legal(const problem *p) {
  for (int64_t r = 0; r < p->rows; ++r) {
    if (p->lengths[r] < 0 || p->lengths[r] > p->columns * p->page ||
        (p->lengths[r] == 0 && (p->rows == 1 || exists(p, p->table[r * p->columns])))) {
      return false;
    }
    for (int64_t j = first_seen(p, r); j < p->lengths[r]; ++j) {
      if (!exists(p, page_of(p, r, j))) {
        return false;
      }
    }
  }
  return true;
}

static void fix_integers(problem *p) {
  iso_fix_integers(p->call, "context_lengths", 0, p->rows);
  for (int64_t r = 0; r < p->rows; ++r) {
    if (p->lengths[r] < 0 || p->lengths[r] > p->columns * p->page) {
      continue;
    }
    if (p->lengths[r] == 0) {
      iso_fix_integers(p->call, "page_table", r * p->columns, 1);
    }
    for (int64_t c = first_seen(p, r) / p->page; c * p->page < p->lengths[r]; ++c) {
      iso_fix_integers(p->call, "page_table", r * p->columns + c, 1);
    }
  }
}

static void mark_row(problem *p, int64_t row) {
  iso_call *call = p->call;
  const bool is_own = iso_is_own(call, row);
  const int64_t width = p->heads * p->size;
  iso_mark(iso_find(call, "output"), row * width, width, is_own ? ISO_SAME : ISO_ANY);
  iso_mark(iso_find(call, "softmax_lse"), row * p->heads, p->heads, is_own ? ISO_SAME : ISO_ANY);
  if (!is_own) {
    return;
  }
  iso_fix(call, iso_find(call, "query"), row * width, width, 1);
  for (int64_t j = first_seen(p, row); j < p->lengths[row]; ++j) {
    for (int64_t h = 0; h < p->kv_heads; ++h) {
      for (int side = 0; side < 2; ++side) {
        const int64_t index[3] = {h, page_of(p, row, j), j % p->page};
        const int64_t *strides = p->pages_of[side]->strides;
        const int64_t at = h * strides[0] + index[1] * strides[1] + index[2] * strides[2];
        iso_fix(call, p->pages_of[side], at, p->size, p->pages_type == QUIRE_INT8 ? 40 : 1);
        if (p->scales[side] != NULL) {
          const int64_t *steps = p->scales[side]->strides;
          iso_fix_to(p->scales[side], h * steps[0] + index[1] * steps[1] + index[2] * steps[2],
                     0.03f);
        }
      }
    }
  }
}

void iso_make_paged_decode(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  problem p = {.call = call};
  iso_begin(call, "quire.PagedDecode", shape_seed, seed);
  choose(&p);
  add_tensors(&p);
  make_integers(&p);
  call->own = diff_between(&call->content, -1, p.rows - 1);
  call->is_legal = is_legal(&p);
  fix_integers(&p);
  for (int64_t r = 0; r < p.rows && call->is_legal; ++r) {
    mark_row(&p, r);
  }
}

void iso_make_merge(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const char *const names[2][2] = {{"output_a", "softmax_lse_a"},
                                          {"output_b", "softmax_lse_b"}};
  iso_begin(call, "quire.MergeAttentionStates", shape_seed, seed);
  const quire_dtype element = floats[diff_between(&call->shape, 0, 2)];
  const int64_t shape[3] = {diff_between(&call->shape, 0, 5), diff_between(&call->shape, 1, 3),
                            diff_between(&call->shape, 1, 40)};
  iso_tensor *outputs[2], *lses[2];
  for (int i = 0; i < 2; ++i) {
    outputs[i] = iso_input(call, names[i][0], element, 3, shape, NULL);
    lses[i] = iso_input(call, names[i][1], QUIRE_FLOAT32, 2, shape, NULL);
  }
  iso_tensor *output = iso_output(call, "output", element, 3, shape, NULL);
  iso_tensor *lse = iso_output(call, "softmax_lse", QUIRE_FLOAT32, 2, shape, NULL);
  call->own = diff_between(&call->content, -1, shape[0] > 0 ? shape[0] - 1 : -1);
  for (int64_t r = 0; r < shape[0]; ++r) {
    const unsigned after = iso_is_own(call, r) ? ISO_SAME : ISO_ANY;
    iso_mark(output, r * shape[1] * shape[2], shape[1] * shape[2], after);
    iso_mark(lse, r * shape[1], shape[1], after);
    for (int i = 0; i < 2 && iso_is_own(call, r); ++i) {
      iso_fix(call, outputs[i], r * shape[1] * shape[2], shape[1] * shape[2], 1);
      for (int64_t h = 0; h < shape[1]; ++h) {
        iso_fix_to(lses[i], r * shape[1] + h,
                   diff_once_in(&call->content, 6) ? -INFINITY : diff_normal(&call->content));
      }
    }
  }
}
