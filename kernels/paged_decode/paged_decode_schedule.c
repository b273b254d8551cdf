/* Schedule of PagedDecode: checks lengths and pages (PD-V11, PD-V12) and divides the work. */
#include "error.h"
#include "paged_decode_kernels.h"
#include "paged_work.h"

enum {
  VIEW_PAGE_TABLE,
  VIEW_CONTEXT_LENGTHS,
  VIEW_ITEMS,
  VIEW_MERGE_ROWS,
  VIEW_ATTEND_GRID,
  VIEW_MERGE_GRID,
  VIEW_QUEUE
};

typedef struct decode_uniforms {
  uint32_t num_heads;
  uint32_t kv_num_heads;
  uint32_t page_count;
  uint32_t page_size;
  uint32_t window; /* 0: none */
  uint32_t partial_blocks;
  uint32_t state_limit;
} decode_uniforms;

static const quire_pass_binding bindings[] = {
    {"page_table", QUIRE_DTYPE_BIT(QUIRE_INT32)},
    {"context_lengths", QUIRE_DTYPE_BIT(QUIRE_INT32)},
    {"items", QUIRE_DTYPE_BIT(QUIRE_INT64)},
    {"merge_rows", QUIRE_DTYPE_BIT(QUIRE_INT64)},
    {"attend_grid", QUIRE_DTYPE_BIT(QUIRE_UINT32)},
    {"merge_grid", QUIRE_DTYPE_BIT(QUIRE_UINT32)},
    {"queue", QUIRE_DTYPE_BIT(QUIRE_INT64)},
};

/*
 * A row of a batch without tokens is padding, and gives zeros, if its table says so too: its first
 * page does not exist. A length of 0 beside a page is a caller who forgot to count the new token.
 */
static bool is_padding(const quire_pass *pass, const decode_uniforms *uniforms, int64_t row) {
  const quire_view *table = &pass->views[VIEW_PAGE_TABLE];
  const int32_t page = ((const int32_t *)table->data)[row * table->stride[0]];
  const bool batch = pass->views[VIEW_CONTEXT_LENGTHS].shape[0] > 1;
  return batch && (page < 0 || (uint32_t)page >= uniforms->page_count);
}

/* PD-V11. */
static quire_status check_length(const quire_pass *pass, const decode_uniforms *uniforms,
                                 int64_t row, int64_t length) {
  const int64_t columns = pass->views[VIEW_PAGE_TABLE].shape[1];
  const int64_t pages = length / uniforms->page_size + (length % uniforms->page_size != 0);
  if (length == 0 && !is_padding(pass, uniforms, row)) {
    return quire_fail(pass->error, QUIRE_BAD_VALUE, "PD-V11", "context_lengths",
                      "entry %lld is 0, it must be at least 1 (a padding row of a batch has "
                      "length 0 and no first page: -1)",
                      (long long)row);
  }
  if (length >= 0 && pages <= columns) {
    return QUIRE_OK;
  }
  return quire_fail(pass->error, QUIRE_BAD_VALUE, "PD-V11", "context_lengths",
                    "entry %lld is %lld, it must not be negative and fit %lld pages of %lu tokens",
                    (long long)row, (long long)length, (long long)columns,
                    (unsigned long)uniforms->page_size);
}

/* PD-V12: the pages that hold visible tokens. */
static quire_status check_pages(const quire_pass *pass, const decode_uniforms *uniforms,
                                int64_t row, int64_t length) {
  const quire_view *table = &pass->views[VIEW_PAGE_TABLE];
  const int32_t *entries = (const int32_t *)table->data + row * table->stride[0];
  int64_t first;
  int64_t end;
  quire_paged_visible(length - 1, length, true, uniforms->window, &first, &end);
  for (int64_t page = first / uniforms->page_size; page * uniforms->page_size < end; ++page) {
    if (entries[page] < 0 || (uint32_t)entries[page] >= uniforms->page_count) {
      return quire_fail(pass->error, QUIRE_BAD_VALUE, "PD-V12", "page_table",
                        "entry (%lld, %lld) is %ld, the arena has %lu pages", (long long)row,
                        (long long)page, (long)entries[page], (unsigned long)uniforms->page_count);
    }
  }
  return QUIRE_OK;
}

/* A row is a sequence whose only new token stands at the last position. */
static quire_paged_sequence sequence_at(const quire_pass *pass, const decode_uniforms *uniforms,
                                        int64_t row) {
  const int32_t *lengths = pass->views[VIEW_CONTEXT_LENGTHS].data;
  const quire_paged_sequence sequence = {.index = row,
                                         .first_row = row,
                                         .row_count = 1,
                                         .first_position = (int64_t)lengths[row] - 1,
                                         .partial_blocks = uniforms->partial_blocks};
  return sequence;
}

static quire_status schedule_rows(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const decode_uniforms *uniforms = pass->uniforms;
  const int64_t rows = pass->views[VIEW_CONTEXT_LENGTHS].shape[0];
  const int32_t *lengths = pass->views[VIEW_CONTEXT_LENGTHS].data;
  for (int64_t row = 0; row < rows; ++row) {
    QUIRE_TRY(check_length(pass, uniforms, row, lengths[row]));
    QUIRE_TRY(check_pages(pass, uniforms, row, lengths[row]));
  }
  quire_paged_schedule schedule = {
      .num_heads = uniforms->num_heads,
      .kv_num_heads = uniforms->kv_num_heads,
      .window = uniforms->window,
      .causal = true,
      .row_total = rows,
      .state_limit = uniforms->state_limit,
      .item_limit = pass->views[VIEW_ITEMS].shape[0],
      .merge_limit = pass->views[VIEW_MERGE_ROWS].shape[0],
      .threads = pass->threads,
      .queue = pass->views[VIEW_QUEUE].data,
      .items = pass->views[VIEW_ITEMS].data,
      .merge_rows = pass->views[VIEW_MERGE_ROWS].data,
  };
  quire_paged_load load = {0, 0, 0};
  for (int64_t row = 0; row < rows; ++row) {
    const quire_paged_sequence sequence = sequence_at(pass, uniforms, row);
    quire_paged_count(&schedule, &sequence, &load);
  }
  quire_paged_begin(&schedule, &load);
  for (int64_t row = 0; row < rows; ++row) {
    const quire_paged_sequence sequence = sequence_at(pass, uniforms, row);
    quire_paged_add(&schedule, &sequence);
  }
  quire_paged_grid(&pass->views[VIEW_ATTEND_GRID], quire_paged_finish(&schedule), 1);
  quire_paged_grid(&pass->views[VIEW_MERGE_GRID], schedule.merge_count, schedule.num_heads);
  return QUIRE_OK;
}

static const quire_implementation implementations[] = {
    {.kernel = "paged_decode_schedule",
     .name = "paged_decode_schedule__scalar",
     .bindings = bindings,
     .binding_count = sizeof bindings / sizeof *bindings,
     .uniforms = "num_heads:u32 kv_num_heads:u32 page_count:u32 page_size:u32 window:u32 "
                 "partial_blocks:u32 state_limit:u32",
     .isa = QUIRE_ISA_SCALAR,
     .function = schedule_rows},
};

const quire_implementation_list quire_kernels_paged_decode = {
    implementations, sizeof implementations / sizeof *implementations};
