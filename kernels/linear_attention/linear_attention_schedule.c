/*
 * The schedule pass: checks cu_seqlens and the slots of the state pool (docs/linear_attention.md,
 * X3 and X4) and writes one span per sequence. The recurrence trusts the spans, not the caller's
 * tensors.
 */
#include "error.h"
#include "linear_attention_call.h"
#include "recurrent_work.h"

quire_status quire_linear_attention_schedule(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_linear_attention_schedule_uniforms *uniforms =
      (const quire_linear_attention_schedule_uniforms *)pass->uniforms;
  const quire_view *views = pass->views;
  quire_recurrent_work work = {
      .spans = (int64_t *)views[LA_SCHEDULE_SPANS].data,
      .sequences = views[LA_SCHEDULE_SPANS].shape[0],
      .tokens = views[LA_SCHEDULE_QUERY].shape[1],
      .width = uniforms->state_window > 0 ? (int64_t)uniforms->state_window : 1,
      .cu_seqlens = quire_recurrent_work_integers(&views[LA_SCHEDULE_CU_SEQLENS]),
      .lengths_rule = "LA-X3",
      .pool_rule = "LA-X4",
      .token_tensor = "query",
  };
  QUIRE_TRY(quire_recurrent_work_spans(&work, pass->error));
  if (views[LA_SCHEDULE_STATE_POOL].dtype == QUIRE_DTYPE_NONE) {
    return QUIRE_OK;
  }
  work.pool_slots = views[LA_SCHEDULE_STATE_POOL].shape[0];
  work.read_indices = quire_recurrent_work_integers(&views[LA_SCHEDULE_READ_INDICES]);
  work.write_indices = quire_recurrent_work_integers(&views[LA_SCHEDULE_WRITE_INDICES]);
  work.write_slots = (int32_t *)views[LA_SCHEDULE_WRITE_SLOTS].data;
  work.slot_owners = (int32_t *)views[LA_SCHEDULE_SLOT_OWNERS].data;
  return quire_recurrent_work_pool(&work, pass->error);
}

quire_status quire_linear_attention_schedule_strict(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_view *spans = &pass->views[LA_SCHEDULE_SPANS];
  const quire_recurrent_work work = {
      .spans = (int64_t *)spans->data,
      .sequences = spans->shape[0],
      .tokens = pass->views[LA_SCHEDULE_QUERY].shape[1],
  };
  return quire_recurrent_work_spans(&work, pass->error);
}
