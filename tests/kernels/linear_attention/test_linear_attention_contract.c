/*
 * The contract rows of both manifests, one at a time: what is refused, with which status, rule and
 * subject, and what is allowed (docs/linear_attention.md, sections 3 and 10).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_device.h"
#include "quire/quire.h"

#define F32 QUIRE_FLOAT32
#define F16 QUIRE_FLOAT16
#define I32 QUIRE_INT32
#define BIG ((int64_t)1 << 31)

enum { MAX_CHANGES = 6, MAX_TENSORS = 16, ABSENT = -1 };

/* A tensor given, changed or (ndim ABSENT) taken away. */
typedef struct tensor_change {
  const char *name;
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[5];
  const char *alias; /* outputs: the input whose buffer it is */
} tensor_change;

typedef struct attribute_change {
  const char *name;
  quire_value_type type; /* NONE: taken away */
  int64_t i;
  double f;
  const char *s;
} attribute_change;

typedef struct contract_row {
  quire_status status;
  const char *rule, *subject;
  attribute_change attributes[MAX_CHANGES];
  tensor_change tensors[MAX_CHANGES];
} contract_row;

/* B 2, T 3, Hq 4, Hkv 2, Hk 2, dk 8, dv 6. */
static const tensor_change base_tensors[] = {
    {"query", F32, 3, {2, 3, 32}, NULL}, {"key", F32, 3, {2, 3, 16}, NULL},
    {"value", F32, 3, {2, 3, 12}, NULL}, {"decay", F32, 3, {2, 3, 2}, NULL},
    {"beta", F32, 3, {2, 3, 2}, NULL},   {"past_state", F32, 4, {2, 2, 8, 6}, NULL},
};

#define INT(name, value) \
  { name, QUIRE_VALUE_TYPE_INT, value, 0, NULL }
#define FLOAT(name, value) \
  { name, QUIRE_VALUE_TYPE_FLOAT, 0, value, NULL }
#define TEXT(name, value) \
  { name, QUIRE_VALUE_TYPE_STRING, 0, 0, value }
#define NO_ATTRIBUTE(name) \
  { name, QUIRE_VALUE_TYPE_NONE, 0, 0, NULL }
#define NO_TENSOR(name) \
  { name, QUIRE_DTYPE_NONE, ABSENT, {0}, NULL }

/* clang-format off */
static const contract_row contrib_rows[] = {
    {QUIRE_OK, "", "", {{0}}, {{0}}},
    /* attributes */
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "q_num_heads", {NO_ATTRIBUTE("q_num_heads")}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "q_num_heads", {INT("q_num_heads", 0)}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "q_num_heads", {INT("q_num_heads", BIG)}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "kv_num_heads", {NO_ATTRIBUTE("kv_num_heads")}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "kv_num_heads", {INT("kv_num_heads", -2)}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "update_rule", {TEXT("update_rule", "Gated")}, {{0}}},
    {QUIRE_OK, "", "", {TEXT("update_rule", "")}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "state_window", {INT("state_window", 9)}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "state_window", {INT("state_window", -1)}, {{0}}},
    {QUIRE_OK, "", "", {INT("chunk_size", -5)}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-X5", "gate_activation", {TEXT("gate_activation", "silu")}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-X5", "beta_activation", {TEXT("beta_activation", "tanh")}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-X5", "qk_l2_norm", {INT("qk_l2_norm", 2)}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-X5", "qk_l2_norm_epsilon", {FLOAT("qk_l2_norm_epsilon", -1)}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-X6", "state_layout", {TEXT("state_layout", "x")}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-X7", "head_mapping", {TEXT("head_mapping", "x")}, {{0}}},
    {QUIRE_UNSUPPORTED, "", NULL, {FLOAT("softcap", 1)}, {{0}}},
    /* presence */
    {QUIRE_BAD_PRESENCE, "LA-V2", "query", {{0}}, {NO_TENSOR("query")}},
    {QUIRE_BAD_PRESENCE, "LA-V2", "key", {{0}}, {NO_TENSOR("key")}},
    {QUIRE_BAD_PRESENCE, "LA-V2", "value", {{0}}, {NO_TENSOR("value")}},
    {QUIRE_BAD_PRESENCE, "LA-V2", "decay", {{0}}, {NO_TENSOR("decay")}},
    {QUIRE_BAD_PRESENCE, "LA-V2", "beta", {{0}}, {NO_TENSOR("beta")}},
    {QUIRE_OK, "", "", {TEXT("update_rule", "linear")}, {NO_TENSOR("decay"), NO_TENSOR("beta")}},
    {QUIRE_OK, "", "", {TEXT("update_rule", "gated")}, {NO_TENSOR("beta")}},
    {QUIRE_OK, "", "", {TEXT("update_rule", "delta")}, {NO_TENSOR("decay")}},
    {QUIRE_OK, "", "", {TEXT("update_rule", "linear")}, {{0}}}, /* LA-E9 */
    {QUIRE_OK, "", "", {{0}}, {NO_TENSOR("past_state")}},
    /* ranks */
    {QUIRE_BAD_RANK, "LA-V3", "query", {{0}}, {{"query", F32, 2, {6, 32}, NULL}}},
    {QUIRE_BAD_RANK, "LA-V3", "past_state", {{0}}, {{"past_state", F32, 5, {1, 2, 2, 8, 6}, NULL}}},
    {QUIRE_BAD_RANK, "LA-V3", "past_state", {INT("state_window", 1)}, {{0}}}, /* LA-E5 */
    {QUIRE_OK, "", "", {INT("state_window", 1)}, {{"past_state", F32, 5, {1, 2, 2, 8, 6}, NULL}}},
    {QUIRE_BAD_RANK, "LA-V3", "present_state", {{0}}, {{"present_state", F32, 3, {2, 2, 48}, NULL}}},
    /* types */
    {QUIRE_BAD_TYPE, "LA-V4", "key", {{0}}, {{"key", F16, 3, {2, 3, 16}, NULL}}},
    {QUIRE_BAD_TYPE, "LA-V4", "query", {{0}}, {{"query", QUIRE_FLOAT64, 3, {2, 3, 32}, NULL}}},
    {QUIRE_OK, "", "", {{0}}, {{"past_state", F16, 4, {2, 2, 8, 6}, NULL}}},
    {QUIRE_OK, "", "", {{0}}, {{"past_state", QUIRE_BFLOAT16, 4, {2, 2, 8, 6}, NULL}}},
    {QUIRE_BAD_TYPE, "LA-V4", "present_state", {{0}}, {{"present_state", F16, 4, {2, 2, 8, 6}, NULL}}},
    {QUIRE_BAD_TYPE, "LA-V4", "output", {{0}}, {{"output", F16, 3, {2, 3, 24}, NULL}}},
    /* shapes */
    {QUIRE_BAD_SHAPE, "LA-V5", "query", {{0}}, {{"query", F32, 3, {2, 3, 0}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V5", "query", {{0}}, {{"query", F32, 3, {2, 3, 33}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V5", "key", {{0}}, {{"key", F32, 3, {2, 3, 0}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V5", "key", {{0}}, {{"key", F32, 3, {2, 3, 12}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V6", "value", {{0}}, {{"value", F32, 3, {2, 3, 13}, NULL}}},
    {QUIRE_OK, "", "", {{0}}, {{"value", F32, 3, {2, 3, 0}, NULL}, NO_TENSOR("past_state")}},
    {QUIRE_BAD_SHAPE, "LA-V7", "key", {{0}}, {{"key", F32, 3, {2, 3, 32}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V7", "q_num_heads", {INT("q_num_heads", 3)},
     {{"query", F32, 3, {2, 3, 24}, NULL}}},
    {QUIRE_OK, "", "", {INT("q_num_heads", 1)}, {{"query", F32, 3, {2, 3, 8}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V8", "key", {{0}}, {{"key", F32, 3, {1, 3, 16}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V8", "value", {{0}}, {{"value", F32, 3, {2, 4, 12}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V9", "decay", {{0}}, {{"decay", F32, 3, {2, 1, 2}, NULL}}}, /* LA-E10 */
    {QUIRE_BAD_SHAPE, "LA-V9", "decay", {{0}}, {{"decay", F32, 3, {2, 3, 8}, NULL}}},
    {QUIRE_OK, "", "", {{0}}, {{"decay", F32, 3, {2, 3, 16}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V9", "beta", {{0}}, {{"beta", F32, 3, {2, 3, 3}, NULL}}},
    {QUIRE_OK, "", "", {{0}}, {{"beta", F32, 3, {2, 3, 1}, NULL}}}, /* LA-E11 */
    {QUIRE_BAD_SHAPE, "LA-V9", "beta", {TEXT("update_rule", "linear")},
     {{"beta", F32, 3, {2, 2, 2}, NULL}}}, /* LA-E9 */
    {QUIRE_BAD_SHAPE, "LA-V10", "past_state", {{0}}, {{"past_state", F32, 4, {2, 2, 6, 8}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V10", "output", {{0}}, {{"output", F32, 3, {2, 3, 12}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V10", "present_state", {{0}}, {{"present_state", F32, 4, {2, 2, 8, 7}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V11", "state_window", {INT("state_window", 2), TEXT("update_rule", "linear")},
     {{"query", F32, 3, {2, 0, 32}, NULL}, {"key", F32, 3, {2, 0, 16}, NULL},
      {"value", F32, 3, {2, 0, 12}, NULL}, NO_TENSOR("past_state"), NO_TENSOR("decay"), NO_TENSOR("beta")}},
    {QUIRE_LIMIT, "LA-V12", NULL, {TEXT("update_rule", "linear")},
     {{"query", F32, 3, {BIG, BIG, 32}, NULL}, {"key", F32, 3, {BIG, BIG, 16}, NULL},
      {"value", F32, 3, {BIG, BIG, 12}, NULL}, NO_TENSOR("past_state"), NO_TENSOR("decay"), NO_TENSOR("beta")}},
    /* aliases */
    {QUIRE_OK, "", "", {{0}}, {{"present_state", F32, 4, {2, 2, 8, 6}, "past_state"}}},
    {QUIRE_BAD_ALIAS, "LA-V13", "present_state", {INT("state_window", 2)},
     {{"past_state", F32, 5, {2, 2, 2, 8, 6}, NULL}, {"present_state", F32, 5, {2, 2, 2, 8, 6}, "past_state"}}},
    /* X3 */
    {QUIRE_BAD_SHAPE, "LA-X3", "query", {{0}}, {{"cu_seqlens", I32, 1, {3}, NULL}}},
    {QUIRE_BAD_TYPE, "LA-V4", "cu_seqlens", {{0}}, {{"cu_seqlens", F32, 1, {3}, NULL}}},
    /* X4 */
    {QUIRE_BAD_PRESENCE, "LA-X4", "read_indices", {{0}},
     {NO_TENSOR("past_state"), {"state_pool", F32, 4, {5, 2, 8, 6}, NULL}, {"write_indices", I32, 1, {2}, NULL}}},
    {QUIRE_BAD_PRESENCE, "LA-X4", "write_indices", {{0}},
     {NO_TENSOR("past_state"), {"state_pool", F32, 4, {5, 2, 8, 6}, NULL}, {"read_indices", I32, 1, {2}, NULL}}},
    {QUIRE_BAD_PRESENCE, "LA-X4", "read_indices", {{0}}, {{"read_indices", I32, 1, {2}, NULL}}},
    {QUIRE_BAD_PRESENCE, "LA-X4", "past_state", {{0}},
     {{"state_pool", F32, 4, {5, 2, 8, 6}, NULL}, {"read_indices", I32, 1, {2}, NULL},
      {"write_indices", I32, 1, {2}, NULL}}},
    {QUIRE_OK, "", "", {{0}},
     {NO_TENSOR("past_state"), {"state_pool", F32, 4, {5, 2, 8, 6}, NULL},
      {"read_indices", I32, 1, {2}, NULL}, {"write_indices", I32, 1, {2}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-X4", "state_pool", {{0}},
     {NO_TENSOR("past_state"), {"state_pool", F32, 4, {5, 2, 6, 8}, NULL},
      {"read_indices", I32, 1, {2}, NULL}, {"write_indices", I32, 1, {2}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-X4", "read_indices", {{0}},
     {NO_TENSOR("past_state"), {"state_pool", F32, 4, {5, 2, 8, 6}, NULL},
      {"read_indices", I32, 1, {3}, NULL}, {"write_indices", I32, 1, {2}, NULL}}},
    {QUIRE_BAD_RANK, "LA-V3", "write_indices", {INT("state_window", 2)},
     {NO_TENSOR("past_state"), {"state_pool", F32, 4, {5, 2, 8, 6}, NULL},
      {"read_indices", I32, 1, {2}, NULL}, {"write_indices", I32, 1, {2}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-X4", "write_indices", {INT("state_window", 2)},
     {NO_TENSOR("past_state"), {"state_pool", F32, 4, {5, 2, 8, 6}, NULL},
      {"read_indices", I32, 1, {2}, NULL}, {"write_indices", I32, 2, {2, 3}, NULL}}},
    /* X5 */
    {QUIRE_BAD_PRESENCE, "LA-X5", "a_log", {TEXT("gate_activation", "qwen")},
     {{"dt_bias", F32, 1, {2}, NULL}}},
    {QUIRE_BAD_PRESENCE, "LA-X5", "dt_bias", {TEXT("gate_activation", "qwen")},
     {{"a_log", F32, 1, {2}, NULL}}},
    {QUIRE_BAD_PRESENCE, "LA-X5", "a_log", {{0}}, {{"a_log", F32, 1, {2}, NULL}}},
    {QUIRE_OK, "", "", {TEXT("gate_activation", "qwen")},
     {{"a_log", F32, 1, {2}, NULL}, {"dt_bias", F32, 1, {16}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-X5", "dt_bias", {TEXT("gate_activation", "qwen")},
     {{"a_log", F32, 1, {2}, NULL}, {"dt_bias", F32, 1, {8}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-X5", "a_log", {TEXT("gate_activation", "qwen")},
     {{"a_log", F32, 1, {1}, NULL}, {"dt_bias", F32, 1, {2}, NULL}}},
    /* X6 */
    {QUIRE_OK, "", "", {TEXT("state_layout", "v_major")}, {{"past_state", F32, 4, {2, 2, 6, 8}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-V10", "past_state", {TEXT("state_layout", "v_major")}, {{0}}},
};

static const contract_row strict_rows[] = {
    {QUIRE_OK, "", "", {{0}}, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LA-V1", "update_rule", {TEXT("update_rule", "")}, {{0}}},
    {QUIRE_UNSUPPORTED, "", NULL, {INT("state_window", 1)}, {{0}}},
    {QUIRE_UNSUPPORTED, "", NULL, {{0}}, {{"cu_seqlens", I32, 1, {3}, NULL}}},
    {QUIRE_BAD_PRESENCE, "LA-V2", "decay", {{0}}, {NO_TENSOR("decay")}},
    {QUIRE_BAD_PRESENCE, "LA-X2", "decay", {TEXT("update_rule", "delta")}, {{0}}},
    {QUIRE_BAD_PRESENCE, "LA-X2", "beta", {TEXT("update_rule", "gated")}, {{0}}},
    {QUIRE_BAD_SHAPE, "LA-X2", "key", {{0}}, {{"key", F32, 3, {2, 3, 8}, NULL}}},
    {QUIRE_BAD_SHAPE, "LA-X2", "q_num_heads", {INT("q_num_heads", 1)}, {{"query", F32, 3, {2, 3, 8}, NULL}}},
    {QUIRE_BAD_TYPE, "LA-X2", "present_state", {{0}},
     {NO_TENSOR("past_state"), {"present_state", F16, 4, {2, 2, 8, 6}, NULL}}},
    {QUIRE_OK, "", "", {{0}}, {{"past_state", F16, 4, {2, 2, 8, 6}, NULL}}},
    {QUIRE_OK, "", "", {{0}}, {{"present_state", F32, 4, {2, 2, 8, 6}, "past_state"}}},
};
/* clang-format on */

typedef struct call_form {
  quire_request_tensor inputs[MAX_TENSORS], outputs[2];
  size_t input_count, output_count;
  quire_named_value attributes[2 + MAX_CHANGES];
  size_t attribute_count;
} call_form;

static bool is_named(const char *name, const char *wanted) {
  return name && strcmp(name, wanted) == 0;
}

static void put_tensor(call_form *form, const tensor_change *t) {
  bool output = strcmp(t->name, "output") == 0 || strcmp(t->name, "present_state") == 0;
  quire_request_tensor tensor = {t->name, t->dtype, t->ndim, t->shape, NULL, t->alias};
  if (output) {
    form->outputs[form->output_count++] = tensor;
    return;
  }
  size_t place = 0;
  while (place < form->input_count && !is_named(form->inputs[place].name, t->name)) {
    place++;
  }
  if (t->ndim == ABSENT) {
    assert_true(place < form->input_count);
    form->inputs[place] = form->inputs[--form->input_count];
    return;
  }
  form->inputs[place] = tensor;
  form->input_count += place == form->input_count;
}

static void put_attribute(call_form *form, const attribute_change *a) {
  size_t place = 0;
  while (place < form->attribute_count && !is_named(form->attributes[place].name, a->name)) {
    place++;
  }
  if (a->type == QUIRE_VALUE_TYPE_NONE) {
    form->attributes[place] = form->attributes[--form->attribute_count];
    return;
  }
  form->attributes[place] = (quire_named_value){a->name, a->type, a->i, a->f, a->s};
  form->attribute_count += place == form->attribute_count;
}

static call_form make_form(const contract_row *row) {
  static const attribute_change heads[] = {INT("q_num_heads", 4), INT("kv_num_heads", 2)};
  call_form form;
  memset(&form, 0, sizeof form);
  put_attribute(&form, &heads[0]);
  put_attribute(&form, &heads[1]);
  for (size_t i = 0; i < sizeof base_tensors / sizeof base_tensors[0]; i++) {
    put_tensor(&form, &base_tensors[i]);
  }
  for (size_t i = 0; i < MAX_CHANGES && row->attributes[i].name != NULL; i++) {
    put_attribute(&form, &row->attributes[i]);
  }
  for (size_t i = 0; i < MAX_CHANGES && row->tensors[i].name; i++) {
    put_tensor(&form, &row->tensors[i]);
  }
  return form;
}

static void check_row(quire_device *device, const quire_operator *op, const contract_row *row,
                      size_t number) {
  call_form form = make_form(row);
  quire_request request;
  quire_error error;
  quire_plan *plan = NULL;
  memset(&error, 0, sizeof error);
  quire_request_init(&request);
  request.inputs = form.inputs;
  request.input_count = form.input_count;
  request.outputs = form.outputs;
  request.output_count = form.output_count;
  request.attributes = form.attributes;
  request.attribute_count = form.attribute_count;
  quire_status status = quire_plan_create(device, op, &request, &plan, &error);
  quire_plan_release(plan);
  if (status != row->status || strcmp(error.rule, row->rule) != 0 ||
      (row->subject && strcmp(error.subject, row->subject) != 0)) {
    fail_msg("row %zu: expected %s %s %s, got %s %s %s: %s", number, quire_status_name(row->status),
             row->rule, row->subject ? row->subject : "", quire_status_name(status), error.rule,
             error.subject, error.message);
  }
}

static void check_rows(const char *name, const contract_row *rows, size_t count) {
  cpu_device cpu = cpu_open(NULL, NULL);
  const quire_operator *op = quire_context_find_operator(cpu.context, name);
  assert_non_null(op);
  for (size_t i = 0; i < count; i++) {
    check_row(cpu.device, op, &rows[i], i);
  }
  cpu_close(&cpu);
}

static void test_contrib(void **state) {
  (void)state;
  check_rows("com.microsoft.LinearAttention", contrib_rows,
             sizeof contrib_rows / sizeof contrib_rows[0]);
}

static void test_strict(void **state) {
  (void)state;
  check_rows("ai.onnx.LinearAttention", strict_rows, sizeof strict_rows / sizeof strict_rows[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_contrib),
      cmocka_unit_test(test_strict),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
