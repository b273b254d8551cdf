/* Schedule: checks the lengths (PA-V13), finds the slots, and divides the work. */
#include "error.h"
#include "paged_attention_passes.h"
#include "paged_work.h"

enum {
  VIEW_CUMULATIVE,
  VIEW_PAST,
  VIEW_BLOCK_TABLE,
  VIEW_SLOT_MAPPING,
  VIEW_METADATA,
  VIEW_SLOTS,
  VIEW_ITEMS,
  VIEW_MERGE_ROWS,
  VIEW_ATTEND_GRID,
  VIEW_MERGE_GRID,
  VIEW_QUEUE,
  VIEW_ATTEND_ROWS /* its form only */
};

typedef struct schedule_uniforms {
  uint32_t num_heads;
  uint32_t kv_num_heads;
  uint32_t block_count;
  uint32_t block_size;
  uint32_t window; /* 0: none */
  uint32_t is_causal;
  uint32_t state_limit;
} schedule_uniforms;

const quire_pass_binding quire_paged_attention_schedule_bindings[QUIRE_SCHEDULE_BINDING_COUNT] = {
    {"cumulative_sequence_length", QUIRE_DTYPE_BIT(QUIRE_INT32)},
    {"past_seqlens", QUIRE_DTYPE_BIT(QUIRE_INT32)},
    {"block_table", QUIRE_DTYPE_BIT(QUIRE_INT32)},
    {"slot_mapping", QUIRE_DTYPE_BIT(QUIRE_INT32)},
    {"attention_metadata", QUIRE_DTYPE_BIT(QUIRE_INT32)},
    {"slots", QUIRE_DTYPE_BIT(QUIRE_INT64)},
    {"items", QUIRE_DTYPE_BIT(QUIRE_INT64)},
    {"merge_rows", QUIRE_DTYPE_BIT(QUIRE_INT64)},
    {"attend_grid", QUIRE_DTYPE_BIT(QUIRE_UINT32)},
    {"merge_grid", QUIRE_DTYPE_BIT(QUIRE_UINT32)},
    {"queue", QUIRE_DTYPE_BIT(QUIRE_INT64)},
    {"attend_rows", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
};

static const int32_t *values_of(const quire_pass *pass, int view) {
  return pass->views[view].data;
}

static quire_paged_sequence sequence_at(const quire_pass *pass, int64_t index) {
  const int32_t *cumulative = values_of(pass, VIEW_CUMULATIVE);
  const quire_paged_sequence sequence = {
      .index = index,
      .first_row = cumulative[index],
      .row_count = (int64_t)cumulative[index + 1] - cumulative[index],
      .first_position = values_of(pass, VIEW_PAST)[index],
      .partial_blocks = 0,
  };
  return sequence;
}

/* PA-V13 for the prefix sums as such. */
static quire_status check_cumulative(const quire_pass *pass) {
  const int32_t *cumulative = values_of(pass, VIEW_CUMULATIVE);
  const int64_t sequences = pass->views[VIEW_PAST].shape[0];
  const int64_t rows = pass->views[VIEW_SLOTS].shape[0];
  const char *subject = "cumulative_sequence_length";
  if (cumulative[0] != 0) {
    return quire_fail(pass->error, QUIRE_BAD_VALUE, "PA-V13", subject,
                      "entry 0 is %ld, it must be 0", (long)cumulative[0]);
  }
  for (int64_t i = 0; i < sequences; ++i) {
    if (cumulative[i + 1] < cumulative[i]) {
      return quire_fail(pass->error, QUIRE_BAD_VALUE, "PA-V13", subject,
                        "entry %lld is %ld, less than %ld before it", (long long)i + 1,
                        (long)cumulative[i + 1], (long)cumulative[i]);
    }
  }
  if (cumulative[sequences] != rows) {
    return quire_fail(pass->error, QUIRE_BAD_VALUE, "PA-V13", subject,
                      "the last entry is %ld, query has %lld tokens", (long)cumulative[sequences],
                      (long long)rows);
  }
  return QUIRE_OK;
}

/* PA-V13 for the lengths of every sequence. */
static quire_status check_lengths(const quire_pass *pass, const schedule_uniforms *uniforms) {
  const int64_t sequences = pass->views[VIEW_PAST].shape[0];
  const int64_t columns = pass->views[VIEW_BLOCK_TABLE].shape[1];
  for (int64_t i = 0; i < sequences; ++i) {
    const quire_paged_sequence sequence = sequence_at(pass, i);
    if (sequence.first_position < 0) {
      return quire_fail(pass->error, QUIRE_BAD_VALUE, "PA-V13", "past_seqlens",
                        "entry %lld is %lld, it must not be negative", (long long)i,
                        (long long)sequence.first_position);
    }
    const int64_t total = sequence.first_position + sequence.row_count;
    const int64_t blocks = total / uniforms->block_size + (total % uniforms->block_size != 0);
    if (blocks > columns) {
      return quire_fail(pass->error, QUIRE_BAD_VALUE, "PA-V13", "past_seqlens",
                        "sequence %lld has %lld past and %lld new tokens, its block table holds "
                        "%lld blocks of %lu",
                        (long long)i, (long long)sequence.first_position,
                        (long long)sequence.row_count, (long long)columns,
                        (unsigned long)uniforms->block_size);
    }
  }
  return QUIRE_OK;
}

/* X10: bounds are hints, but they are never negative. */
static quire_status check_metadata(const quire_pass *pass) {
  const int32_t *metadata = values_of(pass, VIEW_METADATA);
  for (int64_t i = 0; metadata != NULL && i < pass->views[VIEW_METADATA].shape[0]; ++i) {
    if (metadata[i] < 0) {
      return quire_fail(pass->error, QUIRE_BAD_VALUE, "X10", "attention_metadata",
                        "entry %lld is %ld, it must not be negative", (long long)i,
                        (long)metadata[i]);
    }
  }
  return QUIRE_OK;
}

/* Strict runs: every block that holds a visible key exists. */
static quire_status check_table(const quire_pass *pass, const schedule_uniforms *uniforms) {
  const quire_view *table = &pass->views[VIEW_BLOCK_TABLE];
  for (int64_t i = 0; i < pass->views[VIEW_PAST].shape[0]; ++i) {
    const quire_paged_sequence sequence = sequence_at(pass, i);
    const int64_t end = sequence.first_position + sequence.row_count;
    int64_t first;
    int64_t unused;
    quire_paged_visible(sequence.first_position, end, uniforms->is_causal != 0, uniforms->window,
                        &first, &unused);
    if (sequence.row_count == 0) {
      continue;
    }
    const int32_t *entries = (const int32_t *)table->data + i * table->stride[0];
    for (int64_t column = first / uniforms->block_size; column * uniforms->block_size < end;
         ++column) {
      const int32_t block = entries[column];
      if (block < 0 || (uint32_t)block >= uniforms->block_count) {
        return quire_fail(pass->error, QUIRE_BAD_VALUE, "PA-E9", "block_table",
                          "entry (%lld, %lld) is %ld, the cache has %lu blocks", (long long)i,
                          (long long)column, (long)block, (unsigned long)uniforms->block_count);
      }
    }
  }
  return QUIRE_OK;
}

/* Strict runs: every slot exists, or is -1. */
static quire_status check_slots(const quire_pass *pass, const schedule_uniforms *uniforms) {
  const int32_t *mapping = values_of(pass, VIEW_SLOT_MAPPING);
  const int64_t cache_rows = (int64_t)uniforms->block_count * uniforms->block_size;
  for (int64_t i = 0; mapping != NULL && i < pass->views[VIEW_SLOTS].shape[0]; ++i) {
    if (mapping[i] < -1 || mapping[i] >= cache_rows) {
      return quire_fail(pass->error, QUIRE_BAD_VALUE, "PA-E12", "slot_mapping",
                        "entry %lld is %ld, the cache has %lld rows", (long long)i,
                        (long)mapping[i], (long long)cache_rows);
    }
  }
  return QUIRE_OK;
}

static quire_status check_values(const quire_pass *pass, const schedule_uniforms *uniforms) {
  QUIRE_TRY(check_cumulative(pass));
  QUIRE_TRY(check_lengths(pass, uniforms));
  QUIRE_TRY(check_metadata(pass));
  if ((pass->flags & QUIRE_RUN_STRICT) != 0) {
    QUIRE_TRY(check_table(pass, uniforms));
    QUIRE_TRY(check_slots(pass, uniforms));
  }
  return QUIRE_OK;
}

/* Section 4.1: the given slot, or the row that the table has for the position; -1: none. */
static int64_t slot_of(const quire_pass *pass, const schedule_uniforms *uniforms, int64_t sequence,
                       int64_t token, int64_t position) {
  const int64_t cache_rows = (int64_t)uniforms->block_count * uniforms->block_size;
  const int32_t *mapping = values_of(pass, VIEW_SLOT_MAPPING);
  if (mapping != NULL) {
    return mapping[token] < cache_rows ? mapping[token] : -1;
  }
  const quire_view *table = &pass->views[VIEW_BLOCK_TABLE];
  const int64_t column = position / uniforms->block_size;
  const int32_t block = ((const int32_t *)table->data)[sequence * table->stride[0] + column];
  if (block < 0 || (uint32_t)block >= uniforms->block_count) {
    return -1;
  }
  return (int64_t)block * uniforms->block_size + position % uniforms->block_size;
}

static void write_slots(const quire_pass *pass, const schedule_uniforms *uniforms) {
  int64_t *slots = pass->views[VIEW_SLOTS].data;
  for (int64_t i = 0; i < pass->views[VIEW_PAST].shape[0]; ++i) {
    const quire_paged_sequence sequence = sequence_at(pass, i);
    for (int64_t token = 0; token < sequence.row_count; ++token) {
      const int64_t row = sequence.first_row + token;
      slots[row] = slot_of(pass, uniforms, i, row, sequence.first_position + token);
    }
  }
}

quire_status quire_paged_attention_schedule(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const schedule_uniforms *uniforms = pass->uniforms;
  QUIRE_TRY(check_values(pass, uniforms));
  write_slots(pass, uniforms);
  quire_paged_schedule schedule = {
      .num_heads = uniforms->num_heads,
      .kv_num_heads = uniforms->kv_num_heads,
      .window = uniforms->window,
      .causal = uniforms->is_causal != 0,
      .row_total = pass->views[VIEW_SLOTS].shape[0],
      .state_limit = uniforms->state_limit,
      .item_limit = pass->views[VIEW_ITEMS].shape[0],
      .merge_limit = pass->views[VIEW_MERGE_ROWS].shape[0],
      .runner_limit = pass->views[VIEW_ATTEND_ROWS].shape[0],
      .tile_rows = pass->views[VIEW_ATTEND_ROWS].shape[1] - QUIRE_PAGED_SPARE_ROWS,
      .threads = pass->threads,
      .queue = pass->views[VIEW_QUEUE].data,
      .items = pass->views[VIEW_ITEMS].data,
      .merge_rows = pass->views[VIEW_MERGE_ROWS].data,
  };
  const int64_t sequences = pass->views[VIEW_PAST].shape[0];
  quire_paged_load load = {0, 0, 0};
  for (int64_t i = 0; i < sequences; ++i) {
    const quire_paged_sequence sequence = sequence_at(pass, i);
    quire_paged_count(&schedule, &sequence, &load);
  }
  quire_paged_begin(&schedule, &load);
  for (int turn = 0; turn < 2; ++turn) {
    for (int64_t i = 0; i < sequences; ++i) {
      const quire_paged_sequence sequence = sequence_at(pass, i);
      if (quire_paged_is_long(&sequence) == (turn == 0)) {
        quire_paged_add(&schedule, &sequence);
      }
    }
  }
  quire_paged_grid(&pass->views[VIEW_ATTEND_GRID], quire_paged_finish(&schedule), 1);
  quire_paged_grid(&pass->views[VIEW_MERGE_GRID], schedule.merge_count, schedule.num_heads);
  return QUIRE_OK;
}
