#include "recurrent_work.h"

#include <inttypes.h>
#include <stddef.h>

#include "error.h"

const int32_t *quire_recurrent_work_integers(const quire_view *view) {
  return view->dtype == QUIRE_DTYPE_NONE ? NULL : (const int32_t *)view->data;
}

static quire_status check_lengths(const quire_recurrent_work *work, quire_error *error) {
  const int32_t *cu_seqlens = work->cu_seqlens;
  if (cu_seqlens[0] != 0) {
    return quire_fail(error, QUIRE_BAD_VALUE, work->lengths_rule, "cu_seqlens",
                      "element 0 is %" PRId32 ", must be 0", cu_seqlens[0]);
  }
  for (int64_t n = 0; n < work->sequences; n++) {
    if (cu_seqlens[n + 1] < cu_seqlens[n]) {
      return quire_fail(error, QUIRE_BAD_VALUE, work->lengths_rule, "cu_seqlens",
                        "element %" PRId64 " is %" PRId32 ", less than the %" PRId32 " before it",
                        n + 1, cu_seqlens[n + 1], cu_seqlens[n]);
    }
  }
  if (cu_seqlens[work->sequences] != work->tokens) {
    return quire_fail(error, QUIRE_BAD_VALUE, work->lengths_rule, "cu_seqlens",
                      "the last element is %" PRId32 ", %s has %" PRId64 " tokens",
                      cu_seqlens[work->sequences], work->token_tensor, work->tokens);
  }
  return QUIRE_OK;
}

quire_status quire_recurrent_work_spans(const quire_recurrent_work *work, quire_error *error) {
  const int32_t *cu_seqlens = work->cu_seqlens;
  if (cu_seqlens) {
    QUIRE_TRY(check_lengths(work, error));
  }
  for (int64_t n = 0; n < work->sequences; n++) {
    int64_t *span = work->spans + n * QUIRE_SPAN_COUNT;
    span[QUIRE_SPAN_ROW] = cu_seqlens ? 0 : n;
    span[QUIRE_SPAN_FIRST] = cu_seqlens ? cu_seqlens[n] : 0;
    span[QUIRE_SPAN_TOKENS] = cu_seqlens ? cu_seqlens[n + 1] - cu_seqlens[n] : work->tokens;
    span[QUIRE_SPAN_READ_SLOT] = -1;
  }
  return QUIRE_OK;
}

static quire_status check_slots(const quire_recurrent_work *work, const char *subject,
                                const int32_t *slots, int64_t count, quire_error *error) {
  for (int64_t i = 0; i < count; i++) {
    if (slots[i] < -1 || slots[i] >= work->pool_slots) {
      return quire_fail(error, QUIRE_BAD_VALUE, work->pool_rule, subject,
                        "element %" PRId64 " is %" PRId32 ", the pool has slots -1 to %" PRId64, i,
                        slots[i], work->pool_slots - 1);
    }
  }
  return QUIRE_OK;
}

/* Takes the entries of sequence n that receive a state. */
static quire_status assign_writes(const quire_recurrent_work *work, int64_t n, quire_error *error) {
  const int64_t tokens = work->spans[n * QUIRE_SPAN_COUNT + QUIRE_SPAN_TOKENS];
  const int64_t states = tokens > 0 ? tokens : 1;
  for (int64_t w = 0; w < work->width; w++) {
    const int64_t entry = n * work->width + w;
    const int32_t slot = w < work->width - states ? -1 : work->write_indices[entry];
    work->write_slots[entry] = slot;
    if (slot < 0) {
      continue;
    }
    if (work->slot_owners[slot] >= 0 && work->slot_owners[slot] != n) {
      return quire_fail(error, QUIRE_BAD_VALUE, work->pool_rule, "write_indices",
                        "slot %" PRId32 " is written by sequences %" PRId32 " and %" PRId64, slot,
                        work->slot_owners[slot], n);
    }
    work->slot_owners[slot] = (int32_t)n;
  }
  return QUIRE_OK;
}

static quire_status assign_read(const quire_recurrent_work *work, int64_t n, quire_error *error) {
  const int32_t slot = work->read_indices[n];
  if (slot >= 0 && work->slot_owners[slot] >= 0 && work->slot_owners[slot] != n) {
    return quire_fail(error, QUIRE_BAD_VALUE, work->pool_rule, "read_indices",
                      "slot %" PRId32 " is read by sequence %" PRId64
                      " and written by sequence %" PRId32,
                      slot, n, work->slot_owners[slot]);
  }
  work->spans[n * QUIRE_SPAN_COUNT + QUIRE_SPAN_READ_SLOT] = slot;
  return QUIRE_OK;
}

quire_status quire_recurrent_work_pool(const quire_recurrent_work *work, quire_error *error) {
  if (work->sequences == 0) { /* arrays without elements may be NULL */
    return QUIRE_OK;
  }
  QUIRE_TRY(check_slots(work, "read_indices", work->read_indices, work->sequences, error));
  QUIRE_TRY(check_slots(work, "write_indices", work->write_indices, work->sequences * work->width,
                        error));
  for (int64_t slot = 0; slot < work->pool_slots; slot++) {
    work->slot_owners[slot] = -1;
  }
  for (int64_t n = 0; n < work->sequences; n++) {
    QUIRE_TRY(assign_writes(work, n, error));
  }
  for (int64_t n = 0; n < work->sequences; n++) {
    QUIRE_TRY(assign_read(work, n, error));
  }
  return QUIRE_OK;
}
