/* Native passes: choice of implementations, their bindings, sizes and grids, and the registry. */
#include "plan_fixture.h"

#include <stdio.h>
#include <string.h>

#include "registry.h"

/* ---- a registry ---- */

#define FLOATS                                                       \
  (QUIRE_DTYPE_BIT(QUIRE_FLOAT32) | QUIRE_DTYPE_BIT(QUIRE_FLOAT16) | \
   QUIRE_DTYPE_BIT(QUIRE_BFLOAT16))

static quire_status do_nothing(const quire_pass *pass, const size_t item[3]) {
  (void)pass;
  (void)item;
  return QUIRE_OK;
}

static const quire_pass_binding attend_any[] = {
    {"x", FLOATS}, {"mask", QUIRE_DTYPE_BIT(QUIRE_INT32)}, {"tmp", ~0u}, {"o", FLOATS}};
static const quire_pass_binding attend_half[] = {{"x", QUIRE_DTYPE_BIT(QUIRE_FLOAT16)},
                                                 {"mask", QUIRE_DTYPE_BIT(QUIRE_INT32)},
                                                 {"tmp", ~0u},
                                                 {"o", FLOATS}};
static const quire_pass_binding schedule_bindings[] = {{"grid", QUIRE_DTYPE_BIT(QUIRE_UINT32)}};

static const quire_implementation items[] = {
    {"attend", "attend__scalar", attend_any, 4, "rows:u32 scale:f32", 0, QUIRE_ISA_SCALAR,
     QUIRE_PRECISION_EXACT, 0, do_nothing},
    {"attend", "attend_later__scalar", attend_any, 4, "rows:u32 scale:f32", 0, QUIRE_ISA_SCALAR,
     QUIRE_PRECISION_EXACT, 0, do_nothing},
    {"attend", "attend__avx2", attend_any, 4, "rows:u32 scale:f32", QUIRE_CPU_AVX2 | QUIRE_CPU_FMA,
     QUIRE_ISA_AVX2, QUIRE_PRECISION_EXACT, 10, do_nothing},
    {"attend", "attend__avx512", attend_any, 4, "rows:u32 scale:f32", QUIRE_CPU_AVX512F,
     QUIRE_ISA_AVX512, QUIRE_PRECISION_EXACT, 20, do_nothing},
    {"attend", "attend_half__avx512", attend_half, 4, "rows:u32 scale:f32", QUIRE_CPU_AVX512F,
     QUIRE_ISA_AVX512, QUIRE_PRECISION_EXACT, 30, do_nothing},
    {"attend", "attend_fast", attend_any, 4, "rows:u32 scale:f32", 0, QUIRE_ISA_SCALAR,
     QUIRE_PRECISION_FAST, 40, do_nothing},
};
static const quire_implementation schedule_items[] = {
    {"schedule", "schedule__scalar", schedule_bindings, 1, "", 0, QUIRE_ISA_SCALAR,
     QUIRE_PRECISION_EXACT, 0, do_nothing}};
static const quire_implementation_list lists[] = {{schedule_items, 1},
                                                  {items, sizeof items / sizeof *items}};
static const quire_registry registry = {lists, 2};

static const char base_manifest[] =
    "{'domain': 'test', 'name': 'Native', 'sinceVersion': 1,"
    " 'inputs': {'x': {'onnx': 'query', 'dtype': 'T', 'rank': 2},"
    "  'mask': {'dtype': 'int32', 'optional': true}},"
    " 'outputs': {'o': {'dtype': 'T', 'shape': 'shapes.x'}},"
    " 'attributes': {'scale': {'type': 'float', 'default': 1}},"
    " 'typeConstraints': {'T': ['float32', 'float16', 'bfloat16', 'float64']},"
    " 'variants': ["
    "  {'id': 'host', 'requires': {'backend': 'cpu'},"
    "   'intermediates': [{'id': 'tmp', 'dtype': 'int8', 'shape': ['dim(shapes.x, 0)']},"
    "    {'id': 'grid', 'dtype': 'uint32', 'shape': [3], 'lifetime': 'step'}],"
    "   'passes': ["
    "    {'id': 'plan', 'role': 'schedule', 'native': 'schedule', 'bindings': ['grid'],"
    "     'dispatch': {'x': 1}},"
    "    {'id': 'main', 'native': 'attend', 'grid': 'grid', 'bindings': ['x',"
    "     {'arg': 'mask', 'optional': true}, 'tmp', 'o', {'name': 'params', 'struct': ["
    "      {'name': 'rows', 'type': 'u32', 'value': 'dim(shapes.x, 0)'},"
    "      {'name': 'scale', 'type': 'f32', 'value': 'attrs.scale'}]}],"
    "     'dispatch': {'x': 'dim(shapes.x, 0)', 'y': 3000000000}}]},"
    "  {'id': 'gpu', 'priority': 9, 'passes': [{'shader': 'a', 'bindings': ['x', 'o'],"
    "   'dispatch': {'x': 1}}]}]}";

static const char base_request[] =
    "{'inputs': {'x': {'dtype': 'float16', 'shape': [4, 6]}}, 'attributes': {},"
    " 'device': {'backend': 'cpu', 'features': []}}";

#define RUN(cases, isa) \
  fixture_run(base_manifest, base_request, cases, sizeof(cases) / sizeof *(cases), &registry, isa)

/* ---- choice ---- */

static void test_choice(void **state) {
  (void)state;
  static const fixture_case cases[] = {
      {"scalar", NULL, NULL, QUIRE_OK,
       "{'variant': 'host', 'passes': [{'role': 'schedule', 'implementation': 'schedule__scalar'},"
       " {'native': 'attend', 'implementation': 'attend__scalar', 'grid': 'grid',"
       "  'dispatch': [4, 3000000000, 1], 'uniforms': {'params': {'rows': 4, 'scale': 1}}}]}",
       NULL, NULL, "not attend__avx2: the device lacks avx2 fma"},
      {"half a feature is none", NULL, "{'device': {'features': ['avx2']}}", QUIRE_OK,
       "{'passes': [{}, {'implementation': 'attend__scalar'}]}", NULL, NULL,
       "not attend__avx2: the device lacks fma"},
      {"features", NULL, "{'device': {'features': ['fma', 'avx2']}}", QUIRE_OK,
       "{'passes': [{}, {'implementation': 'attend__avx2'}]}", NULL, NULL,
       "not attend__scalar: its priority is 0"},
      {"types", NULL, "{'device': {'features': ['avx512f']}}", QUIRE_OK,
       "{'passes': [{}, {'implementation': 'attend_half__avx512'}]}", NULL, NULL,
       "uses attend_half__avx512 (priority 30)"},
      {"other types", NULL,
       "{'inputs': {'x': {'dtype': 'float32'}}, 'device': {'features': ['avx512f']}}", QUIRE_OK,
       "{'passes': [{}, {'implementation': 'attend__avx512'}]}", NULL, NULL,
       "not attend_half__avx512: x is float32, it takes float16"},
      {"precision", NULL, "{'precision': 'fast'}", QUIRE_OK,
       "{'passes': [{}, {'implementation': 'attend_fast'}]}"},
      {"exact precision", NULL, "{'precision': 'exact'}", QUIRE_OK,
       "{'passes': [{}, {'implementation': 'attend__scalar'}]}", NULL, NULL,
       "not attend_fast: it is for precision \"fast\" only"},
      {"none fits", NULL, "{'inputs': {'x': {'dtype': 'float64'}}}", QUIRE_UNSUPPORTED,
       "{'stage': 'variants', 'variant': 'host', 'failing': 'requires.native',"
       " 'because': ['requires.native'],"
       " 'rejected': {'host': 'requires.native', 'gpu': 'requires.backend'}}",
       "", "",
       "no implementation of kernel attend takes x float64, tmp int8, o float64; attend__scalar: x"
       " is float64, it takes float32, float16, bfloat16;"},
      {"no such kernel",
       "{'variants': [{'id': 'host', 'requires': {'backend': 'cpu'},"
       " 'passes': [{'native': 'nothing', 'bindings': ['o'],"
       " 'dispatch': {'x': 1}}]}]}",
       NULL, QUIRE_UNSUPPORTED, "{'failing': 'requires.native'}", "", "",
       "kernel nothing takes o float16; there is none of that name"},
      {"insisting on another backend", NULL, NULL, QUIRE_UNSUPPORTED,
       "{'failing': 'requires.backend', 'variant': 'gpu',"
       " 'operands': {'device.backend': 'cpu'}}",
       "", "", "it is for backend webgpu, the device is of backend cpu", "gpu"},
      {"a shader's device", NULL, "{'device': {'backend': null}}", QUIRE_OK, "{'variant': 'gpu'}"},
  };
  RUN(cases, QUIRE_ISA_BEST);
}

static void test_isa(void **state) {
  (void)state;
  static const char every[] =
      "{'device': {'features': ['avx2', 'fma', 'avx512f', 'neon']},"
      " 'inputs': {'x': {'dtype': 'float32'}}}";
  static const struct {
    quire_isa isa;
    fixture_case row;
  } cases[] = {
      {QUIRE_ISA_SCALAR,
       {"scalar", NULL, every, QUIRE_OK, "{'passes': [{}, {'implementation': 'attend__scalar'}]}",
        NULL, NULL, "not attend__avx2: its instruction set is not allowed"}},
      {QUIRE_ISA_AVX2,
       {"avx2", NULL, every, QUIRE_OK, "{'passes': [{}, {'implementation': 'attend__avx2'}]}"}},
      {QUIRE_ISA_AVX512,
       {"avx512", NULL, every, QUIRE_OK, "{'passes': [{}, {'implementation': 'attend__avx512'}]}"}},
      {QUIRE_ISA_NEON,
       {"neon", NULL, every, QUIRE_OK, "{'passes': [{}, {'implementation': 'attend__scalar'}]}"}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture_run(base_manifest, base_request, &cases[i].row, 1, &registry, cases[i].isa);
  }
}

/* ---- bindings, sizes, device ---- */

static void test_bindings(void **state) {
  (void)state;
  static const fixture_case cases[] = {
      {"natural sizes", NULL, NULL, QUIRE_OK,
       "{'intermediates': {'tmp': {'dtype': 'int8', 'elements': 4, 'bytes': 4},"
       " 'grid': {'bytes': 12, 'lifetime': 'step'}}}"},
      {"absent optional binding keeps its place", NULL, NULL, QUIRE_OK,
       "{'passes': [{}, {'bindings': [{'binding': 0, 'name': 'x', 'elementType': 'float16'},"
       " {'binding': 2, 'name': 'tmp', 'elementType': 'int8'}, {'binding': 3, 'name': 'o'},"
       " {'binding': 4, 'kind': 'uniform', 'bytes': 16}]}]}",
       NULL, NULL, "- absent     mask <- mask"},
      {"present", NULL, "{'inputs': {'mask': {'dtype': 'int32', 'shape': [1]}}}", QUIRE_OK,
       "{'passes': [{}, {'bindings': [{}, {'binding': 1, 'name': 'mask',"
       " 'elementType': 'int32'}, {}, {}, {}]}]}"},
      {"strides are welcome", NULL, "{'inputs': {'x': {'strides': [12, 2]}}}", QUIRE_OK,
       "{'variant': 'host'}"},
      {"no limits",
       "{'derive': {'l': 'device.limits.maxBufferSize',"
       " 'm': 'has(device.limits, `anything`)', 'b': 'device.backend',"
       " 'p': 'device.precision'}}",
       NULL, QUIRE_OK,
       "{'derived': {'l': 4611686018427387904, 'm': true, 'b': 'cpu', 'p': 'exact'}}"},
      {"buffers of native passes do not count", NULL,
       "{'device': {'limits': {'maxStorageBuffersPerShaderStage': 0,"
       " 'maxUniformBuffersPerShaderStage': 0}}}",
       QUIRE_OK, "{'variant': 'host'}"},
  };
  static const fixture_case beyond[] = {
      {"dispatch beyond 32 bits",
       "{'variants': [{'id': 'host', 'requires': {'backend': 'cpu'}, 'passes': [{'id': 'main',"
       " 'role': 'schedule', 'native': 'schedule', 'bindings': ['grid'], 'dispatch': {'x': 1}},"
       " {'id': 'far', 'native': 'schedule', 'bindings': ['grid'],"
       " 'dispatch': {'x': 4294967296}}], 'intermediates': [{'id': 'grid', 'dtype': 'uint32',"
       " 'shape': 3, 'lifetime': 'step'}]}]}",
       NULL, QUIRE_LIMIT, "{'stage': 'limits', 'failing': 'variants.host.passes.far.dispatch.x'}"}};
  RUN(cases, QUIRE_ISA_BEST);
  RUN(beyond, QUIRE_ISA_BEST);
}

/* A schedule pass of a variant for a GPU runs on the host and may be missing. */
static void test_schedule_elsewhere(void **state) {
  (void)state;
  static const char manifest[] =
      "{'variants': [{'id': 'gpu', 'intermediates': [{'id': 'grid', 'dtype': 'uint32',"
      " 'shape': [3], 'lifetime': 'step'}], 'passes': [{'role': 'schedule', 'native': 'NAME',"
      " 'bindings': ['grid'], 'dispatch': {'x': 1}}, {'shader': 'a', 'bindings': ['x', 'o'],"
      " 'dispatch': {'x': 1}}]}]}";
  char named[sizeof manifest + 10];
  const fixture_case row = {"schedule on a GPU", named, "{'device': {'backend': 'webgpu'}}",
                            QUIRE_OK, "{'variant': 'gpu'}"};
  const char *names[] = {"schedule", "elsewhere"};
  for (size_t i = 0; i < 2; i++) {
    const char *mark = strstr(manifest, "NAME");
    (void)snprintf(named, sizeof named, "%.*s%s%s", (int)(mark - manifest), manifest, names[i],
                   mark + 4);
    fixture_run(base_manifest, base_request, &row, 1, &registry, QUIRE_ISA_BEST);
  }
}

/* ---- the registry's check ---- */

typedef struct registry_case {
  const char *name;
  const char *variant; /* the manifest's only one */
  const char *message; /* NULL: it passes */
} registry_case;

#define HOST(kernel, bindings)                                                                \
  "{'variants': [{'id': 'v', 'requires': {'backend': 'cpu'}, 'intermediates': [{'id': 'tmp'," \
  " 'dtype': 'int8', 'shape': 1}, {'id': 'other', 'dtype': 'int8', 'shape': 1}], 'passes': "  \
  "[{'id': 'p', 'native': '" kernel "', 'bindings': [" bindings "], 'dispatch': {'x': 1}}]}]}"
#define STRUCT(fields) "{'name': 'params', 'struct': [" fields "]}"
#define ROWS "{'name': 'rows', 'type': 'u32', 'value': 1}"
#define SCALE "{'name': 'scale', 'type': 'f32', 'value': 1}"

static void test_registry_check(void **state) {
  (void)state;
  static const registry_case cases[] = {
      {"as the kernel says", HOST("attend", "'x', 'mask', 'tmp', 'o', " STRUCT(ROWS ", " SCALE)),
       NULL},
      {"unknown kernel", HOST("nothing", "'x'"), "pass p: kernel nothing does not exist"},
      {"order", HOST("attend", "'mask', 'x', 'tmp', 'o', " STRUCT(ROWS ", " SCALE)),
       "binding 0 is mask, kernel attend has x"},
      {"one missing", HOST("attend", "'x', 'mask', 'tmp', " STRUCT(ROWS ", " SCALE)),
       "binding o of kernel attend is missing"},
      {"one too many",
       HOST("attend", "'x', 'mask', 'tmp', 'o', {'scratch': 'other', 'name': 'more'}"),
       "binding more is one too many"},
      {"no struct", HOST("attend", "'x', 'mask', 'tmp', 'o'"), "0 uniforms, kernel attend has"},
      {"field missing", HOST("attend", "'x', 'mask', 'tmp', 'o', " STRUCT(ROWS)),
       "1 uniforms, kernel attend has"},
      {"field type",
       HOST("attend", "'x', 'mask', 'tmp', 'o', " STRUCT(
                          ROWS ", {'name': 'scale', 'type': 'u32', 'value': 1}")),
       "uniform 1 is scale:u32"},
      {"field name", HOST("attend", "'x', 'mask', 'tmp', 'o', " STRUCT(SCALE ", " ROWS)),
       "uniform 0 is scale:f32"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    json_t *manifest = fixture_json(base_manifest);
    json_t *over = fixture_json(cases[i].variant);
    quire_error error = {0};
    fixture_merge(manifest, over);
    quire_manifest *loaded = fixture_load(manifest);
    quire_status status = quire_registry_check(&registry, loaded, &error);
    const char *want = cases[i].message;
    if ((status == QUIRE_OK) != (want == NULL) ||
        (want != NULL && strstr(error.message, want) == NULL)) {
      fail_msg("%s: %s: %s", cases[i].name, quire_status_name(status), error.message);
    }
    if (want != NULL) {
      assert_int_equal(status, QUIRE_BAD_MANIFEST);
      assert_string_equal(error.subject, "v");
    }
    quire_manifest_destroy(loaded);
    json_decref(over);
    json_decref(manifest);
  }
  assert_ptr_equal(quire_registry_find(&registry, "attend"), &items[0]);
  assert_null(quire_registry_find(&registry, "atten"));
  assert_null(quire_registry_find(NULL, "attend"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choice), cmocka_unit_test(test_isa), cmocka_unit_test(test_bindings),
      cmocka_unit_test(test_schedule_elsewhere), cmocka_unit_test(test_registry_check)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
