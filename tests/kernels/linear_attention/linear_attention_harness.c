#include "linear_attention_harness.h"

#include <stdlib.h>
#include <string.h>

#include "linear_attention_call.h"
#include "numeric.h"

void la_defaults(la_call *call) {
  call->type = call->type ? call->type : QUIRE_FLOAT32;
  call->state_type = call->state_type ? call->state_type : QUIRE_FLOAT32;
  call->batch = call->batch ? call->batch : 1;
  call->q_heads = call->q_heads ? call->q_heads : 1;
  call->kv_heads = call->kv_heads ? call->kv_heads : 1;
  call->key_heads = call->key_heads ? call->key_heads : 1;
  call->column_block = call->column_block ? call->column_block : 32;
  call->beta_width = call->beta_width ? call->beta_width : call->kv_heads;
  call->decay_width = call->decay_width ? call->decay_width : call->kv_heads;
  call->dt_bias_width = call->dt_bias_width ? call->dt_bias_width : call->kv_heads;
}

int64_t la_sequences(const la_call *call) {
  return call->cu_seqlens ? call->sequences : call->batch;
}

int64_t la_output_heads(const la_call *call) {
  return call->q_heads > call->kv_heads ? call->q_heads : call->kv_heads;
}

size_t la_output_count(const la_call *call) {
  return (size_t)(call->batch * call->tokens * la_output_heads(call) * call->dv);
}

size_t la_state_count(const la_call *call) {
  int64_t slots = call->window > 0 ? call->window : 1;
  return (size_t)(slots * la_sequences(call) * call->kv_heads * call->dk * call->dv);
}

/* A dense view of `values`, converted to `type`; absent if values is NULL. */
static quire_view make_view(quire_dtype type, int32_t ndim, const int64_t *shape,
                            const float *values) {
  quire_view view;
  memset(&view, 0, sizeof view);
  if (!values) {
    return view;
  }
  size_t count = 1;
  view.dtype = type;
  view.ndim = ndim;
  for (int32_t d = ndim - 1; d >= 0; d--) {
    view.shape[d] = shape[d];
    view.stride[d] = (int64_t)count;
    count *= (size_t)shape[d];
  }
  view.data = malloc(count * quire_dtype_size(type) + 1);
  quire_narrow_row(type, values, count, view.data);
  return view;
}

/* Puts `padding` elements of NaN behind every `axis` element of a dense view. */
static void pad_view(quire_view *view, int32_t axis, int64_t padding) {
  size_t size = quire_dtype_size(view->dtype);
  size_t rows = 1;
  for (int32_t d = 0; view->data && d <= axis; d++) {
    rows *= (size_t)view->shape[d];
  }
  if (!view->data || padding == 0) {
    return;
  }
  size_t row_bytes = (size_t)view->stride[axis] * size;
  size_t pitch = row_bytes + (size_t)padding * size;
  unsigned char *padded = malloc(rows * pitch + 1);
  memset(padded, 0xff, rows * pitch);
  for (size_t row = 0; row < rows; row++) {
    memcpy(padded + row * pitch, (unsigned char *)view->data + row * row_bytes, row_bytes);
  }
  free(view->data);
  view->data = padded;
  view->stride[axis] += padding;
  for (int32_t d = axis - 1; d >= 0; d--) {
    view->stride[d] = view->stride[d + 1] * view->shape[d + 1];
  }
}

static quire_view make_integers(quire_dtype type, int64_t first, int64_t second,
                                const int32_t *values) {
  quire_view view;
  memset(&view, 0, sizeof view);
  view.dtype = type;
  view.ndim = 2;
  view.shape[0] = first;
  view.shape[1] = second;
  view.stride[0] = second;
  view.stride[1] = 1;
  size_t bytes = (size_t)(first * second) * quire_dtype_size(type);
  view.data = malloc(bytes + 1);
  if (values && bytes > 0) {
    memcpy(view.data, values, bytes);
  }
  return view;
}

static void free_views(quire_view *views, size_t count) {
  for (size_t i = 0; i < count; i++) {
    bool shared = false;
    for (size_t j = 0; j < i; j++) {
      shared = shared || views[j].data == views[i].data;
    }
    if (!shared) {
      free(views[i].data);
    }
  }
}

static quire_view state_view(const la_call *call, const float *values) {
  int64_t rows = call->v_major ? call->dv : call->dk;
  int64_t columns = call->v_major ? call->dk : call->dv;
  int64_t shape[5] = {call->window, la_sequences(call), call->kv_heads, rows, columns};
  return call->window > 0 ? make_view(call->state_type, 5, shape, values)
                          : make_view(call->state_type, 4, shape + 1, values);
}

static quire_view token_view(const la_call *call, int64_t width, const float *values) {
  int64_t shape[3] = {call->batch, call->tokens, width};
  return make_view(call->type, 3, shape, values);
}

static void fill_tensors(const la_call *call, quire_view *views) {
  int64_t pool_shape[4] = {call->pool_slots, call->kv_heads, call->v_major ? call->dv : call->dk,
                           call->v_major ? call->dk : call->dv};
  views[LA_QUERY] = token_view(call, call->q_heads * call->dk, call->query);
  views[LA_KEY] = token_view(call, call->key_heads * call->dk, call->key);
  views[LA_VALUE] = token_view(call, call->kv_heads * call->dv, call->value);
  views[LA_PAST_STATE] = state_view(call, call->past);
  views[LA_DECAY] = token_view(call, call->decay_width, call->decay);
  views[LA_BETA] = token_view(call, call->beta_width, call->beta);
  views[LA_OUTPUT] = token_view(call, la_output_heads(call) * call->dv, call->output);
  views[LA_PRESENT_STATE] = state_view(call, call->pool ? NULL : call->present);
  views[LA_A_LOG] = make_view(QUIRE_FLOAT32, 1, &call->kv_heads, call->a_log);
  views[LA_DT_BIAS] = make_view(QUIRE_FLOAT32, 1, &call->dt_bias_width, call->dt_bias);
  views[LA_STATE_POOL] = make_view(call->state_type, 4, pool_shape, call->pool);
  static const int padded[] = {LA_QUERY, LA_KEY, LA_VALUE, LA_DECAY, LA_BETA};
  for (size_t i = 0; i < sizeof padded / sizeof padded[0]; i++) {
    pad_view(&views[padded[i]], 1, call->padding);
  }
  pad_view(&views[LA_STATE_POOL], 0, call->padding);
  if (call->in_place && call->past) {
    free(views[LA_PRESENT_STATE].data);
    views[LA_PRESENT_STATE].data = views[LA_PAST_STATE].data;
  }
}

/* The schedule pass; leaves its results in views[LA_SPANS] and views[LA_WRITE_SLOTS]. */
static quire_status run_schedule(const la_call *call, quire_view *views, quire_error *error) {
  int64_t sequences = la_sequences(call);
  int64_t width = call->window > 0 ? call->window : 1;
  quire_linear_attention_schedule_uniforms uniforms = {(uint32_t)call->window};
  quire_view schedule[LA_SCHEDULE_COUNT];
  memset(schedule, 0, sizeof schedule);
  views[LA_SPANS] = make_integers(QUIRE_INT64, sequences, QUIRE_SPAN_COUNT, NULL);
  views[LA_WRITE_SLOTS] = make_integers(QUIRE_INT32, sequences, width, NULL);
  schedule[LA_SCHEDULE_QUERY] = views[LA_QUERY];
  schedule[LA_SCHEDULE_SPANS] = views[LA_SPANS];
  schedule[LA_SCHEDULE_STATE_POOL] = views[LA_STATE_POOL];
  schedule[LA_SCHEDULE_WRITE_SLOTS] = views[LA_WRITE_SLOTS];
  if (call->cu_seqlens) {
    schedule[LA_SCHEDULE_CU_SEQLENS] =
        make_integers(QUIRE_INT32, 1, sequences + 1, call->cu_seqlens);
  }
  if (call->pool) {
    schedule[LA_SCHEDULE_READ_INDICES] =
        make_integers(QUIRE_INT32, 1, sequences, call->read_indices);
    schedule[LA_SCHEDULE_WRITE_INDICES] =
        make_integers(QUIRE_INT32, sequences, width, call->write_indices);
    schedule[LA_SCHEDULE_SLOT_OWNERS] = make_integers(QUIRE_INT32, 1, call->pool_slots, NULL);
  }
  quire_pass pass = {.views = schedule, .uniforms = &uniforms, .grid = {1, 1, 1}, .error = error};
  size_t item[3] = {0, 0, 0};
  quire_status status = call->strict_kernels ? quire_linear_attention_schedule_strict(&pass, item)
                                             : quire_linear_attention_schedule(&pass, item);
  free(schedule[LA_SCHEDULE_CU_SEQLENS].data);
  free(schedule[LA_SCHEDULE_READ_INDICES].data);
  free(schedule[LA_SCHEDULE_WRITE_INDICES].data);
  free(schedule[LA_SCHEDULE_SLOT_OWNERS].data);
  return status;
}

static void run_items(const la_call *call, quire_view *views) {
  quire_linear_attention_uniforms uniforms = {
      .q_num_heads = (uint32_t)call->q_heads,
      .kv_num_heads = (uint32_t)call->kv_heads,
      .uses_decay = call->rule == LA_GATED || call->rule == LA_GATED_DELTA,
      .uses_delta = call->rule == LA_DELTA || call->rule == LA_GATED_DELTA,
      .state_window = (uint32_t)call->window,
      .column_block = call->column_block,
      .gate_activation = (uint32_t)call->gate,
      .beta_activation = (uint32_t)call->beta_activation,
      .qk_l2_norm = (uint32_t)call->l2_norm,
      .v_major = call->v_major,
      .tiled_heads = call->tiled,
      .scale = call->scale,
      .qk_l2_norm_epsilon = call->epsilon,
  };
  size_t block = call->column_block;
  size_t blocks = ((size_t)call->dv + block - 1) / block;
  size_t heads = (size_t)call->kv_heads;
  size_t items = blocks * heads * (size_t)la_sequences(call);
  size_t floats = quire_linear_attention_work_floats((size_t)call->dk);
  if (floats > 0) {
    views[LA_SCRATCH].dtype = QUIRE_FLOAT32;
    views[LA_SCRATCH].data = malloc(items * floats * sizeof(float));
  }
  quire_pass pass = {
      .views = views, .uniforms = &uniforms, .grid = {blocks, heads, (size_t)la_sequences(call)}};
  quire_pass_function *recurrence = call->recurrence ? call->recurrence
                                    : call->strict_kernels
                                        ? quire_linear_attention_recurrence_strict
                                        : quire_linear_attention_recurrence;
  for (size_t i = 0; i < items; i++) {
    size_t n = call->ascending ? i : items - 1 - i;
    size_t item[3] = {n % blocks, n / blocks % heads, n / blocks / heads};
    (void)recurrence(&pass, item);
  }
}

static void read_pool(const la_call *call, const quire_view *pool) {
  size_t count = (size_t)(call->kv_heads * call->dk * call->dv);
  size_t pitch = (size_t)pool->stride[0] * quire_dtype_size(pool->dtype);
  for (size_t slot = 0; slot < (size_t)call->pool_slots; slot++) {
    quire_widen_row(pool->dtype, (const unsigned char *)pool->data + slot * pitch, count,
                    call->pool + slot * count);
  }
}

quire_status la_run(la_call *call, quire_error *error) {
  quire_view views[LA_COUNT];
  memset(views, 0, sizeof views);
  fill_tensors(call, views);
  quire_status status = run_schedule(call, views, error);
  if (status == QUIRE_OK) {
    run_items(call, views);
    quire_widen_row(call->type, views[LA_OUTPUT].data, la_output_count(call), call->output);
    if (call->pool) {
      read_pool(call, &views[LA_STATE_POOL]);
    } else {
      quire_widen_row(call->state_type, views[LA_PRESENT_STATE].data, la_state_count(call),
                      call->present);
    }
  }
  free_views(views, LA_COUNT);
  return status;
}

uint64_t la_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

float la_uniform(uint64_t *state, float low, float high) {
  return low + (high - low) * ((float)(la_random(state) >> 40) / 16777216.0f);
}

float *la_random_array(uint64_t *state, size_t count, float low, float high, quire_dtype type) {
  float *values = malloc((count + 1) * sizeof(float));
  float *rounded = malloc((count + 1) * sizeof(float));
  for (size_t i = 0; i < count; i++) {
    values[i] = la_uniform(state, low, high);
  }
  if (count > 0) {
    quire_narrow_row(type, values, count, rounded);
    quire_widen_row(type, rounded, count, values);
  }
  free(rounded);
  return values;
}
