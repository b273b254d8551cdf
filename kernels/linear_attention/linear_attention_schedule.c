/*
 * The schedule pass: checks cu_seqlens and the slots of the state pool (docs/linear_attention.md,
 * X3 and X4) and writes one span per sequence. The recurrence trusts the spans, not the caller's
 * tensors.
 */
#include <inttypes.h>

#include "error.h"
#include "linear_attention_call.h"

static const int32_t *int32_data(const quire_view *view) {
  return view->dtype == QUIRE_DTYPE_NONE ? NULL : (const int32_t *)view->data;
}

/* X3: cu_seqlens runs from 0 to T and never falls. */
static quire_status check_cu_seqlens(const int32_t *cu_seqlens, int64_t sequences, int64_t tokens,
                                     quire_error *error) {
  if (cu_seqlens[0] != 0) {
    return quire_fail(error, QUIRE_BAD_VALUE, "LA-X3", "cu_seqlens",
                      "element 0 is %" PRId32 ", must be 0", cu_seqlens[0]);
  }
  for (int64_t n = 0; n < sequences; n++) {
    if (cu_seqlens[n + 1] < cu_seqlens[n]) {
      return quire_fail(error, QUIRE_BAD_VALUE, "LA-X3", "cu_seqlens",
                        "element %" PRId64 " is %" PRId32 ", less than the %" PRId32 " before it",
                        n + 1, cu_seqlens[n + 1], cu_seqlens[n]);
    }
  }
  if (cu_seqlens[sequences] != tokens) {
    return quire_fail(error, QUIRE_BAD_VALUE, "LA-X3", "cu_seqlens",
                      "the last element is %" PRId32 ", query has %" PRId64 " tokens",
                      cu_seqlens[sequences], tokens);
  }
  return QUIRE_OK;
}

static void write_spans(const int32_t *cu_seqlens, int64_t sequences, int64_t tokens,
                        int64_t *spans) {
  for (int64_t n = 0; n < sequences; n++) {
    int64_t *span = spans + n * LA_SPAN_COUNT;
    span[LA_SPAN_ROW] = cu_seqlens ? 0 : n;
    span[LA_SPAN_FIRST] = cu_seqlens ? cu_seqlens[n] : 0;
    span[LA_SPAN_TOKENS] = cu_seqlens ? cu_seqlens[n + 1] - cu_seqlens[n] : tokens;
    span[LA_SPAN_READ_SLOT] = -1;
  }
}

/* X4: slots lie in [-1, NP). */
static quire_status check_slots(const char *subject, const int32_t *slots, int64_t count,
                                int64_t pool_slots, quire_error *error) {
  for (int64_t i = 0; i < count; i++) {
    if (slots[i] < -1 || slots[i] >= pool_slots) {
      return quire_fail(error, QUIRE_BAD_VALUE, "LA-X4", subject,
                        "element %" PRId64 " is %" PRId32 ", the pool has slots -1 to %" PRId64, i,
                        slots[i], pool_slots - 1);
    }
  }
  return QUIRE_OK;
}

/*
 * Writes the slots that really receive a state, and who writes each slot. Entries of a window
 * without a state (fewer tokens than entries; one state even without tokens) become -1: they are
 * not stored.
 */
static quire_status assign_writes(const int32_t *write_indices, const int64_t *spans,
                                  int64_t sequences, int64_t width, int32_t *write_slots,
                                  int32_t *owners, quire_error *error) {
  for (int64_t n = 0; n < sequences; n++) {
    int64_t states = spans[n * LA_SPAN_COUNT + LA_SPAN_TOKENS];
    states = states > 0 ? states : 1;
    for (int64_t w = 0; w < width; w++) {
      int32_t slot = w < width - states ? -1 : write_indices[n * width + w];
      write_slots[n * width + w] = slot;
      if (slot < 0) {
        continue;
      }
      if (owners[slot] >= 0 && owners[slot] != n) {
        return quire_fail(error, QUIRE_BAD_VALUE, "LA-X4", "write_indices",
                          "slot %" PRId32 " is written by sequences %" PRId32 " and %" PRId64, slot,
                          owners[slot], n);
      }
      owners[slot] = (int32_t)n;
    }
  }
  return QUIRE_OK;
}

static quire_status assign_reads(const int32_t *read_indices, const int32_t *owners,
                                 int64_t sequences, int64_t *spans, quire_error *error) {
  for (int64_t n = 0; n < sequences; n++) {
    int32_t slot = read_indices[n];
    if (slot >= 0 && owners[slot] >= 0 && owners[slot] != n) {
      return quire_fail(error, QUIRE_BAD_VALUE, "LA-X4", "read_indices",
                        "slot %" PRId32 " is read by sequence %" PRId64
                        " and written by sequence %" PRId32,
                        slot, n, owners[slot]);
    }
    spans[n * LA_SPAN_COUNT + LA_SPAN_READ_SLOT] = slot;
  }
  return QUIRE_OK;
}

static quire_status schedule_pool(const quire_view *views, int64_t width, int64_t sequences,
                                  int64_t *spans, quire_error *error) {
  const int32_t *read_indices = int32_data(&views[LA_SCHEDULE_READ_INDICES]);
  const int32_t *write_indices = int32_data(&views[LA_SCHEDULE_WRITE_INDICES]);
  int32_t *write_slots = (int32_t *)views[LA_SCHEDULE_WRITE_SLOTS].data;
  int32_t *owners = (int32_t *)views[LA_SCHEDULE_SLOT_OWNERS].data;
  int64_t pool_slots = views[LA_SCHEDULE_STATE_POOL].shape[0];
  if (sequences == 0) {
    return QUIRE_OK;
  }
  QUIRE_TRY(check_slots("read_indices", read_indices, sequences, pool_slots, error));
  QUIRE_TRY(check_slots("write_indices", write_indices, sequences * width, pool_slots, error));
  for (int64_t slot = 0; slot < pool_slots; slot++) {
    owners[slot] = -1;
  }
  QUIRE_TRY(assign_writes(write_indices, spans, sequences, width, write_slots, owners, error));
  return assign_reads(read_indices, owners, sequences, spans, error);
}

quire_status quire_linear_attention_schedule(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_linear_attention_schedule_uniforms *uniforms =
      (const quire_linear_attention_schedule_uniforms *)pass->uniforms;
  const quire_view *views = pass->views;
  const int32_t *cu_seqlens = int32_data(&views[LA_SCHEDULE_CU_SEQLENS]);
  int64_t *spans = (int64_t *)views[LA_SCHEDULE_SPANS].data;
  int64_t sequences = views[LA_SCHEDULE_SPANS].shape[0];
  int64_t tokens = views[LA_SCHEDULE_QUERY].shape[1];
  if (cu_seqlens) {
    QUIRE_TRY(check_cu_seqlens(cu_seqlens, sequences, tokens, pass->error));
  }
  write_spans(cu_seqlens, sequences, tokens, spans);
  if (views[LA_SCHEDULE_STATE_POOL].dtype == QUIRE_DTYPE_NONE) {
    return QUIRE_OK;
  }
  int64_t width = uniforms->state_window > 0 ? (int64_t)uniforms->state_window : 1;
  return schedule_pool(views, width, sequences, spans, pass->error);
}

quire_status quire_linear_attention_schedule_strict(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_view *spans = &pass->views[LA_SCHEDULE_SPANS];
  write_spans(NULL, spans->shape[0], pass->views[LA_SCHEDULE_QUERY].shape[1],
              (int64_t *)spans->data);
  return QUIRE_OK;
}
