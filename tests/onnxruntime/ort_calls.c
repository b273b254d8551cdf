#include "ort_calls.h"

#include <string.h>

#define F16 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16
#define F32 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
#define I32 ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32

/* ---- PagedAttention ---- */

/* Finite values between -1 and 1, and different ones everywhere. */
static void fill(uint16_t *values, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u; /* Knuth's linear congruential generator */
    values[i] = (uint16_t)((seed >> 16 & 0x83FFu) | (0x3000u + (seed >> 8 & 0x0800u)));
  }
}

void paged_fill(paged *p, uint32_t seed) {
  static const int32_t starts[] = {0, 3, 3, 5};
  static const int32_t past[] = {17, 40, 0};
  static const int32_t table[B][MB] = {{5, 2, -1}, {0, 7, 3}, {6, -1, -1}};
  fill(p->query, QUERIES, seed);
  fill(p->key, KEYS, seed + 1);
  fill(p->value, KEYS, seed + 2);
  fill(p->caches[0], CACHE, seed + 3);
  fill(p->caches[1], CACHE, seed + 4);
  memset(p->results, 0, sizeof p->results);
  memset(p->output, 0, sizeof p->output);
  memcpy(p->starts, starts, sizeof starts);
  memcpy(p->past, past, sizeof past);
  memcpy(p->table, table, sizeof table);
}

void paged_tensors(paged *p, ort_tensor inputs[PAGED_INPUTS], ort_tensor outputs[PAGED_OUTPUTS]) {
  const ort_tensor in[PAGED_INPUTS] = {
      {"query", F16, 2, {T, QUERY}, p->query},
      {"key", F16, 2, {T, KEY}, p->key},
      {"value", F16, 2, {T, KEY}, p->value},
      {"key_cache", F16, 4, {NB, P, HKV, D}, p->caches[0]},
      {"value_cache", F16, 4, {NB, P, HKV, D}, p->caches[1]},
      {"starts", I32, 1, {B + 1}, p->starts},
      {"past", I32, 1, {B}, p->past},
      {"table", I32, 2, {B, MB}, p->table},
  };
  const ort_tensor out[PAGED_OUTPUTS] = {
      {"output", F16, 2, {T, QUERY}, p->output},
      {"key_cache_out", F16, 4, {NB, P, HKV, D}, p->results[0]},
      {"value_cache_out", F16, 4, {NB, P, HKV, D}, p->results[1]},
  };
  memcpy(inputs, in, sizeof in);
  memcpy(outputs, out, sizeof out);
}

ort_node paged_node(bool with_caches) {
  ort_node node = {
      "PagedAttention",
      "com.microsoft",
      "attention",
      {"query", "key", "value", "key_cache", "value_cache", "starts", "past", "table", NULL},
      {"output", with_caches ? "key_cache_out" : NULL, "value_cache_out", NULL},
      {{"num_heads", ORT_OP_ATTR_INT, HQ, 0, NULL},
       {"kv_num_heads", ORT_OP_ATTR_INT, HKV, 0, NULL}},
  };
  return node;
}

void paged_expect(quire_device *device, paged *p) {
  const int64_t query[] = {T, QUERY}, key[] = {T, KEY}, cache[] = {NB, P, HKV, D};
  const int64_t starts[] = {B + 1}, past[] = {B}, table[] = {B, MB};
  quire_paged_attention_args args;
  quire_error error;
  quire_paged_attention_args_init(&args);
  args.query = (quire_tensor){p->query, 0, QUIRE_FLOAT16, 2, query, NULL};
  args.key = (quire_tensor){p->key, 0, QUIRE_FLOAT16, 2, key, NULL};
  args.value = (quire_tensor){p->value, 0, QUIRE_FLOAT16, 2, key, NULL};
  args.key_cache = (quire_tensor){p->caches[0], 0, QUIRE_FLOAT16, 4, cache, NULL};
  args.value_cache = (quire_tensor){p->caches[1], 0, QUIRE_FLOAT16, 4, cache, NULL};
  args.cumulative_sequence_length = (quire_tensor){p->starts, 0, QUIRE_INT32, 1, starts, NULL};
  args.past_seqlens = (quire_tensor){p->past, 0, QUIRE_INT32, 1, past, NULL};
  args.block_table = (quire_tensor){p->table, 0, QUIRE_INT32, 2, table, NULL};
  args.output = (quire_tensor){p->output, 0, QUIRE_FLOAT16, 2, query, NULL};
  args.num_heads = HQ;
  args.kv_num_heads = HKV;
  if (quire_paged_attention(device, &args, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

/* ---- LinearAttention ---- */

void linear_fill(linear *l) {
  float *values = &l->rows[0][0];
  memset(l, 0, sizeof *l);
  for (size_t i = 0; i < sizeof l->rows / sizeof *values; i++) {
    values[i] = (float)((int)(i * 7 % 11) - 5) / 8;
  }
  for (size_t i = 0; i < GATES; i++) {
    l->gates[0][i] = -(float)(i % 3) / 4;
    l->gates[1][i] = (float)(1 + i % 3) / 4;
  }
  for (size_t i = 0; i < sizeof l->past / sizeof l->past[0]; i++) {
    l->past[i] = (float)((int)(i * 5 % 13) - 6) / 4;
  }
}

void linear_tensors(linear *l, int64_t tokens, bool window, ort_tensor inputs[LINEAR_INPUTS],
                    ort_tensor outputs[LINEAR_OUTPUTS]) {
  const ort_tensor in[LINEAR_INPUTS] = {
      {"query", F32, 3, {LB, tokens, WIDTH}, l->rows[0]},
      {"key", F32, 3, {LB, tokens, WIDTH}, l->rows[1]},
      {"value", F32, 3, {LB, tokens, WIDTH}, l->rows[2]},
      {"past", F32, 5, {LW, LB, LH, LD, LD}, l->past},
      {"decay", F32, 3, {LB, tokens, LH}, l->gates[0]},
      {"beta", F32, 3, {LB, tokens, LH}, l->gates[1]},
  };
  const ort_tensor out[LINEAR_OUTPUTS] = {
      {"output", F32, 3, {LB, tokens, WIDTH}, l->output},
      {"present", F32, 5, {LW, LB, LH, LD, LD}, l->present},
  };
  memcpy(inputs, in, sizeof in);
  memcpy(outputs, out, sizeof out);
  if (!window) {
    const int64_t shape[] = {LB, LH, LD, LD};
    inputs[3].rank = outputs[1].rank = 4;
    memcpy(inputs[3].shape, shape, sizeof shape);
    memcpy(outputs[1].shape, shape, sizeof shape);
  }
}

ort_node linear_node(bool window) {
  ort_node node = {
      "LinearAttention",
      "com.microsoft",
      "recurrence",
      {"query", "key", "value", "past", "decay", "beta", NULL},
      {"output", "present", NULL},
      {{"q_num_heads", ORT_OP_ATTR_INT, LH, 0, NULL},
       {"kv_num_heads", ORT_OP_ATTR_INT, LH, 0, NULL},
       {window ? "state_window" : NULL, ORT_OP_ATTR_INT, LW, 0, NULL}},
  };
  return node;
}

void linear_expect(quire_device *device, linear *l, int64_t tokens, bool window) {
  const int64_t rows[] = {LB, tokens, WIDTH}, gates[] = {LB, tokens, LH};
  const int64_t states[] = {LW, LB, LH, LD, LD};
  const int32_t rank = window ? 5 : 4;
  quire_linear_attention_args args;
  quire_error error;
  quire_linear_attention_args_init(&args);
  args.query = (quire_tensor){l->rows[0], 0, QUIRE_FLOAT32, 3, rows, NULL};
  args.key = (quire_tensor){l->rows[1], 0, QUIRE_FLOAT32, 3, rows, NULL};
  args.value = (quire_tensor){l->rows[2], 0, QUIRE_FLOAT32, 3, rows, NULL};
  args.decay = (quire_tensor){l->gates[0], 0, QUIRE_FLOAT32, 3, gates, NULL};
  args.beta = (quire_tensor){l->gates[1], 0, QUIRE_FLOAT32, 3, gates, NULL};
  args.past_state = (quire_tensor){l->past, 0, QUIRE_FLOAT32, rank, states + 5 - rank, NULL};
  args.present_state = (quire_tensor){l->present, 0, QUIRE_FLOAT32, rank, states + 5 - rank, NULL};
  args.output = (quire_tensor){l->output, 0, QUIRE_FLOAT32, 3, rows, NULL};
  args.q_num_heads = args.kv_num_heads = LH;
  args.state_window = window ? LW : 0;
  if (quire_linear_attention(device, &args, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}
