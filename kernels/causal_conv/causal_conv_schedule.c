/* The schedule pass: checks cu_seqlens and the slots of the state pool (CC-X3 and CC-X4). */
#include "causal_conv_call.h"
#include "error.h"
#include "recurrent_work.h"

static quire_recurrent_work work_of(const quire_view *input, const quire_view *spans,
                                    uint32_t channels_last) {
  quire_recurrent_work work = {
      .spans = (int64_t *)spans->data,
      .sequences = spans->shape[0],
      .tokens = input->shape[channels_last ? 1 : 2],
      .width = 1,
      .lengths_rule = "CC-X3",
      .pool_rule = "CC-X4",
      .token_tensor = "input",
  };
  return work;
}

quire_status quire_causal_conv_schedule(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_causal_conv_schedule_uniforms *uniforms =
      (const quire_causal_conv_schedule_uniforms *)pass->uniforms;
  const quire_view *views = pass->views;
  const quire_view *pool = &views[CC_SCHEDULE_STATE_POOL];
  quire_recurrent_work work =
      work_of(&views[CC_SCHEDULE_INPUT], &views[CC_SCHEDULE_SPANS], uniforms->channels_last);
  work.cu_seqlens = quire_recurrent_work_integers(&views[CC_SCHEDULE_CU_SEQLENS]);
  QUIRE_TRY(quire_recurrent_work_spans(&work, pass->error));
  if (pool->dtype == QUIRE_DTYPE_NONE) {
    return QUIRE_OK;
  }
  work.width = uniforms->state_window > 0 ? (int64_t)uniforms->state_window : 1;
  work.pool_slots = pool->shape[0];
  work.read_indices = quire_recurrent_work_integers(&views[CC_SCHEDULE_READ_INDICES]);
  work.write_indices = quire_recurrent_work_integers(&views[CC_SCHEDULE_WRITE_INDICES]);
  work.write_slots = (int32_t *)views[CC_SCHEDULE_WRITE_SLOTS].data;
  work.slot_owners = (int32_t *)views[CC_SCHEDULE_SLOT_OWNERS].data;
  return quire_recurrent_work_pool(&work, pass->error);
}

quire_status quire_causal_conv_schedule_strict(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_recurrent_work work =
      work_of(&pass->views[CC_SCHEDULE_INPUT], &pass->views[CC_SCHEDULE_SPANS], 0);
  return quire_recurrent_work_spans(&work, pass->error);
}
