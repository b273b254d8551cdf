/*
 * PagedDecode's WebGPU variants against the CPU's scalar kernels: types, heads, pages, windows,
 * sinks, int8, forced and automatic blocks; then with lengths and pages on the device that break
 * the contract. Memory that no row may see is NaN, or 127 in int8.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "variant_data.h"

#define F32 QUIRE_FLOAT32
#define F16 QUIRE_FLOAT16
#define BF16 QUIRE_BFLOAT16

enum { ROWS = 3, HOSTILE_RUNS = 8 };

/* One call. What is 0 is off. */
typedef struct row {
  const char *variant;
  quire_dtype type;
  int64_t heads, kv_heads, size, page;
  int64_t lengths[ROWS];
  int64_t rows;
  int64_t blocks, window;
  bool int8, sink, lse;
} row;

/* clang-format off */
static const row rows[] = {
    {"direct", F16, 8, 2, 64, 16, {40, 1, 133}, 3, .lse = true},
    {"direct", F32, 3, 1, 22, 3, {17, 30}, 2, .sink = true},
    {"direct", BF16, 7, 1, 40, 16, {20, 50}, 2, .window = 9, .sink = true, .lse = true},
    {"direct", F16, 4, 2, 22, 16, {60, 9}, 2, .int8 = true, .lse = true},
    {"two_pass", F16, 4, 1, 64, 16, {1100, 5, 300}, 3, .lse = true},
    {"two_pass", F32, 6, 2, 20, 4, {90, 17}, 2, .blocks = 7, .sink = true, .lse = true},
    {"two_pass", BF16, 2, 1, 7, 16, {200, 3}, 2, .blocks = 3, .window = 50},
    {"two_pass", F16, 4, 2, 32, 16, {150, 64}, 2, .blocks = 5, .int8 = true, .sink = true},
};
/* clang-format on */

typedef struct problem {
  variant_problem base;
  int64_t columns, pages;
  int32_t *table, *lengths;
} problem;

static int64_t pages_of(const row *r, int64_t n) {
  return (r->lengths[n] + r->page - 1) / r->page;
}

/* Pages in descending order; entries behind the length are none. */
static void add_table(problem *p, const row *r) {
  p->columns = 1;
  p->pages = 2;
  for (int64_t n = 0; n < r->rows; n++) {
    p->columns = pages_of(r, n) >= p->columns ? pages_of(r, n) + 1 : p->columns;
    p->pages += pages_of(r, n);
  }
  const int64_t shape[] = {r->rows, p->columns};
  p->table = variant_add(&p->base, "page_table", QUIRE_INT32, 2, shape);
  p->lengths = variant_add(&p->base, "context_lengths", QUIRE_INT32, 1, &r->rows);
  int64_t next = p->pages - 2;
  for (int64_t n = 0; n < r->rows; n++) {
    p->lengths[n] = (int32_t)r->lengths[n];
    for (int64_t c = 0; c < p->columns; c++) {
      p->table[n * p->columns + c] = (int32_t)(c < pages_of(r, n) ? next-- : p->pages + c);
    }
  }
}

/* Elements of `width` for each token of the arena; numbers where the rows' pages lie, up to the
   lengths or (`whole`) everywhere in them. */
static void add_arena(problem *p, const row *r, const char *name, quire_dtype dtype, int64_t width,
                      bool whole) {
  const int64_t shape[] = {r->kv_heads, p->pages, r->page, width};
  const bool scales = dtype == F32 && r->int8;
  void *data = variant_add(&p->base, name, dtype, scales ? 3 : 4, shape);
  for (int64_t e = 0; e < r->kv_heads * p->pages * r->page * width; e++) {
    variant_store(dtype, data, e, NAN);
  }
  for (int64_t n = 0; n < r->rows; n++) {
    const int64_t tokens = whole ? pages_of(r, n) * r->page : r->lengths[n];
    for (int64_t i = 0; i < r->kv_heads * tokens; i++) {
      const int64_t t = i % tokens;
      const int64_t page = p->table[n * p->columns + t / r->page];
      variant_fill(&p->base, dtype, data,
                   ((i / tokens * p->pages + page) * r->page + t % r->page) * width, width);
    }
  }
}

static void make(problem *p, const row *r, uint64_t seed, bool whole) {
  memset(p, 0, sizeof *p);
  variant_begin(&p->base, "quire.PagedDecode", seed);
  const int64_t query[] = {r->rows, r->heads, r->size};
  add_table(p, r);
  (void)variant_add_floats(&p->base, "query", r->type, 3, query, -1, 1);
  const int64_t width = r->int8 ? (r->size + 3) / 4 * 4 : r->size;
  add_arena(p, r, "key_pages", r->int8 ? QUIRE_INT8 : r->type, width, whole);
  add_arena(p, r, "value_pages", r->int8 ? QUIRE_INT8 : r->type, width, whole);
  if (r->int8) {
    add_arena(p, r, "key_scales", F32, 1, whole);
    add_arena(p, r, "value_scales", F32, 1, whole);
  }
  if (r->sink) {
    (void)variant_add_floats(&p->base, "head_sink", r->type, 1, &r->heads, -1, 1);
  }
  if (r->lse) {
    variant_want(&p->base, "softmax_lse");
  }
  variant_call *call = &p->base.call;
  call->attributes[call->attribute_count++] =
      (quire_named_value){.name = "scale", .type = QUIRE_VALUE_TYPE_FLOAT, .f = 0.3};
  variant_set_int(call->attributes, &call->attribute_count, "partial_blocks", r->blocks);
  variant_set_int(call->attributes, &call->attribute_count, "local_window_size", r->window);
}

static const variant_tolerance tolerance = {2e-5};

static void test_variants(void **state) {
  variant_world *world = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    problem p;
    make(&p, &rows[i], 31 + i, false);
    print_message("row %zu: %s\n", i, rows[i].variant);
    assert_int_equal(variant_compare(world, &p.base.call, rows[i].variant, tolerance, NULL),
                     QUIRE_OK);
    variant_drop(&p.base);
  }
  variant_expect_all(world, "quire.PagedDecode");
}

/* ---- values that break the contract ---- */

static void spoil(problem *p, const row *r) {
  const int32_t pages = (int32_t)p->pages;
  const int32_t capacity = (int32_t)(p->columns * r->page);
  const int32_t entries[] = {INT32_MIN, -1, pages, pages + 1, 1 << 30, INT32_MAX};
  const int32_t lengths[] = {INT32_MIN, -1, 0, capacity, capacity + 1, INT32_MAX};
  for (int64_t i = 0; i < r->rows * p->columns; i++) {
    if (variant_random(&p->base, 6) == 0) {
      p->table[i] = entries[variant_random(&p->base, 6)];
    }
  }
  for (int64_t n = 0; n < r->rows; n++) {
    if (variant_random(&p->base, 2) == 0) {
      p->lengths[n] = lengths[variant_random(&p->base, 6)];
    }
  }
}

/* What is left of each row: its tokens in pages that exist, close together. Only the last page of a
   row may be in part, so the order stays. */
static void make_harmless(const problem *p, const row *r, problem *harmless) {
  const int32_t capacity = (int32_t)(p->columns * r->page);
  for (int64_t n = 0; n < r->rows; n++) {
    const int32_t given = p->lengths[n] < 0 ? 0 : p->lengths[n];
    const int32_t length = given > capacity ? capacity : given;
    int64_t used = 0;
    harmless->lengths[n] = 0;
    for (int64_t c = 0; c * r->page < length; c++) {
      const int32_t page = p->table[n * p->columns + c];
      const int64_t tokens = length - c * r->page < r->page ? length - c * r->page : r->page;
      if (page >= 0 && page < p->pages) {
        harmless->table[n * p->columns + used++] = page;
        harmless->lengths[n] += (int32_t)tokens;
      }
    }
    for (; used < p->columns; used++) {
      harmless->table[n * p->columns + used] = -1;
    }
  }
}

static void test_hostile_values(void **state) {
  variant_world *world = *state;
  size_t runs = 0;
  size_t refused = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (uint64_t seed = 0; rows[i].window == 0 && seed < HOSTILE_RUNS; seed++) {
      problem p;
      problem harmless;
      make(&p, &rows[i], 100 * i + seed, true);
      make(&harmless, &rows[i], 100 * i + seed, true);
      spoil(&p, &rows[i]);
      make_harmless(&p, &rows[i], &harmless);
      print_message("row %zu: %s, seed %d\n", i, rows[i].variant, (int)seed);
      assert_int_equal(
          variant_compare_as(world, &p.base.call, &harmless.base.call, rows[i].variant, tolerance),
          QUIRE_OK);
      refused += variant_is_refused(world, &p.base.call, rows[i].variant);
      variant_drop(&harmless.base);
      variant_drop(&p.base);
      runs++;
    }
  }
  print_message("%zu calls with hostile values, %zu refused when checked\n", runs, refused);
  assert_true(refused > 0);
}

int main(void) {
  struct CMUnitTest tests[] = {
      cmocka_unit_test(test_variants),
      cmocka_unit_test(test_hostile_values),
  };
  return variant_main("paged decode on webgpu", tests, sizeof tests / sizeof *tests);
}
