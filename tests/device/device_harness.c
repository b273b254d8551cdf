#include "device_harness.h"

#include "error.h"

/* ---- operators ---- */

static const char scale_text[] =
    "{\"domain\": \"test\", \"name\": \"Scale\", \"sinceVersion\": 1,"
    " \"inputs\": {\"x\": {\"dtype\": \"float32\", \"rank\": 2}},"
    " \"outputs\": {\"y\": {\"dtype\": \"float32\", \"shape\": \"shapes.x\", \"mayAlias\": \"x\"}},"
    " \"attributes\": {\"factor\": {\"type\": \"float\", \"default\": 1}},"
    " \"rules\": {\"alias\": \"TS-V2\", \"presence\": \"TS-V1\"},"
    " \"variants\": [{\"id\": \"rows\", \"requires\": {\"backend\": \"cpu\"},"
    "  \"passes\": [{\"id\": \"scale\", \"native\": \"test_scale\", \"bindings\": [\"x\", \"y\","
    "   {\"name\": \"params\", \"struct\":"
    "    [{\"name\": \"factor\", \"type\": \"f32\", \"value\": \"attrs.factor\"}]}],"
    "   \"dispatch\": {\"x\": \"dim(shapes.x, 0)\"}}]}]}";

static const char columns_text[] =
    "{\"domain\": \"test\", \"name\": \"Columns\", \"sinceVersion\": 1,"
    " \"inputs\": {\"x\": {\"dtype\": \"float32\", \"rank\": 2}},"
    " \"outputs\": {\"y\": {\"dtype\": \"float32\", \"shape\": \"shapes.x\"}},"
    " \"attributes\": {\"factor\": {\"type\": \"float\", \"default\": 1}},"
    " \"variants\": [{\"id\": \"columns\", \"requires\": {\"backend\": \"cpu\"},"
    "  \"passes\": [{\"id\": \"scale\", \"native\": \"test_scale\","
    "   \"bindings\": [{\"arg\": \"x\", \"axes\": [1, 0]}, {\"arg\": \"y\", \"axes\": [1, 0]},"
    "   {\"name\": \"params\", \"struct\":"
    "    [{\"name\": \"factor\", \"type\": \"f32\", \"value\": \"attrs.factor\"}]}],"
    "   \"dispatch\": {\"x\": \"dim(shapes.x, 1)\"}}]}]}";

static const char shift_text[] =
    "{\"domain\": \"test\", \"name\": \"Shift\", \"sinceVersion\": 1,"
    " \"inputs\": {\"x\": {\"dtype\": \"float32\", \"rank\": 3}},"
    " \"outputs\": {\"y\": {\"dtype\": \"float32\", \"shape\": \"shapes.x\"}},"
    " \"variants\": [{\"id\": \"cells\", \"requires\": {\"backend\": \"cpu\"},"
    "  \"passes\": [{\"id\": \"shift\", \"native\": \"test_shift\", \"bindings\": [\"x\", \"y\"],"
    "   \"dispatch\": {\"x\": \"dim(shapes.x, 2)\", \"y\": \"dim(shapes.x, 1)\","
    "    \"z\": \"dim(shapes.x, 0)\"}}]}]}";

static const char append_text[] =
    "{\"domain\": \"test\", \"name\": \"Append\", \"sinceVersion\": 1,"
    " \"inputs\": {\"cache\": {\"dtype\": \"float32\", \"rank\": 3},"
    "  \"lengths\": {\"dtype\": \"int32\", \"rank\": 1},"
    "  \"values\": {\"dtype\": \"float32\", \"rank\": 2, \"optional\": true}},"
    " \"outputs\": {\"cache\": {\"dtype\": \"float32\", \"onnx\": \"cache_out\"},"
    "  \"total\": {\"dtype\": \"float32\", \"shape\": [\"sequences\"]}},"
    " \"attributes\": {\"step\": {\"type\": \"float\", \"default\": 1}},"
    " \"rules\": {\"alias\": \"TA-V2\", \"presence\": \"TA-V1\"},"
    " \"derive\": {\"sequences\": \"dim(shapes.cache, 0)\"},"
    " \"variants\": [{\"id\": \"plain\", \"requires\": {\"backend\": \"cpu\"},"
    "  \"intermediates\": ["
    "   {\"id\": \"hits\", \"dtype\": \"uint32\", \"shape\": [\"sequences\", \"dim(shapes.cache, "
    "2)\"],"
    "    \"zeroInit\": true},"
    "   {\"id\": \"work\", \"dtype\": \"int32\", \"shape\": [\"sequences\", 2],"
    "    \"lifetime\": \"step\"},"
    "   {\"id\": \"grid\", \"dtype\": \"uint32\", \"shape\": [3], \"lifetime\": \"step\"}],"
    "  \"passes\": ["
    "   {\"id\": \"schedule\", \"native\": \"test_append_schedule\", \"role\": \"schedule\","
    "    \"bindings\": [{\"arg\": \"cache\", \"buffer\": \"read-only-storage\"}, \"lengths\","
    "     \"work\", \"grid\"], \"dispatch\": {\"x\": 1}},"
    "   {\"id\": \"append\", \"native\": \"test_append\","
    "    \"bindings\": [{\"arg\": \"values\", \"optional\": true},"
    "     {\"scratch\": \"work\", \"buffer\": \"read-only-storage\"}, \"cache\", \"hits\","
    "     {\"name\": \"params\", \"struct\":"
    "      [{\"name\": \"step\", \"type\": \"f32\", \"value\": \"attrs.step\"}]}],"
    "    \"dispatch\": {\"x\": \"sequences\", \"y\": \"dim(shapes.cache, 2)\"}, \"grid\": "
    "\"grid\"},"
    "   {\"id\": \"sum\", \"native\": \"test_append_sum\","
    "    \"bindings\": [{\"arg\": \"cache\", \"buffer\": \"read-only-storage\"},"
    "     {\"scratch\": \"hits\", \"buffer\": \"read-only-storage\"}, \"total\"],"
    "    \"dispatch\": {\"x\": \"sequences\"}}]}]}";

/* ---- kernels ---- */

#define F32 QUIRE_DTYPE_BIT(QUIRE_FLOAT32)
#define I32 QUIRE_DTYPE_BIT(QUIRE_INT32)
#define U32 QUIRE_DTYPE_BIT(QUIRE_UINT32)

static float *at3(const quire_view *view, int64_t i, int64_t j, int64_t k) {
  return (float *)view->data + i * view->stride[0] + j * view->stride[1] + k * view->stride[2];
}

static quire_status scale(const quire_pass *pass, const size_t item[3]) {
  const quire_view *x = &pass->views[0];
  const quire_view *y = &pass->views[1];
  float factor = *(const float *)pass->uniforms;
  int64_t row = (int64_t)item[0];
  if (row >= x->shape[0] || pass->grid[0] != (size_t)x->shape[0]) {
    return QUIRE_INTERNAL;
  }
  for (int64_t i = 0; i < x->shape[1]; i++) {
    ((float *)y->data)[row * y->stride[0] + i * y->stride[1]] =
        factor * ((const float *)x->data)[row * x->stride[0] + i * x->stride[1]];
  }
  return QUIRE_OK;
}

/* Item (x, y, z) is one cell: all of them come out only if every item is run. */
static quire_status shift(const quire_pass *pass, const size_t item[3]) {
  for (int i = 0; i < 3; i++) {
    if (item[i] >= pass->grid[i]) {
      return QUIRE_INTERNAL;
    }
  }
  *at3(&pass->views[1], (int64_t)item[2], (int64_t)item[1], (int64_t)item[0]) =
      *at3(&pass->views[0], (int64_t)item[2], (int64_t)item[1], (int64_t)item[0]) + 1;
  return QUIRE_OK;
}

static quire_status append_schedule(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_view *cache = &pass->views[0];
  const int32_t *lengths = pass->views[1].data;
  int32_t *work = pass->views[2].data;
  uint32_t *grid = pass->views[3].data;
  if (cache->data != NULL || cache->dtype != QUIRE_FLOAT32) {
    return QUIRE_INTERNAL; /* a schedule pass sees forms of such tensors, not their data */
  }
  size_t count = 0;
  for (int32_t n = 0; n < cache->shape[0]; n++) {
    bool refused =
        lengths[n] > cache->shape[1] || (lengths[n] < 0 && (pass->flags & QUIRE_RUN_STRICT) != 0);
    if (refused) {
      return quire_fail(pass->error, QUIRE_BAD_VALUE, "TA-V3", "lengths", "element %d is %d",
                        (int)n, (int)lengths[n]);
    }
    if (lengths[n] > 0) {
      work[count * 2u] = n;
      work[count * 2u + 1u] = lengths[n];
      count++;
    }
  }
  grid[0] = cache->shape[0] > 0 && lengths[0] == HARNESS_GREEDY_LENGTH ? 1u << 20 : (uint32_t)count;
  grid[1] = (uint32_t)cache->shape[2];
  grid[2] = 1;
  return QUIRE_OK;
}

static quire_status append(const quire_pass *pass, const size_t item[3]) {
  const quire_view *values = &pass->views[0];
  const int32_t *work = pass->views[1].data;
  const quire_view *cache = &pass->views[2];
  const quire_view *hits = &pass->views[3];
  float step = *(const float *)pass->uniforms;
  int64_t n = work[2 * item[0]];
  int64_t d = (int64_t)item[1];
  if (step == HARNESS_FAILING_STEP) {
    return QUIRE_INTERNAL;
  }
  if (step == HARNESS_OVERRUN_STEP) {
    ((uint32_t *)hits->data)[hits->shape[0] * hits->stride[0]] = 1;
  }
  float more = step;
  if (values->dtype != QUIRE_DTYPE_NONE) {
    more += ((const float *)values->data)[n * values->stride[0] + d * values->stride[1]];
  }
  for (int64_t t = 0; t < work[2 * item[0] + 1]; t++) {
    *at3(cache, n, t, d) += more;
  }
  ((uint32_t *)hits->data)[n * hits->stride[0] + d * hits->stride[1]]++;
  return QUIRE_OK;
}

static quire_status append_sum(const quire_pass *pass, const size_t item[3]) {
  const quire_view *cache = &pass->views[0];
  const quire_view *hits = &pass->views[1];
  const quire_view *total = &pass->views[2];
  int64_t n = (int64_t)item[0];
  float sum = 0;
  for (int64_t t = 0; t < cache->shape[1]; t++) {
    for (int64_t d = 0; d < cache->shape[2]; d++) {
      sum += *at3(cache, n, t, d);
    }
  }
  for (int64_t d = 0; d < hits->shape[1]; d++) {
    sum += 1000.0f * (float)((const uint32_t *)hits->data)[n * hits->stride[0] + d];
  }
  ((float *)total->data)[n * total->stride[0]] = sum;
  return QUIRE_OK;
}

static const quire_pass_binding scale_bindings[] = {{"x", F32}, {"y", F32}};
static const quire_pass_binding schedule_bindings[] = {
    {"cache", F32}, {"lengths", I32}, {"work", I32}, {"grid", U32}};
static const quire_pass_binding append_bindings[] = {
    {"values", F32}, {"work", I32}, {"cache", F32}, {"hits", U32}};
static const quire_pass_binding sum_bindings[] = {{"cache", F32}, {"hits", U32}, {"total", F32}};

static const quire_implementation implementations[] = {
    {"test_scale", "test_scale__scalar", scale_bindings, 2, "factor:f32", 0, QUIRE_ISA_SCALAR,
     QUIRE_PRECISION_EXACT, 0, scale},
    {"test_shift", "test_shift__scalar", scale_bindings, 2, "", 0, QUIRE_ISA_SCALAR,
     QUIRE_PRECISION_EXACT, 0, shift},
    {"test_append_schedule", "test_append_schedule__scalar", schedule_bindings, 4, "", 0,
     QUIRE_ISA_SCALAR, QUIRE_PRECISION_EXACT, 0, append_schedule},
    {"test_append", "test_append__scalar", append_bindings, 4, "step:f32", 0, QUIRE_ISA_SCALAR,
     QUIRE_PRECISION_EXACT, 0, append},
    {"test_append_sum", "test_append_sum__scalar", sum_bindings, 3, "", 0, QUIRE_ISA_SCALAR,
     QUIRE_PRECISION_EXACT, 0, append_sum},
};
static const quire_implementation_list list = {
    implementations, sizeof(implementations) / sizeof(implementations[0])};
static const quire_registry registry = {&list, 1};

/* ---- what the library does elsewhere ---- */

void quire_operator_retain(const quire_operator *op) {
  atomic_fetch_add(&((quire_operator *)op)->references, 1);
}

void quire_operator_release(quire_operator *op) {
  atomic_fetch_sub(&op->references, 1);
}

/* ---- world ---- */

static harness *of_owner(quire_owner *owner) {
  return (harness *)(void *)((char *)owner - offsetof(harness, owner));
}

static void retain_owner(quire_owner *owner) {
  atomic_fetch_add(&of_owner(owner)->references, 1);
}

static void release_owner(quire_owner *owner) {
  atomic_fetch_sub(&of_owner(owner)->references, 1);
}

static void load(harness *h, quire_operator *op, const char *text) {
  quire_error error;
  quire_status status = quire_manifest_load(&quire_default_allocator, text, strlen(text), NULL,
                                            NULL, &op->manifest, &error);
  if (status != QUIRE_OK) {
    fail_msg("test manifest: %s", error.message);
  }
  if (quire_registry_check(&registry, op->manifest, &error) != QUIRE_OK) {
    fail_msg("test manifest: %s", error.message);
  }
  op->owner = &h->owner;
  atomic_init(&op->references, 1);
}

void harness_open(harness *h, size_t threads) {
  memset(h, 0, sizeof(*h));
  counting_allocator_init(&h->memory);
  h->memory.raw = true;
  h->owner.allocator = &h->memory.allocator;
  h->owner.registry = &registry;
  h->owner.retain = retain_owner;
  h->owner.release = release_owner;
  load(h, &h->scale, scale_text);
  load(h, &h->columns, columns_text);
  load(h, &h->shift, shift_text);
  load(h, &h->append, append_text);
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = threads;
  quire_error error;
  if (quire_device_open_backend(&h->owner, "cpu", &options, &h->device, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

void harness_close(harness *h) {
  quire_device_release(h->device);
  assert_int_equal(atomic_load(&h->memory.live), 0);
  assert_int_equal(atomic_load(&h->references), 0);
  assert_int_equal(atomic_load(&h->scale.references), 1);
  assert_int_equal(atomic_load(&h->columns.references), 1);
  assert_int_equal(atomic_load(&h->append.references), 1);
  quire_manifest_destroy(h->scale.manifest);
  quire_manifest_destroy(h->columns.manifest);
  quire_manifest_destroy(h->shift.manifest);
  quire_manifest_destroy(h->append.manifest);
}

/* ---- calls ---- */

quire_tensor dense_tensor(void *data, quire_dtype dtype, int32_t ndim, const int64_t *shape) {
  quire_tensor tensor = {.data = data, .dtype = dtype, .ndim = ndim, .shape = shape};
  return tensor;
}

quire_plan *scale_plan(harness *h, const quire_operator *op, const int64_t shape[2], double factor,
                       bool alias) {
  quire_request request;
  quire_request_init(&request);
  quire_request_tensor x = {"x", QUIRE_FLOAT32, 2, shape, NULL, NULL};
  quire_request_tensor y = {"y", QUIRE_FLOAT32, 2, shape, NULL, alias ? "x" : NULL};
  quire_named_value attribute = {"factor", QUIRE_VALUE_TYPE_FLOAT, 0, factor, NULL};
  request.inputs = &x;
  request.input_count = 1;
  request.outputs = &y;
  request.output_count = 1;
  request.attributes = &attribute;
  request.attribute_count = 1;
  quire_plan *plan = NULL;
  quire_error error;
  if (quire_plan_create(h->device, op, &request, &plan, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  return plan;
}

static void set_strides(append_call *call, const append_options *options) {
  int64_t pad = options->padded ? 3 : 0;
  call->cache_strides[2] = 1;
  call->cache_strides[1] = call->d + pad;
  call->cache_strides[0] = call->c * call->cache_strides[1] + pad;
  memcpy(call->cache_out_strides, call->cache_strides, sizeof(call->cache_strides));
  if (options->padded && options->output == APPEND_SEPARATE && options->listed) {
    call->cache_out_strides[2] = 1; /* rows outside sequences */
    call->cache_out_strides[0] = call->d + 1;
    call->cache_out_strides[1] = call->n * call->cache_out_strides[0] + 2;
  }
  call->room = (size_t)((call->n + 1) * (call->c + 1) * (call->d + 4) + 16);
}

static void make_plan(harness *h, append_call *call, const append_options *options) {
  quire_request request;
  quire_request_init(&request);
  quire_request_tensor inputs[] = {
      {"cache", QUIRE_FLOAT32, 3, call->cache_shape, call->cache_strides, NULL},
      {"lengths", QUIRE_INT32, 1, call->n_shape, NULL, NULL},
      {"values", QUIRE_FLOAT32, 2, call->values_shape, NULL, NULL}};
  quire_request_tensor output = {"cache_out",
                                 QUIRE_FLOAT32,
                                 3,
                                 call->cache_shape,
                                 call->cache_out_strides,
                                 options->output == APPEND_SEPARATE ? NULL : "cache"};
  quire_named_value attribute = {"step", QUIRE_VALUE_TYPE_FLOAT, 0, (double)options->step, NULL};
  request.inputs = inputs;
  request.input_count = options->values ? 3 : 2;
  request.outputs = options->listed ? &output : NULL;
  request.output_count = options->listed ? 1 : 0;
  request.attributes = &attribute;
  request.attribute_count = 1;
  quire_error error;
  if (quire_plan_create(h->device, &h->append, &request, &call->plan, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

void append_make(harness *h, append_call *call, const append_options *options) {
  memset(call, 0, sizeof(*call));
  call->n = call->cache_shape[0] = call->n_shape[0] = call->values_shape[0] = options->n;
  call->c = call->cache_shape[1] = options->c;
  call->d = call->cache_shape[2] = call->values_shape[1] = options->d;
  set_strides(call, options);
  call->cache = calloc(call->room, sizeof(float));
  call->cache_out = calloc(call->room, sizeof(float));
  call->values = calloc((size_t)(call->n * call->d + 1), sizeof(float));
  call->total = calloc((size_t)call->n + 1, sizeof(float));
  call->lengths = calloc((size_t)call->n + 1, sizeof(int32_t));
  for (int64_t i = 0; i < call->n * call->d; i++) {
    call->values[i] = (float)(i % 5);
  }
  for (int64_t n = 0; n < call->n; n++) {
    call->lengths[n] = (int32_t)(n * 3 % (call->c + 1)); /* some of them 0 */
  }
  quire_tensor *tensors = call->tensors;
  tensors[APPEND_CACHE] = dense_tensor(call->cache, QUIRE_FLOAT32, 3, call->cache_shape);
  tensors[APPEND_CACHE].strides = call->cache_strides;
  tensors[APPEND_LENGTHS] = dense_tensor(call->lengths, QUIRE_INT32, 1, call->n_shape);
  if (options->values) {
    tensors[APPEND_VALUES] = dense_tensor(call->values, QUIRE_FLOAT32, 2, call->values_shape);
  }
  if (options->output != APPEND_EMPTY) {
    tensors[APPEND_CACHE_OUT] =
        options->output == APPEND_EQUAL
            ? tensors[APPEND_CACHE]
            : dense_tensor(call->cache_out, QUIRE_FLOAT32, 3, call->cache_shape);
    tensors[APPEND_CACHE_OUT].strides = call->cache_out_strides;
  }
  tensors[APPEND_TOTAL] = dense_tensor(call->total, QUIRE_FLOAT32, 1, call->n_shape);
  make_plan(h, call, options);
  append_reset(call);
}

static float first_content(size_t index) {
  return (float)(index % 7);
}

void append_reset(append_call *call) {
  for (size_t i = 0; i < call->room; i++) {
    call->cache[i] = first_content(i);
    call->cache_out[i] = -7;
  }
  for (int64_t n = 0; n <= call->n; n++) {
    call->total[n] = -9;
  }
}

static float expected(const append_call *call, const append_options *options, int64_t n, int64_t t,
                      int64_t d) {
  float value =
      first_content((size_t)(n * call->cache_strides[0] + t * call->cache_strides[1] + d));
  float more = options->step + (options->values ? call->values[n * call->d + d] : 0);
  return value + (t < call->lengths[n] ? more : 0);
}

void append_check(const append_call *call, const append_options *options) {
  bool separate = options->output == APPEND_SEPARATE;
  const float *worked = separate ? call->cache_out : call->cache;
  const int64_t *strides = separate ? call->cache_out_strides : call->cache_strides;
  for (int64_t n = 0; n < call->n; n++) {
    float total = call->lengths[n] > 0 ? 1000.0f * (float)call->d : 0;
    for (int64_t t = 0; t < call->c; t++) {
      for (int64_t d = 0; d < call->d; d++) {
        float want = expected(call, options, n, t, d);
        float got = worked[n * strides[0] + t * strides[1] + d * strides[2]];
        if (got != want) {
          fail_msg("cache [%d, %d, %d] is %g, want %g", (int)n, (int)t, (int)d, (double)got,
                   (double)want);
        }
        total += want;
      }
    }
    if (call->total[n] != total) {
      fail_msg("total [%d] is %g, want %g", (int)n, (double)call->total[n], (double)total);
    }
  }
  assert_true(call->total[call->n] == -9.0f);
  if (separate) {
    for (size_t i = 0; i < call->room; i++) {
      assert_true(call->cache[i] == first_content(i));
    }
  }
}

void append_check_untouched(const append_call *call) {
  for (size_t i = 0; i < call->room; i++) {
    assert_true(call->cache[i] == first_content(i));
    assert_true(call->cache_out[i] == -7.0f);
  }
  for (int64_t n = 0; n <= call->n; n++) {
    assert_true(call->total[n] == -9.0f);
  }
}

void append_free(append_call *call) {
  quire_plan_release(call->plan);
  free(call->cache);
  free(call->cache_out);
  free(call->values);
  free(call->total);
  free(call->lengths);
}

/* ---- fixture ---- */

quire_workspace *make_workspace(harness *h) {
  quire_workspace *workspace = NULL;
  assert_int_equal(quire_workspace_create(h->device, NULL, &workspace, NULL), QUIRE_OK);
  return workspace;
}

void open_fixture(append_fixture *f, const append_options *options) {
  harness_open(&f->h, 2);
  append_make(&f->h, &f->call, options);
  f->workspace = make_workspace(&f->h);
}

void close_fixture(append_fixture *f) {
  quire_workspace_release(f->workspace);
  append_free(&f->call);
  harness_close(&f->h);
}
