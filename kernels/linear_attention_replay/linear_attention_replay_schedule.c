/*
 * The schedule pass: checks cu_seqlens, the slots of the state pool, and that no more tokens are
 * accepted than were logged; the spans hold the accepted ones.
 */
#include <inttypes.h>

#include "error.h"
#include "linear_attention_replay_call.h"
#include "recurrent_work.h"

static quire_status accept_tokens(const quire_recurrent_work *work, const int32_t *accepted,
                                  quire_error *error) {
  for (int64_t n = 0; n < work->sequences; n++) {
    int64_t *tokens = &work->spans[n * QUIRE_SPAN_COUNT + QUIRE_SPAN_TOKENS];
    if (accepted[n] < 0 || accepted[n] > *tokens) {
      return quire_fail(error, QUIRE_BAD_VALUE, "LR-V11", "accepted",
                        "element %" PRId64 " is %" PRId32 ", the sequence has %" PRId64
                        " logged tokens",
                        n, accepted[n], *tokens);
    }
    *tokens = accepted[n];
  }
  return QUIRE_OK;
}

quire_status quire_linear_attention_replay_schedule(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_view *views = pass->views;
  const quire_view *pool = &views[LR_SCHEDULE_STATE_POOL];
  quire_recurrent_work work = {
      .spans = (int64_t *)views[LR_SCHEDULE_SPANS].data,
      .sequences = views[LR_SCHEDULE_SPANS].shape[0],
      .tokens = views[LR_SCHEDULE_LOG_KEY].shape[1],
      .width = 1,
      .cu_seqlens = quire_recurrent_work_integers(&views[LR_SCHEDULE_CU_SEQLENS]),
      .lengths_rule = "LR-X3",
      .pool_rule = "LR-X4",
      .token_tensor = "log_key",
  };
  const int32_t *accepted = quire_recurrent_work_integers(&views[LR_SCHEDULE_ACCEPTED]);
  QUIRE_TRY(quire_recurrent_work_spans(&work, pass->error));
  QUIRE_TRY(accept_tokens(&work, accepted, pass->error));
  if (pool->dtype == QUIRE_DTYPE_NONE) {
    return QUIRE_OK;
  }
  work.pool_slots = pool->shape[0];
  work.read_indices = quire_recurrent_work_integers(&views[LR_SCHEDULE_READ_INDICES]);
  work.write_indices = quire_recurrent_work_integers(&views[LR_SCHEDULE_WRITE_INDICES]);
  work.write_slots = (int32_t *)views[LR_SCHEDULE_WRITE_SLOTS].data;
  work.slot_owners = (int32_t *)views[LR_SCHEDULE_SLOT_OWNERS].data;
  return quire_recurrent_work_pool(&work, pass->error);
}
