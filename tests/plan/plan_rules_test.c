/* Rules of planning beyond the golden cases: statuses, contracts, attributes, tensors, limits. */
#include "plan_fixture.h"

static const char base_manifest[] =
    "{'domain': 'test', 'name': 'Op', 'sinceVersion': 1,"
    " 'inputs': {'x': {'onnx': 'query', 'dtype': 'T', 'rank': 2},"
    "  'c': {'onnx': 'cache', 'dtype': 'T', 'optional': true},"
    "  'n': {'dtype': 'int32', 'rank': 1, 'optional': true}},"
    " 'outputs': {'o': {'onnx': 'output', 'dtype': 'T', 'rank': 2, 'shape': 'shapes.x'},"
    "  'c': {'onnx': 'cache_out', 'dtype': 'T', 'optional': true}},"
    " 'attributes': {'heads': {'default': 2}, 'scale': {'type': 'float'}},"
    " 'typeConstraints': {'T': ['float32', 'float16']},"
    " 'tunables': {'WG': {'default': 64}},"
    " 'derive': {'count': 'dim(shapes.x, 0)'},"
    " 'rules': {'presence': 'T-P', 'rank': 'T-R', 'dtype': 'T-D', 'shape': 'T-S',"
    "  'limit': 'T-L', 'alias': 'T-A'},"
    " 'variants': [{'id': 'gpu', 'passes': [{'id': 'main', 'shader': 'a.wgsl',"
    "  'bindings': ['x', 'o'], 'dispatch': {'x': 'count'}}]}]}";

static const char base_request[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [4, 6]}}, 'attributes': {}}";

#define RUN(cases)                                                                       \
  fixture_run(base_manifest, base_request, cases, sizeof(cases) / sizeof *(cases), NULL, \
              QUIRE_ISA_BEST)

/* ---- stages and statuses ---- */

static void test_statuses(void **state) {
  (void)state;
  static const fixture_case cases[] = {
      {"plain", NULL, NULL, QUIRE_OK, "{'variant': 'gpu', 'outputs': {'o': {'shape': [4, 6]}}}"},
      {"unknown attribute", NULL, "{'attributes': {'softcap': 1}}", QUIRE_UNSUPPORTED,
       "{'stage': 'request', 'failing': 'attributes.softcap', 'reason': 'unknown'}", "", "softcap",
       "softcap: is not an attribute of test.Op"},
      {"unknown input", NULL, "{'inputs': {'y': {'dtype': 'float32', 'shape': []}}}",
       QUIRE_UNSUPPORTED, "{'stage': 'request', 'failing': 'inputs.y', 'reason': 'unknown'}"},
      {"unknown output", NULL, "{'outputs': {'x': {}}}", QUIRE_BAD_REQUEST,
       "{'stage': 'request', 'failing': 'outputs.x'}"},
      {"unknown tunable", NULL, "{'tunables': {'WGX': 1}}", QUIRE_BAD_REQUEST,
       "{'stage': 'request', 'failing': 'tunables.WGX'}"},
      {"unknown symbol", NULL, "{'dtypes': {'U': 'float32'}}", QUIRE_BAD_REQUEST,
       "{'stage': 'request', 'failing': 'dtypes.U'}"},
      {"unknown alias", NULL, "{'alias': {'o': 'nothing'}}", QUIRE_BAD_REQUEST,
       "{'stage': 'request', 'failing': 'alias.nothing'}"},
      {"tunable kind", NULL, "{'tunables': {'WG': '64'}}", QUIRE_BAD_REQUEST,
       "{'failing': 'tunables.WG', 'reason': 'type'}", "", "WG", "is of kind string"},
      {"missing input", NULL, "{'inputs': {'x': null}}", QUIRE_BAD_PRESENCE,
       "{'stage': 'inputs', 'failing': 'inputs.x', 'reason': 'missing', 'rule': 'T-P'}", "T-P",
       "query", "T-P: query: is required and not given"},
      {"output side alone", NULL, "{'outputs': {'c': {}}}", QUIRE_BAD_PRESENCE,
       "{'failing': 'inputs.c', 'reason': 'missing'}", "T-P", "cache"},
      {"type", NULL, "{'inputs': {'x': {'dtype': 'float64'}}}", QUIRE_BAD_TYPE,
       "{'stage': 'inputs', 'failing': 'inputs.x', 'reason': 'dtype'}", "T-D", "query",
       "is float64, it must be among float32, float16"},
      {"types differ", NULL, "{'inputs': {'c': {'dtype': 'float16', 'shape': [1]}}}",
       QUIRE_BAD_TYPE, "{'failing': 'inputs.c', 'reason': 'dtype'}", "T-D", "cache",
       "is float16, but query of type T is float32"},
      {"fixed type", NULL, "{'inputs': {'n': {'dtype': 'int64', 'shape': [1]}}}", QUIRE_BAD_TYPE,
       "{'failing': 'inputs.n'}", "T-D", "n", "is int64, int32 is expected"},
      {"output type", NULL, "{'outputs': {'o': {'dtype': 'float16'}}}", QUIRE_BAD_TYPE,
       "{'stage': 'outputs', 'failing': 'outputs.o', 'reason': 'dtype'}", "T-D", "output"},
      {"explicit type", NULL, "{'dtypes': {'T': 'int8'}}", QUIRE_BAD_TYPE,
       "{'stage': 'inputs', 'failing': 'dtypes.T', 'reason': 'dtype'}", "T-D", "T"},
      {"no such type", NULL, "{'dtypes': {'T': 'half'}}", QUIRE_BAD_TYPE,
       "{'failing': 'dtypes.T', 'reason': 'dtype'}"},
      {"rank", NULL, "{'inputs': {'x': {'shape': [4, 6, 1]}}}", QUIRE_BAD_RANK,
       "{'stage': 'inputs', 'failing': 'inputs.x.rank', 'reason': 'rank'}", "T-R", "query",
       "has 3 dimensions, 2 are expected"},
      {"output rank", NULL, "{'outputs': {'o': {'shape': [24]}}}", QUIRE_BAD_RANK,
       "{'stage': 'outputs', 'failing': 'outputs.o.rank'}", "T-R", "output"},
      {"output shape", NULL, "{'outputs': {'o': {'shape': [4, 5]}}}", QUIRE_BAD_SHAPE,
       "{'stage': 'outputs', 'failing': 'outputs.o.shape', 'reason': 'shape'}", "T-S", "output",
       "output: dim 1 is 5, 6 is expected"},
      {"input shape", "{'inputs': {'n': {'shape': ['count + 1']}}}",
       "{'inputs': {'n': {'dtype': 'int32', 'shape': [4]}}}", QUIRE_BAD_SHAPE,
       "{'stage': 'inputs', 'failing': 'inputs.n.shape', 'reason': 'shape'}", "T-S", "n",
       "dim 0 is 4, 5 is expected"},
      {"no shape", "{'outputs': {'o': {'shape': null}}}", NULL, QUIRE_BAD_SHAPE,
       "{'stage': 'outputs', 'failing': 'outputs.o.shape', 'reason': 'missing'}", "T-S", "output"},
      {"unbound", "{'typeConstraints': {'U': ['int8', 'int16']}, 'outputs': {'o': {'dtype': 'U'}}}",
       NULL, QUIRE_BAD_TYPE, "{'stage': 'outputs', 'failing': 'dtypes.U', 'reason': 'unbound'}",
       "T-D", "output"},
      {"bound by the first input",
       "{'typeConstraints': {'U': ['float16', 'float32']}, 'outputs': {'o': {'dtype': 'U'}}}", NULL,
       QUIRE_OK, "{'outputs': {'o': {'dtype': 'float32'}}}"},
      {"no variant", "{'when': ['count == 5']}", NULL, QUIRE_UNSUPPORTED,
       "{'stage': 'variants', 'failing': 'count == 5', 'reason': 'false', 'operands': {'count': "
       "4}}",
       "", "", "no variant of test.Op fits; the nearest, gpu: count == 5: 4 == 5 is false"},
      {"chain",
       "{'derive': {'ok': 'count > 1 and wide', 'wide': 'dim(shapes.x, 1) >= 8'},"
       " 'when': ['ok']}",
       NULL, QUIRE_UNSUPPORTED, "{'because': ['ok', 'wide', 'dim(shapes.x, 1) >= 8']}", "", "",
       "gpu: ok > wide > dim(shapes.x, 1) >= 8: 6 >= 8 is false"},
      {"alternatives", "{'when': ['count == 1 or attrs.heads == 3 or present.n']}", NULL,
       QUIRE_UNSUPPORTED, NULL, "", "", "4 == 1 or 2 == 3 or false is false"},
      {"not", "{'when': ['not present.x']}", NULL, QUIRE_UNSUPPORTED, NULL, "", "",
       "not present.x: not true is false"},
      {"truthy", "{'when': ['attrs.heads']}", NULL, QUIRE_UNSUPPORTED, "{'reason': 'false'}", "",
       "", "attrs.heads is 2, not true"},
      {"clause error", "{'when': ['attrs.scale > 1']}", NULL, QUIRE_UNSUPPORTED,
       "{'reason': 'error', 'error': 'undefined'}", "", "", "error \"undefined\" in attrs.scale"},
      {"feature", "{'requires': {'features': ['f16']}}", NULL, QUIRE_UNSUPPORTED,
       "{'failing': 'requires.features.f16', 'reason': 'feature'}", "", "",
       "requires.features.f16: the device lacks this feature"},
      {"limit", "{'requires': {'limits': {'maxBufferSize': 268435457}}}", NULL, QUIRE_UNSUPPORTED,
       "{'failing': 'requires.limits.maxBufferSize', 'reason': 'limit'}", "", "",
       "the device has 268435456, 268435457 is needed"},
      {"unknown limit", "{'requires': {'limits': {'maxWonders': 1}}}", NULL, QUIRE_UNSUPPORTED,
       "{'failing': 'requires.limits.maxWonders'}", "", "", "does not tell this limit"},
      {"buffers", NULL, "{'device': {'limits': {'maxStorageBuffersPerShaderStage': 1}}}",
       QUIRE_UNSUPPORTED,
       "{'failing': 'requires.buffers',"
       " 'operands': {'bindings': 2, 'device.limits.maxStorageBuffersPerShaderStage': 1}}",
       "", "", "2 buffers in one pass"},
      {"workgroups", NULL, "{'device': {'limits': {'maxComputeWorkgroupsPerDimension': 3}}}",
       QUIRE_LIMIT,
       "{'stage': 'limits', 'failing': 'variants.gpu.passes.main.dispatch.x', 'reason': 'limit'}",
       "T-L", "", "is 4, the device's limit is 3"},
      {"binding size", NULL, "{'device': {'limits': {'maxStorageBufferBindingSize': 95}}}",
       QUIRE_LIMIT, "{'failing': 'variants.gpu.passes.main.bindings.x'}", "T-L", "x",
       "is 96, the device's limit is 95"},
      {"shape error", "{'outputs': {'o': {'shape': ['count', '0 - 1']}}}", NULL, QUIRE_BAD_SHAPE,
       "{'stage': 'error', 'failing': 'outputs.o.shape', 'reason': 'range', 'at': '0 - 1'}", "T-S",
       "output"},
      {"overflow", "{'outputs': {'o': {'shape': ['count', '4611686018427387904 * count']}}}", NULL,
       QUIRE_LIMIT, "{'stage': 'error', 'reason': 'overflow', 'at': '4611686018427387904 * count'}",
       "T-L"},
      {"shape of itself by name",
       "{'derive': {'w': 'dim(shapes.o, 1)'}, 'outputs': {'o': {'shape': ['count', 'w']}},"
       " 'when': ['w == 1']}",
       NULL, QUIRE_UNSUPPORTED, "{'stage': 'variants', 'reason': 'error', 'error': 'cycle'}"},
      {"shape of itself", "{'outputs': {'o': {'shape': ['count', 'dim(shapes.o, 1)']}}}", NULL,
       QUIRE_BAD_SHAPE, "{'stage': 'error', 'failing': 'outputs.o.shape', 'reason': 'cycle'}"},
  };
  RUN(cases);
}

/* ---- contract ---- */

static void test_contract(void **state) {
  (void)state;
  static const fixture_case cases[] = {
      {"holds",
       "{'contract': [{'rule': 'T-V1', 'status': 'BAD_SHAPE', 'subject': 'x',"
       " 'require': 'count == 4'}]}",
       NULL, QUIRE_OK, "{'variant': 'gpu'}"},
      {"values in place of operands",
       "{'contract': [{'rule': 'T-V1', 'status': 'BAD_SHAPE', 'subject': 'x',"
       " 'require': 'dim(shapes.x, 1) == attrs.heads'}]}",
       NULL, QUIRE_BAD_SHAPE,
       "{'stage': 'contract', 'failing': 'dim(shapes.x, 1) == attrs.heads', 'reason': 'false',"
       " 'rule': 'T-V1', 'status': 'BAD_SHAPE', 'subject': 'x',"
       " 'because': ['dim(shapes.x, 1) == attrs.heads'],"
       " 'operands': {'dim(shapes.x, 1)': 6, 'attrs.heads': 2}}",
       "T-V1", "query", "T-V1: query: dim(shapes.x, 1) == attrs.heads: 6 == 2 is false"},
      {"a value in place of every occurrence",
       "{'contract': [{'rule': 'T-V1', 'status': 'BAD_SHAPE', 'subject': 'x',"
       " 'require': 'count == 1 or count == 2 or count + attrs.heads == 3 or counts == 1'}],"
       " 'derive': {'counts': 'count + 8'}}",
       NULL, QUIRE_BAD_SHAPE, "{'reason': 'false'}", "T-V1", "query",
       "4 == 1 or 4 == 2 or 6 == 3 or 12 == 1 is false"},
      {"the first that fails, before selection",
       "{'contract': [{'rule': 'T-V1', 'status': 'BAD_SHAPE', 'subject': 'x', 'require': true},"
       " {'rule': 'T-V2', 'status': 'BAD_ATTRIBUTE', 'subject': 'heads',"
       " 'require': 'attrs.heads > 2'},"
       " {'rule': 'T-V3', 'status': 'BAD_SHAPE', 'subject': 'x', 'require': false}],"
       " 'when': ['false']}",
       NULL, QUIRE_BAD_ATTRIBUTE, "{'rule': 'T-V2', 'subject': 'heads'}", "T-V2", "heads",
       "T-V2: heads: attrs.heads > 2: 2 > 2 is false"},
      {"an error is not true",
       "{'contract': [{'rule': 'T-V1', 'status': 'BAD_VALUE', 'subject': 'x',"
       " 'require': 'attrs.scale > 0'}]}",
       NULL, QUIRE_BAD_VALUE,
       "{'stage': 'contract', 'reason': 'error', 'error': 'undefined', 'at': 'attrs.scale > 0',"
       " 'operands': {}}",
       "T-V1", "query", "error \"undefined\" in attrs.scale"},
      {"a number is not true",
       "{'contract': [{'rule': 'T-V1', 'status': 'BAD_SHAPE', 'subject': 'x',"
       " 'require': 'count'}]}",
       NULL, QUIRE_BAD_SHAPE, "{'reason': 'false'}", "T-V1", "query"},
      {"unsupported",
       "{'contract': [{'rule': 'T-V1', 'status': 'UNSUPPORTED', 'subject': 'x',"
       " 'require': 'tensorDtypes.x == `float16`'}]}",
       NULL, QUIRE_UNSUPPORTED, "{'status': 'UNSUPPORTED'}", "T-V1", "query",
       "\"float32\" == 'float16' is false"},
  };
  RUN(cases);
}

/* ---- attributes ---- */

static void test_attributes(void **state) {
  (void)state;
  static const fixture_case cases[] = {
      {"required",
       "{'attributeConstraints': {'scale': {'required': true, 'rule': 'T-V9',"
       " 'status': 'BAD_ATTRIBUTE'}}}",
       NULL, QUIRE_BAD_ATTRIBUTE,
       "{'stage': 'attributes', 'failing': 'attributes.scale', 'reason': 'missing',"
       " 'rule': 'T-V9', 'status': 'BAD_ATTRIBUTE'}",
       "T-V9", "scale", "T-V9: scale: is required"},
      {"constraint's status",
       "{'attributeConstraints': {'heads': {'values': [2, 3], 'rule': 'T-V8',"
       " 'status': 'UNSUPPORTED'}}}",
       "{'attributes': {'heads': 4}}", QUIRE_UNSUPPORTED,
       "{'failing': 'attributes.heads', 'reason': 'value', 'status': 'UNSUPPORTED'}", "T-V8",
       "heads", "is 4, it must be one of 2, 3"},
      {"kind of the default", NULL, "{'attributes': {'heads': '2'}}", QUIRE_BAD_ATTRIBUTE,
       "{'failing': 'attributes.heads', 'reason': 'type'}", "", "heads",
       "is a string, a number is expected"},
      {"declared kind", NULL, "{'attributes': {'scale': true}}", QUIRE_BAD_ATTRIBUTE,
       "{'failing': 'attributes.scale', 'reason': 'type'}", "", "scale",
       "is a boolean, a number is expected"},
      {"no whole number", "{'attributes': {'heads': {'type': 'int'}}}",
       "{'attributes': {'heads': 2.5}}", QUIRE_BAD_ATTRIBUTE, "{'reason': 'type'}", "", "heads",
       "is not a whole number, an integer is expected"},
      {"whole by value", "{'attributes': {'heads': {'type': 'int'}}}",
       "{'attributes': {'heads': 3.0}}", QUIRE_OK, NULL},
      {"an integer where a float is declared", "{'derive': {'s': 'attrs.scale'}}",
       "{'attributes': {'scale': 3}}", QUIRE_OK, "{'derived': {'s': 3}}"},
      {"floats are rounded to f32", "{'derive': {'s': 'attrs.scale'}}",
       "{'attributes': {'scale': 0.1}}", QUIRE_OK, "{'derived': {'s': 0.10000000149011612}}"},
      {"integers too", "{'derive': {'s': 'attrs.scale'}}", "{'attributes': {'scale': 16777217}}",
       QUIRE_OK, "{'derived': {'s': 16777216}}"},
      {"not finite in f32", NULL, "{'attributes': {'scale': 1e39}}", QUIRE_BAD_ATTRIBUTE,
       "{'stage': 'attributes', 'failing': 'attributes.scale', 'reason': 'value'}", "", "scale",
       "is not a finite number"},
      {"allowed values are rounded alike", "{'attributeConstraints': {'scale': {'values': [0.1]}}}",
       "{'attributes': {'scale': 0.1}}", QUIRE_OK, NULL},
      {"bucket", "{'attributes': {'heads': {'bucket': 'pow2'}}, 'derive': {'h': 'attrs.heads'}}",
       "{'attributes': {'heads': 1000}}", QUIRE_OK, "{'derived': {'h': 1024}}"},
      {"bucket of a power",
       "{'attributes': {'heads': {'bucket': 'pow2'}},"
       " 'derive': {'h': 'attrs.heads'}}",
       "{'attributes': {'heads': 64}}", QUIRE_OK, "{'derived': {'h': 64}}"},
      {"bucket of zero",
       "{'attributes': {'heads': {'bucket': 'pow2'}},"
       " 'derive': {'h': 'attrs.heads'}}",
       "{'attributes': {'heads': 0}}", QUIRE_OK, "{'derived': {'h': 0}}"},
      {"bucket of a fraction",
       "{'attributes': {'heads': {'bucket': 'pow2'}},"
       " 'derive': {'h': 'attrs.heads'}}",
       "{'attributes': {'heads': 4.5}}", QUIRE_OK, "{'derived': {'h': 8}}"},
      {"empty string is a value",
       "{'attributes': {'rule': {'default': 'a'}},"
       " 'attributeConstraints': {'rule': {'values': ['a', '']}}, 'derive': {'r': 'attrs.rule'}}",
       "{'attributes': {'rule': ''}}", QUIRE_OK, "{'derived': {'r': ''}}"},
  };
  RUN(cases);
}

/* ---- tensors: strides, buffers of their own, aliases ---- */

static void test_tensors(void **state) {
  (void)state;
  static const fixture_case cases[] = {
      {"strides", "{'derive': {'s': 'strides.x', 'd': 'dense.x'}}", NULL, QUIRE_OK,
       "{'derived': {'s': [6, 1], 'd': true}}"},
      {"strides of one row do not count", "{'derive': {'d': 'dense.x'}}",
       "{'inputs': {'x': {'shape': [1, 6], 'strides': [99, 1]}}}", QUIRE_OK,
       "{'derived': {'d': true}}"},
      {"strides without elements do not count", "{'derive': {'d': 'dense.x'}}",
       "{'inputs': {'x': {'shape': [0, 6], 'strides': [99, 7]}}}", QUIRE_OK,
       "{'derived': {'d': true}}"},
      {"shaders want dense tensors", NULL, "{'inputs': {'x': {'strides': [12, 1]}}}",
       QUIRE_UNSUPPORTED, "{'failing': 'requires.dense', 'operands': {'dense.x': false}}", "", "",
       "x has strides"},
      {"unbound tensors may have strides", NULL,
       "{'inputs': {'n': {'dtype': 'int32', 'shape': [2], 'strides': [3]}}}", QUIRE_OK, NULL},
      {"strides of an inferred shape", "{'derive': {'s': 'strides.o'}}", NULL, QUIRE_OK,
       "{'derived': {'s': [6, 1]}}"},
      {"absent", "{'derive': {'s': 'strides.n', 'p': 'present.n', 'd': 'tensorDtypes.n'}}", NULL,
       QUIRE_OK, "{'derived': {'s': null, 'p': false, 'd': null}}"},
      {"in place", "{'derive': {'b': 'bound.c', 'a': 'aliased.c.c'}}",
       "{'inputs': {'c': {'dtype': 'float32', 'shape': [7]}}}", QUIRE_OK,
       "{'derived': {'b': false, 'a': false},"
       " 'outputs': {'c': {'dtype': 'float32', 'shape': [7], 'alias': true}}}"},
      {"bound", "{'derive': {'b': 'bound.c'}}",
       "{'inputs': {'c': {'dtype': 'float32', 'shape': [7]}}, 'outputs': {'c': {}}}", QUIRE_OK,
       "{'derived': {'b': true}, 'outputs': {'c': {'shape': [7], 'alias': true}}}"},
      {"aliased in place", "{'derive': {'b': 'bound.c', 'a': 'aliased.c.c'}}",
       "{'inputs': {'c': {'dtype': 'float32', 'shape': [7]}}, 'alias': {'c': 'c'}}", QUIRE_OK,
       "{'derived': {'b': false, 'a': true}}"},
      {"bound with strides", "{'derive': {'s': 'strides.c', 'd': 'dense.c'}}",
       "{'inputs': {'c': {'dtype': 'float32', 'shape': [2, 3]}},"
       " 'outputs': {'c': {'shape': [2, 3], 'strides': [4, 1]}}}",
       QUIRE_OK, "{'derived': {'s': [4, 1], 'd': false}, 'outputs': {'c': {'strides': [4, 1]}}}"},
      {"bound to another shape", NULL,
       "{'inputs': {'c': {'dtype': 'float32', 'shape': [7]}}, 'outputs': {'c': {'shape': [8]}}}",
       QUIRE_BAD_SHAPE, "{'failing': 'outputs.c.shape', 'reason': 'shape'}", "T-S", "cache_out",
       "cache_out: dim 0 is 8, 7 is expected"},
      {"may alias", "{'outputs': {'o': {'mayAlias': 'x'}}, 'derive': {'a': 'aliased.o.x'}}",
       "{'alias': {'o': 'x'}}", QUIRE_OK,
       "{'derived': {'a': true}, 'outputs': {'o': {'alias': true}}}"},
      {"may not alias", NULL, "{'alias': {'o': 'x'}}", QUIRE_BAD_ALIAS,
       "{'stage': 'outputs', 'failing': 'outputs.o.alias', 'reason': 'alias'}", "T-A", "output",
       "may not be the buffer of query"},
      {"alias of an absent input", "{'outputs': {'o': {'mayAlias': 'n'}}}", "{'alias': {'o': 'n'}}",
       QUIRE_BAD_ALIAS, "{'failing': 'outputs.o.alias'}", "T-A", "output", "is absent"},
      {"alias of another form", "{'outputs': {'o': {'mayAlias': 'x', 'shape': '[count, 5]'}}}",
       "{'alias': {'o': 'x'}}", QUIRE_BAD_ALIAS, "{'failing': 'outputs.o.alias'}", "T-A", "output",
       "shape or strides"},
      {"optional by a clause", "{'outputs': {'o': {'optional': 'present.n'}}}",
       "{'inputs': {'n': {'dtype': 'int32', 'shape': [2]}}}", QUIRE_BAD_SHAPE,
       "{'stage': 'error', 'failing': 'variants.gpu.passes.main.bindings.o',"
       " 'reason': 'undefined', 'at': 'o'}"},
      {"required by a clause", "{'outputs': {'o': {'optional': 'present.n'}}}", NULL, QUIRE_OK,
       "{'outputs': {'o': {}}}"},
      {"names that a clause used are evaluated anew",
       "{'inputs': {'n': {'optional': 'early'}},"
       " 'derive': {'early': 'seen == 1 or true', 'seen': 'tensorDtypes.o'}}",
       NULL, QUIRE_OK, "{'derived': {'seen': 'float32'}}"},
      {"optional binding left out",
       "{'variants': [{'id': 'gpu', 'passes': [{'id': 'main', 'shader': 'a.wgsl', 'bindings': ['x',"
       " {'arg': 'n', 'optional': true}, 'o'], 'dispatch': {'x': 1}}]}]}",
       "{'device': {'limits': {'maxStorageBuffersPerShaderStage': 2}}}", QUIRE_OK,
       "{'passes': [{'bindings': [{'binding': 0, 'name': 'x'}, {'binding': 1, 'name': 'o'}]}]}"},
  };
  RUN(cases);
}

/* ---- variants ---- */

static const char two_variants[] =
    "{'variants': ["
    " {'id': 'low', 'supersededBy': 'high', 'passes': [{'shader': 'a', 'bindings': ['o'],"
    "  'dispatch': {'x': 1}}]},"
    " {'id': 'high', 'priority': 5, 'when': ['attrs.heads < 4'], 'passes': [{'shader': 'a',"
    "  'bindings': ['o'], 'dispatch': {'x': 1}}]},"
    " {'id': 'shy', 'priority': 9, 'demoteWhen': 'attrs.heads > 0', 'passes': [{'shader': 'a',"
    "  'bindings': ['o'], 'dispatch': {'x': 1}}]}]}";

static void test_variants(void **state) {
  (void)state;
  const fixture_case cases[] = {
      {"highest that is not demoted", two_variants, NULL, QUIRE_OK, "{'variant': 'high'}", NULL,
       NULL, "    9 shy                                eligible (demoted)"},
      {"superseded is shown", two_variants, NULL, QUIRE_OK, "{'variant': 'high'}", NULL, NULL,
       "    0 low                                superseded by high"},
      {"an ineligible one supersedes nothing", two_variants, "{'attributes': {'heads': 4}}",
       QUIRE_OK, "{'variant': 'low'}", NULL, NULL,
       "rejected because attrs.heads < 4  [attrs.heads = 4]"},
      {"insisted on", two_variants, NULL, QUIRE_OK, "{'variant': 'low'}", NULL, NULL, NULL, "low"},
      {"a demoted one too", two_variants, NULL, QUIRE_OK, "{'variant': 'shy'}", NULL, NULL, NULL,
       "shy"},
      {"an ineligible one supersedes nothing that waits either", two_variants,
       "{'attributes': {'heads': 4}}", QUIRE_OK, "{'variant': 'shy'}", NULL, NULL,
       "    0 low                                eligible\n", "shy"},
      {"insisted on in vain", two_variants, "{'attributes': {'heads': 9}}", QUIRE_UNSUPPORTED,
       "{'stage': 'variants', 'variant': 'high', 'failing': 'attrs.heads < 4',"
       " 'rejected': {'high': 'attrs.heads < 4'}}",
       "", "", "variant high of test.Op is not possible: attrs.heads < 4: 9 < 4 is false", "high"},
      {"no such variant", two_variants, NULL, QUIRE_BAD_REQUEST,
       "{'stage': 'request', 'failing': 'variants.tall', 'reason': 'unknown'}", "", "tall",
       "is not a variant of test.Op", "tall"},
  };
  RUN(cases);
}

/* ---- passes of shaders ---- */

#define PASS(members)                                                                       \
  "{'variants': [{'id': 'gpu', 'passes': [{'id': 'main', 'shader': 'a', 'bindings': ['o']," \
  " 'dispatch': {'x': 1}, " members "}]}]}"

static void test_workgroups(void **state) {
  (void)state;
  static const fixture_case cases[] = {
      {"shown", PASS("'workgroup': ['count * 2', 1, 1.5], 'workgroupBytes': 'count * 10'"), NULL,
       QUIRE_OK, "{'passes': [{'workgroup': [8, 1, 1], 'workgroupBytes': 40}]}"},
      {"too wide", PASS("'workgroup': [257, 1, 1]"), NULL, QUIRE_LIMIT,
       "{'stage': 'limits', 'failing': 'variants.gpu.passes.main.workgroup.x'}", "T-L"},
      {"too deep", PASS("'workgroup': [1, 1, 65]"), NULL, QUIRE_LIMIT,
       "{'failing': 'variants.gpu.passes.main.workgroup.z'}"},
      {"too many", PASS("'workgroup': [32, 16, 1]"), NULL, QUIRE_LIMIT,
       "{'failing': 'variants.gpu.passes.main.workgroup'}", NULL, NULL, "512"},
      {"memory", PASS("'workgroupBytes': 16385"), NULL, QUIRE_LIMIT,
       "{'failing': 'variants.gpu.passes.main.workgroupBytes'}"},
      {"not a number", PASS("'workgroupBytes': 'attrs.scale'"), NULL, QUIRE_BAD_SHAPE,
       "{'stage': 'error', 'reason': 'undefined', 'at': 'attrs.scale'}"},
  };
  RUN(cases);
}

/* ---- hostile numbers ---- */

static void test_hostile(void **state) {
  (void)state;
  static const fixture_case cases[] = {
      {"element count", "{'inputs': {'x': {'rank': 4}}, 'outputs': {'o': {'shape': '[1, 1]'}}}",
       "{'inputs': {'x': {'shape': [1, 4294967296, 4294967296, 4294967296]}}}", QUIRE_LIMIT,
       "{'stage': 'error', 'failing': 'inputs.x', 'reason': 'overflow', 'at': 'element count'}",
       "T-L", "query"},
      {"byte count", NULL, "{'inputs': {'x': {'shape': [4611686018427387904, 1]}}}", QUIRE_LIMIT,
       "{'failing': 'inputs.x', 'reason': 'overflow', 'at': 'byte count'}"},
      {"a zero makes it small",
       "{'inputs': {'x': {'rank': 4}}, 'outputs': {'o': {'shape': '[0, 1]'}}}",
       "{'inputs': {'x': {'shape': [4294967296, 4294967296, 4294967296, 0]}},"
       " 'device': {'limits': {'maxComputeWorkgroupsPerDimension': 4294967296}}}",
       QUIRE_LIMIT, "{'stage': 'limits', 'failing': 'variants.gpu.passes.main.dispatch.x'}"},
      {"reach of strides",
       "{'variants': [{'id': 'gpu', 'passes': [{'shader': 'a',"
       " 'bindings': ['o'], 'dispatch': {'x': 1}}]}]}",
       "{'inputs': {'x': {'strides': [4611686018427387904, 1]}}}", QUIRE_LIMIT,
       "{'failing': 'inputs.x', 'reason': 'overflow', 'at': 'byte count'}"},
      {"least stride",
       "{'variants': [{'id': 'gpu', 'passes': [{'shader': 'a',"
       " 'bindings': ['o'], 'dispatch': {'x': 1}}]}]}",
       "{'inputs': {'x': {'strides': [-9223372036854775808, 1]}}}", QUIRE_LIMIT,
       "{'failing': 'inputs.x', 'reason': 'overflow'}"},
      {"scratch elements",
       "{'variants': [{'id': 'gpu', 'intermediates': [{'id': 't', 'dtype': 'float32',"
       " 'shape': ['count * 1152921504606846976', 'count']}], 'passes': [{'shader': 'a',"
       " 'bindings': ['o', 't'], 'dispatch': {'x': 1}}]}]}",
       NULL, QUIRE_LIMIT,
       "{'failing': 'variants.gpu.intermediates.t', 'reason': 'overflow',"
       " 'at': 'element count'}"},
      {"scratch bytes",
       "{'variants': [{'id': 'gpu', 'intermediates': [{'id': 't', 'dtype': 'float32',"
       " 'shape': 'count * 1152921504606846976'}], 'passes': [{'shader': 'a',"
       " 'bindings': ['o', 't'], 'dispatch': {'x': 1}}]}]}",
       NULL, QUIRE_LIMIT,
       "{'failing': 'variants.gpu.intermediates.t', 'reason': 'overflow', 'at': 'byte count'}"},
      {"scratch limit",
       "{'variants': [{'id': 'gpu', 'intermediates': [{'id': 't', 'dtype': 'float32',"
       " 'shape': 'count * 10000000'}], 'passes': [{'shader': 'a',"
       " 'bindings': ['o', 't'], 'dispatch': {'x': 1}}]}]}",
       NULL, QUIRE_LIMIT, "{'stage': 'limits', 'failing': 'variants.gpu.intermediates.t'}", "T-L",
       "t", "160000000 bytes"},
      {"nine dimensions",
       "{'outputs': {'o': {'rank': null, 'shape': '[1, 1, 1, 1, 1, 1, 1, 1, 1]'}}}", NULL,
       QUIRE_BAD_SHAPE, "{'failing': 'outputs.o.shape', 'reason': 'range'}"},
      {"infinite dimension", "{'outputs': {'o': {'shape': ['count', '1 / 0']}}}", NULL,
       QUIRE_BAD_SHAPE, "{'failing': 'outputs.o.shape', 'reason': 'range', 'at': '1 / 0'}"},
      {"a shape that is no list", "{'outputs': {'o': {'shape': 'count'}}}", NULL, QUIRE_BAD_SHAPE,
       "{'failing': 'outputs.o.shape', 'reason': 'type', 'at': 'count'}"},
      {"a rank that is no integer", "{'inputs': {'x': {'rank': '5 / 2'}}}", NULL, QUIRE_BAD_SHAPE,
       "{'stage': 'error', 'failing': 'inputs.x.rank', 'reason': 'type', 'at': '5 / 2'}"},
  };
  RUN(cases);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_statuses),   cmocka_unit_test(test_contract),
      cmocka_unit_test(test_attributes), cmocka_unit_test(test_tensors),
      cmocka_unit_test(test_variants),   cmocka_unit_test(test_workgroups),
      cmocka_unit_test(test_hostile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
