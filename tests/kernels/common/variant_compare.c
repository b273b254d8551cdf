#include "variant_compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quire/webgpu.h"

/* Bytes before and behind every tensor: NaN in all types, and no kernel may change them. */
enum { GUARD_BYTE = 0xff, MAX_SLOTS = 32 };
static const size_t guard_bytes = 256;

/* ---- devices ---- */

void variant_open(variant_world *world, bool use_subgroups, bool default_limits) {
  quire_error error;
  memset(world, 0, sizeof *world);
  if (quire_context_create(NULL, &world->context, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  quire_device_options options;
  quire_device_options_init(&options);
  options.isa = QUIRE_ISA_SCALAR;
  if (quire_device_open(world->context, "cpu", &options, &world->cpu, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  quire_webgpu_options webgpu;
  quire_webgpu_options_init(&webgpu);
  webgpu.use_subgroups = use_subgroups;
  webgpu.default_limits = default_limits;
  quire_device_options_init(&options);
  options.webgpu = &webgpu;
  const quire_status status =
      quire_device_open(world->context, "webgpu", &options, &world->gpu, &error);
  if (status != QUIRE_OK) {
    print_message("no device: %s\n", error.message);
    assert_int_equal(status, QUIRE_NOT_FOUND);
    world->gpu = NULL;
  }
}

void variant_close(variant_world *world) {
  quire_device_release(world->gpu);
  quire_device_release(world->cpu);
  quire_context_release(world->context);
}

int variant_main(const char *name, struct CMUnitTest *tests, size_t count) {
  variant_world world;
  variant_open(&world, true, false);
  int result = 77;
  if (world.gpu != NULL) {
    for (size_t i = 0; i < count; i++) {
      tests[i].initial_state = &world;
    }
    result = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
  }
  variant_close(&world);
  return result;
}

void variant_set_int(quire_named_value *values, size_t *count, const char *name, int64_t value) {
  assert_true(*count < VARIANT_MAX_VALUES);
  values[(*count)++] = (quire_named_value){.name = name, .type = QUIRE_VALUE_TYPE_INT, .i = value};
}

void variant_set_text(quire_named_value *values, size_t *count, const char *name,
                      const char *value) {
  assert_true(*count < VARIANT_MAX_VALUES);
  values[(*count)++] =
      (quire_named_value){.name = name, .type = QUIRE_VALUE_TYPE_STRING, .s = value};
}

/* ---- one run ---- */

typedef struct run {
  const variant_call *call;
  const quire_operator *op;
  quire_device *device;
  quire_plan *plan;
  quire_workspace *workspace;
  quire_tensor tensors[MAX_SLOTS];
  uint64_t bytes[MAX_SLOTS];
  bool owned[MAX_SLOTS];
  unsigned char *results[MAX_SLOTS]; /* of outputs: host copies, without guards */
} run;

static void must(quire_status status, const quire_error *error) {
  if (status != QUIRE_OK) {
    fail_msg("%s", error->message);
  }
}

static void describe(const variant_tensor *from, size_t count, quire_request_tensor *to) {
  for (size_t i = 0; i < count; i++) {
    to[i] = (quire_request_tensor){from[i].name,  from[i].dtype, from[i].ndim,
                                   from[i].shape, NULL,          from[i].alias};
  }
}

static quire_status plan_run(run *r, const char *variant, bool on_device, quire_error *error) {
  const variant_call *call = r->call;
  quire_request_tensor inputs[VARIANT_MAX_TENSORS];
  quire_request_tensor outputs[VARIANT_MAX_TENSORS];
  describe(call->inputs, call->input_count, inputs);
  describe(call->outputs, call->output_count, outputs);
  quire_request request;
  quire_request_init(&request);
  request.inputs = inputs;
  request.input_count = call->input_count;
  request.outputs = outputs;
  request.output_count = call->output_count;
  request.attributes = call->attributes;
  request.attribute_count = call->attribute_count;
  if (on_device) {
    request.tunables = call->tunables;
    request.tunable_count = call->tunable_count;
    request.variant = variant;
  }
  return quire_plan_create(r->device, r->op, &request, &r->plan, error);
}

const variant_tensor *variant_find(const variant_tensor *tensors, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(tensors[i].name, name) == 0) {
      return &tensors[i];
    }
  }
  return NULL;
}

int64_t variant_count(const variant_tensor *tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->ndim; d++) {
    count *= tensor->shape[d];
  }
  return count;
}

static uint64_t elements_of(const quire_tensor *form) {
  uint64_t count = 1;
  for (int32_t d = 0; d < form->ndim; d++) {
    count *= (uint64_t)form->shape[d];
  }
  return count;
}

/* A guarded buffer with the data, or with nothing but NaN. */
static void make_buffer(run *r, size_t slot, const void *data) {
  quire_error error;
  quire_tensor *tensor = &r->tensors[slot];
  r->bytes[slot] = quire_plan_slot_bytes(r->plan, slot);
  const size_t size = (size_t)r->bytes[slot] + 2 * guard_bytes;
  unsigned char *content = malloc(size);
  assert_non_null(content);
  memset(content, GUARD_BYTE, size);
  if (data != NULL) {
    memcpy(content + guard_bytes, data,
           (size_t)elements_of(tensor) * quire_dtype_size(tensor->dtype));
  }
  must(quire_buffer_create(r->device, size, &tensor->data, &error), &error);
  must(quire_buffer_write(r->device, tensor->data, 0, content, size, &error), &error);
  tensor->byte_offset = guard_bytes;
  r->owned[slot] = true;
  free(content);
}

static void make_tensors(run *r) {
  quire_error error;
  const size_t count = quire_operator_slot_count(r->op);
  assert_true(count <= MAX_SLOTS);
  for (size_t i = 0; i < count; i++) {
    quire_slot slot;
    must(quire_operator_slot(r->op, i, &slot), &error);
    must(quire_plan_slot(r->plan, i, &r->tensors[i]), &error);
    if (r->tensors[i].dtype == QUIRE_DTYPE_NONE || (slot.is_output && slot.alias >= 0)) {
      r->tensors[i] = (quire_tensor){0}; /* absent, or in place */
      continue;
    }
    if (!slot.is_output) {
      const variant_tensor *given = variant_find(r->call->inputs, r->call->input_count, slot.name);
      assert_non_null(given);
      make_buffer(r, i, given->data);
      continue;
    }
    const variant_tensor *wanted = variant_find(r->call->outputs, r->call->output_count, slot.name);
    const int32_t alias = wanted != NULL && wanted->alias != NULL
                              ? quire_operator_find_slot(r->op, wanted->alias, 0)
                              : -1;
    if (alias >= 0) {
      r->tensors[i].data = r->tensors[alias].data;
      r->tensors[i].byte_offset = guard_bytes;
      r->bytes[i] = r->bytes[alias];
    } else {
      make_buffer(r, i, NULL);
    }
  }
}

/* Reads every tensor back, checks its guards, keeps those that are written. */
static void read_results(run *r) {
  quire_error error;
  for (size_t i = 0; i < quire_operator_slot_count(r->op); i++) {
    quire_slot slot;
    must(quire_operator_slot(r->op, i, &slot), &error);
    const size_t from = slot.is_output && slot.alias >= 0 ? (size_t)slot.alias : i;
    if (r->tensors[from].data == NULL) {
      continue;
    }
    const size_t bytes = (size_t)r->bytes[from];
    unsigned char *content = malloc(bytes + 2 * guard_bytes);
    assert_non_null(content);
    must(quire_buffer_read(r->device, r->tensors[from].data, 0, content, bytes + 2 * guard_bytes,
                           &error),
         &error);
    for (size_t b = 0; b < guard_bytes; b++) {
      if (content[b] != GUARD_BYTE || content[guard_bytes + bytes + b] != GUARD_BYTE) {
        fail_msg("%s: written outside", slot.name);
      }
    }
    memmove(content, content + guard_bytes, bytes);
    if (slot.is_output) {
      r->results[i] = content;
    } else {
      free(content);
    }
  }
}

static void finish(run *r) {
  for (size_t i = 0; i < MAX_SLOTS; i++) {
    free(r->results[i]);
    if (r->owned[i]) {
      quire_buffer_destroy(r->device, r->tensors[i].data);
    }
  }
  quire_workspace_release(r->workspace);
  quire_plan_release(r->plan);
}

static void compute(run *r) {
  quire_error error;
  make_tensors(r);
  must(quire_workspace_create(r->device, NULL, &r->workspace, &error), &error);
  must(quire_plan_run(r->plan, r->tensors, quire_operator_slot_count(r->op), r->workspace, NULL,
                      &error),
       &error);
  read_results(r);
}

/* ---- comparison ---- */

static double value_of(quire_dtype dtype, const unsigned char *data, size_t index) {
  uint16_t half;
  float single;
  int32_t whole;
  switch (dtype) {
    case QUIRE_FLOAT32:
      memcpy(&single, data + 4 * index, sizeof single);
      return (double)single;
    case QUIRE_INT8:
      return (double)(signed char)data[index];
    case QUIRE_INT32:
      memcpy(&whole, data + 4 * index, sizeof whole);
      return whole;
    case QUIRE_BFLOAT16: {
      memcpy(&half, data + 2 * index, sizeof half);
      const uint32_t bits = (uint32_t)half << 16;
      memcpy(&single, &bits, sizeof single);
      return (double)single;
    }
    case QUIRE_FLOAT16: {
      memcpy(&half, data + 2 * index, sizeof half);
      const int exponent = (half >> 10) & 31;
      const int fraction = half & 1023;
      double x =
          ldexp(exponent == 0 ? fraction : fraction + 1024, (exponent == 0 ? 1 : exponent) - 25);
      if (exponent == 31) {
        x = fraction == 0 ? (double)INFINITY : (double)NAN;
      }
      return (half & 0x8000) != 0 ? -x : x;
    }
    default:
      fail_msg("a type that is not compared");
      return 0;
  }
}

static double unit_of(quire_dtype dtype) {
  return dtype == QUIRE_FLOAT16 ? ldexp(1, -10) : dtype == QUIRE_BFLOAT16 ? ldexp(1, -7) : 0;
}

static void compare_slot(const run *got, const run *want, size_t i, const char *name,
                         double relative) {
  quire_error error;
  quire_tensor form;
  must(quire_plan_slot(want->plan, i, &form), &error);
  const size_t count = (size_t)elements_of(&form);
  double largest = 0;
  for (size_t e = 0; e < count; e++) {
    const double x = fabs(value_of(form.dtype, want->results[i], e));
    largest = isfinite(x) && x > largest ? x : largest;
  }
  for (size_t e = 0; e < count; e++) {
    const double x = value_of(form.dtype, want->results[i], e);
    const double y = value_of(form.dtype, got->results[i], e);
    const double most = relative * largest + unit_of(form.dtype) * fabs(x);
    if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= most)) {
      fail_msg("%s, variant %s: %s[%zu] is %.9g, the CPU has %.9g (of %.3g at most)",
               want->call->op, quire_plan_variant(got->plan), name, e, y, x, largest);
    }
  }
}

/* The operator's own name of a variant. */
static const char *find_variant(const quire_operator *op, const char *name) {
  for (size_t v = 0; v < quire_operator_variant_count(op); v++) {
    if (strcmp(quire_operator_variant_name(op, v), name) == 0) {
      return quire_operator_variant_name(op, v);
    }
  }
  fail_msg("the operator has no variant %s", name);
  return "";
}

static bool was_compared(const variant_world *world, const char *op, const char *variant) {
  for (size_t i = 0; i < world->compared_count; i++) {
    if (strcmp(world->compared[i].op, op) == 0 &&
        strcmp(world->compared[i].variant, variant) == 0) {
      return true;
    }
  }
  return false;
}

void variant_expect_all(const variant_world *world, const char *op) {
  const quire_operator *found = quire_context_find_operator(world->context, op);
  assert_non_null(found);
  for (size_t v = 0; v < quire_operator_variant_count(found); v++) {
    const char *name = quire_operator_variant_name(found, v);
    if (strcmp(quire_operator_variant_backend(found, v), "webgpu") == 0 &&
        !was_compared(world, op, name)) {
      fail_msg("%s: variant %s was never compared", op, name);
    }
  }
}

static quire_status compare(variant_world *world, const variant_call *call,
                            const variant_call *on_cpu, const char *variant,
                            variant_tolerance tolerance, const char **chosen) {
  quire_error error;
  const quire_operator *op = quire_context_find_operator(world->context, call->op);
  assert_non_null(op);
  run got = {.call = call, .op = op, .device = world->gpu};
  run want = {.call = on_cpu, .op = op, .device = world->cpu};
  const quire_status status = plan_run(&got, variant, true, &error);
  if (status == QUIRE_UNSUPPORTED || status == QUIRE_LIMIT) {
    return status;
  }
  must(status, &error);
  must(plan_run(&want, NULL, false, &error), &error);
  compute(&got);
  compute(&want);
  for (size_t i = 0; i < quire_operator_slot_count(op); i++) {
    quire_slot slot;
    must(quire_operator_slot(op, i, &slot), &error);
    if (slot.is_output && want.results[i] != NULL) {
      assert_non_null(got.results[i]);
      compare_slot(&got, &want, i, slot.name, tolerance.relative);
    }
  }
  *chosen = find_variant(op, quire_plan_variant(got.plan));
  if (!was_compared(world, call->op, *chosen)) {
    assert_true(world->compared_count < VARIANT_MAX_COMPARED);
    world->compared[world->compared_count++] = (variant_name){call->op, *chosen};
  }
  finish(&got);
  finish(&want);
  return QUIRE_OK;
}

quire_status variant_compare(variant_world *world, const variant_call *call, const char *variant,
                             variant_tolerance tolerance, const char **chosen) {
  const char *name = NULL;
  return compare(world, call, call, variant, tolerance, chosen != NULL ? chosen : &name);
}

quire_status variant_compare_as(variant_world *world, const variant_call *call,
                                const variant_call *on_cpu, const char *variant,
                                variant_tolerance tolerance) {
  const char *name = NULL;
  return compare(world, call, on_cpu, variant, tolerance, &name);
}

/* Fails the test unless every buffer holds what make_buffer() put there. */
static void expect_untouched(const run *r) {
  quire_error error;
  for (size_t i = 0; i < quire_operator_slot_count(r->op); i++) {
    if (!r->owned[i]) {
      continue;
    }
    quire_slot slot;
    must(quire_operator_slot(r->op, i, &slot), &error);
    const variant_tensor *given = variant_find(r->call->inputs, r->call->input_count, slot.name);
    const size_t size = (size_t)r->bytes[i];
    unsigned char *content = malloc(size + 1);
    assert_non_null(content);
    must(quire_buffer_read(r->device, r->tensors[i].data, guard_bytes, content, size, &error),
         &error);
    const size_t known =
        given == NULL || slot.is_output
            ? 0
            : (size_t)elements_of(&r->tensors[i]) * quire_dtype_size(r->tensors[i].dtype);
    if (known > 0 && memcmp(content, given->data, known) != 0) {
      fail_msg("%s: changed by a refused call", slot.name);
    }
    for (size_t b = known; b < size; b++) {
      if (content[b] != GUARD_BYTE) {
        fail_msg("%s: written by a refused call", slot.name);
      }
    }
    free(content);
  }
}

static quire_status run_checked(run *r, const char *variant, bool on_device, quire_error *error) {
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_CHECK_VALUES;
  must(plan_run(r, variant, on_device, error), error);
  make_tensors(r);
  must(quire_workspace_create(r->device, NULL, &r->workspace, error), error);
  return quire_plan_run(r->plan, r->tensors, quire_operator_slot_count(r->op), r->workspace,
                        &options, error);
}

bool variant_is_refused(variant_world *world, const variant_call *call, const char *variant) {
  quire_error got_error;
  quire_error want_error;
  const quire_operator *op = quire_context_find_operator(world->context, call->op);
  assert_non_null(op);
  run got = {.call = call, .op = op, .device = world->gpu};
  run want = {.call = call, .op = op, .device = world->cpu};
  const quire_status status = run_checked(&got, variant, true, &got_error);
  assert_int_equal(status, run_checked(&want, NULL, false, &want_error));
  if (status != QUIRE_OK) {
    assert_int_equal(status, QUIRE_BAD_VALUE);
    assert_string_equal(got_error.message, want_error.message);
    expect_untouched(&got);
  }
  finish(&got);
  finish(&want);
  return status != QUIRE_OK;
}

unsigned char *variant_run(variant_world *world, const variant_call *call, const char *variant,
                           const char *name) {
  quire_error error;
  const quire_operator *op = quire_context_find_operator(world->context, call->op);
  assert_non_null(op);
  run got = {.call = call, .op = op, .device = world->gpu};
  must(plan_run(&got, variant, true, &error), &error);
  compute(&got);
  const int32_t slot = quire_operator_find_slot(op, name, 1);
  assert_true(slot >= 0);
  unsigned char *result = got.results[slot];
  got.results[slot] = NULL;
  finish(&got);
  return result;
}
