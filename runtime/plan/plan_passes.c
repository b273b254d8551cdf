/* Step 7: bindings, uniform values and dispatch of every pass of the chosen variant. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "checked.h"
#include "planning.h"

/* Limits that passes are checked against, looked up once. */
typedef struct pass_limits {
  int64_t storage_bytes;
  int64_t uniform_bytes;
  int64_t workgroups;
  int64_t workgroup_size[3];
  int64_t invocations;
  int64_t workgroup_bytes;
} pass_limits;

/* The pass that is being built. */
typedef struct pass_builder {
  quire_planning *p;
  const quire_manifest_variant *variant;
  const quire_manifest_pass *manifest;
  quire_plan_pass *pass;
  const pass_limits *limits;
} pass_builder;

/* "variants.V.passes.P.WHAT" */
static const char *failing(const pass_builder *b, const char *what) {
  return quire_planning_format(b->p, "variants.%s.passes.%s.%s", b->variant->id, b->manifest->id,
                               what);
}

static const char *failing_binding(const pass_builder *b, const quire_manifest_binding *binding,
                                   const char *field) {
  return quire_planning_format(b->p, "variants.%s.passes.%s.bindings.%s%s%s", b->variant->id,
                               b->manifest->id, binding->name, field != NULL ? "." : "",
                               field != NULL ? field : "");
}

static quire_status refuse_limit(const pass_builder *b, const char *place, const char *subject,
                                 const char *noun, int64_t value, int64_t limit) {
  return quire_refuse_by(
      b->p, "limits", place, "limit", QUIRE_LIMIT, QUIRE_RULE_LIMIT, subject,
      quire_planning_format(b->p, "%s is %lld, the device's limit is %lld (%s)", noun,
                            (long long)value, (long long)limit, place != NULL ? place : ""));
}

/* ---- bindings ---- */

static const char *source_name(const pass_builder *b, const quire_manifest_binding *binding) {
  return quire_manifest_source(b->p->manifest, b->variant, binding);
}

/* Record of the side that says how the tensor is stored. */
static const quire_manifest_tensor *manifest_tensor(const quire_manifest *manifest, int32_t key) {
  const quire_manifest_key *record = &manifest->keys[key];
  return record->input >= 0 ? &manifest->inputs[record->input] : &manifest->outputs[record->output];
}

static const char *default_element(const pass_builder *b, const quire_manifest_binding *binding) {
  if (binding->kind == QUIRE_BINDING_SCRATCH) {
    return quire_wgsl_element(b->variant->intermediates[binding->source].dtype, false);
  }
  const quire_manifest_tensor *tensor = manifest_tensor(b->p->manifest, binding->source);
  quire_dtype dtype = tensor->storage != QUIRE_DTYPE_NONE
                          ? tensor->storage
                          : quire_planning_tensor(b->p, binding->source)->dtype;
  return quire_wgsl_element(dtype, tensor->packed8);
}

static quire_status find_element(const pass_builder *b, const quire_manifest_binding *binding,
                                 const char **element) {
  quire_expr_fault fault = {QUIRE_EXPR_TYPE, source_name(b, binding),
                            strlen(source_name(b, binding))};
  quire_expr_code code = QUIRE_EXPR_OK;
  *element = NULL;
  if (binding->element_source == QUIRE_ELEMENT_TEXT) {
    *element = binding->element;
  } else if (binding->element_source == QUIRE_ELEMENT_DEFAULT) {
    *element = default_element(b, binding);
  } else {
    quire_value value = quire_value_undefined();
    code = quire_expr_evaluate(binding->element_expr, &b->p->env, &value, &fault);
    if (code == QUIRE_EXPR_OK && value.kind == QUIRE_VALUE_STRING) {
      *element = quire_wgsl_find_element(value.as.string, value.length);
    }
    if (code == QUIRE_EXPR_OK) {
      quire_fault_blame(binding->element_expr, QUIRE_EXPR_TYPE, &fault);
      if (value.kind == QUIRE_VALUE_UNDEFINED) {
        fault.code = QUIRE_EXPR_UNDEFINED;
      }
    }
  }
  if (*element != NULL) {
    return QUIRE_OK;
  }
  return quire_refuse_fault(b->p, failing_binding(b, binding, NULL), source_name(b, binding),
                            code != QUIRE_EXPR_OK ? code : fault.code, &fault);
}

static quire_status check_buffer(const pass_builder *b, const quire_manifest_binding *binding) {
  int64_t bytes = 0;
  if (binding->kind == QUIRE_BINDING_SCRATCH) {
    bytes = b->p->intermediates[binding->source].bytes;
  } else {
    const quire_manifest_tensor *manifest = manifest_tensor(b->p->manifest, binding->source);
    const quire_plan_tensor *tensor = quire_planning_tensor(b->p, binding->source);
    quire_dtype dtype = manifest->storage != QUIRE_DTYPE_NONE ? manifest->storage : tensor->dtype;
    int64_t elements = 0;
    /* Step 5 made sure that neither overflows. */
    (void)quire_count_elements(tensor->shape, (size_t)tensor->ndim, &elements);
    (void)quire_wgsl_bytes(dtype, manifest->packed8, elements, &bytes);
  }
  if (bytes <= b->limits->storage_bytes) {
    return QUIRE_OK;
  }
  return refuse_limit(b, failing_binding(b, binding, NULL), source_name(b, binding),
                      "the number of bytes", bytes, b->limits->storage_bytes);
}

static quire_status build_buffer(const pass_builder *b, const quire_manifest_binding *binding,
                                 quire_plan_binding *out, int32_t *next) {
  bool native = b->manifest->native != NULL;
  if (binding->kind == QUIRE_BINDING_ARG &&
      !quire_planning_tensor(b->p, binding->source)->present) {
    const char *key = source_name(b, binding);
    quire_expr_fault fault = {QUIRE_EXPR_UNDEFINED, key, strlen(key)};
    if (!binding->optional) {
      return quire_refuse_fault(b->p, failing_binding(b, binding, NULL), key, QUIRE_EXPR_UNDEFINED,
                                &fault);
    }
    out->index = native ? (*next)++ : -1;
    return QUIRE_OK;
  }
  out->index = (*next)++;
  if (native) {
    return QUIRE_OK;
  }
  quire_status status = find_element(b, binding, &out->element);
  return status == QUIRE_OK ? check_buffer(b, binding) : status;
}

static quire_expr_code convert_field(quire_field_type type, const quire_value *value,
                                     quire_plan_word *word) {
  int64_t integer = 0;
  quire_expr_code code = QUIRE_EXPR_OK;
  if (type == QUIRE_FIELD_U32) {
    code = quire_value_to_integer(value, 0, UINT32_MAX, &integer);
    word->u = (uint32_t)integer;
  } else if (type == QUIRE_FIELD_I32) {
    code = quire_value_to_integer(value, INT32_MIN, INT32_MAX, &integer);
    word->i = (int32_t)integer;
  } else if (value->kind == QUIRE_VALUE_UNDEFINED) {
    code = QUIRE_EXPR_UNDEFINED;
  } else if (!quire_value_is_number(value)) {
    code = QUIRE_EXPR_TYPE;
  } else {
    word->f = (float)quire_value_as_double(value);
    code = isfinite(word->f) ? QUIRE_EXPR_OK : QUIRE_EXPR_RANGE;
  }
  return code;
}

static quire_status build_uniform(const pass_builder *b, const quire_manifest_binding *binding,
                                  quire_plan_binding *out, int32_t *next) {
  size_t count = (binding->field_count + 3) / 4 * 4;
  quire_plan_word *words = quire_arena_array(b->p->arena, count, sizeof *words);
  if (words == NULL) {
    return quire_refuse(b->p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  out->index = (*next)++;
  out->words = words;
  out->bytes = (uint32_t)(count * sizeof *words);
  for (size_t i = 0; i < binding->field_count; i++) {
    const quire_manifest_field *field = &binding->fields[i];
    quire_value value = quire_value_undefined();
    quire_expr_fault fault = {0};
    quire_expr_code code = quire_expr_evaluate(field->value, &b->p->env, &value, &fault);
    if (code == QUIRE_EXPR_OK) {
      code = convert_field(field->type, &value, &words[i]);
      quire_fault_blame(field->value, code, &fault);
    }
    if (code != QUIRE_EXPR_OK) {
      return quire_refuse_fault(b->p, failing_binding(b, binding, field->name), field->name, code,
                                &fault);
    }
  }
  if (out->bytes > b->limits->uniform_bytes) {
    return refuse_limit(b, failing_binding(b, binding, NULL), binding->name, "the number of bytes",
                        out->bytes, b->limits->uniform_bytes);
  }
  return QUIRE_OK;
}

static quire_status build_bindings(const pass_builder *b) {
  const quire_manifest_pass *manifest = b->manifest;
  quire_plan_binding *bindings =
      quire_arena_array(b->p->arena, manifest->binding_count, sizeof *bindings);
  if (bindings == NULL) {
    return quire_refuse(b->p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  b->pass->bindings = bindings;
  int32_t next = 0;
  quire_status status = QUIRE_OK;
  for (size_t i = 0; status == QUIRE_OK && i < manifest->binding_count; i++) {
    const quire_manifest_binding *binding = &manifest->bindings[i];
    bindings[i].manifest = binding;
    status = binding->kind == QUIRE_BINDING_UNIFORM ? build_uniform(b, binding, &bindings[i], &next)
                                                    : build_buffer(b, binding, &bindings[i], &next);
  }
  return status;
}

/* ---- dispatch ---- */

/* Evaluates an integer place of the pass; `what` names it in a refusal. */
static quire_status evaluate_place(const pass_builder *b, const quire_expr *expr, const char *what,
                                   int64_t *out) {
  quire_value value = quire_value_undefined();
  quire_expr_fault fault = {0};
  quire_expr_code code = quire_expr_evaluate(expr, &b->p->env, &value, &fault);
  if (code == QUIRE_EXPR_OK) {
    code = quire_value_to_integer(&value, 0, INT64_MAX, out);
    quire_fault_blame(expr, code, &fault);
  }
  if (code != QUIRE_EXPR_OK) {
    return quire_refuse_fault(b->p, failing(b, what), "", code, &fault);
  }
  return QUIRE_OK;
}

/* ceilDiv of the language: exact for integers, otherwise of the doubles' quotient. */
static quire_value ceil_quotient(const quire_value *a, const quire_value *b) {
  if (a->kind == QUIRE_VALUE_INTEGER && b->kind == QUIRE_VALUE_INTEGER && b->as.integer > 0) {
    int64_t quotient = a->as.integer / b->as.integer;
    bool more = a->as.integer % b->as.integer > 0;
    return quire_value_integer(quotient + more);
  }
  return quire_value_number(ceil(quire_value_as_double(a) / quire_value_as_double(b)));
}

static quire_status count_workgroups(const pass_builder *b, int64_t *count) {
  const quire_expr *const *dispatch = b->manifest->dispatch;
  if (b->manifest->dispatch_form == QUIRE_DISPATCH_WORKGROUPS) {
    return evaluate_place(b, dispatch[0], "dispatch.workgroups", count);
  }
  quire_value values[2] = {quire_value_undefined(), quire_value_undefined()};
  quire_expr_fault fault = {0};
  quire_expr_code code = QUIRE_EXPR_OK;
  for (int i = 0; code == QUIRE_EXPR_OK && i < 2; i++) {
    code = quire_expr_evaluate(dispatch[i], &b->p->env, &values[i], &fault);
    if (code == QUIRE_EXPR_OK && !quire_value_is_number(&values[i])) {
      code = values[i].kind == QUIRE_VALUE_UNDEFINED ? QUIRE_EXPR_UNDEFINED : QUIRE_EXPR_TYPE;
      quire_fault_blame(dispatch[i], code, &fault);
    }
  }
  if (code == QUIRE_EXPR_OK) {
    quire_value quotient = ceil_quotient(&values[0], &values[1]);
    code = quire_value_to_integer(&quotient, 0, INT64_MAX, count);
    quire_fault_blame(dispatch[0], code, &fault);
  }
  if (code != QUIRE_EXPR_OK) {
    return quire_refuse_fault(b->p, failing(b, "dispatch.threads"), "", code, &fault);
  }
  return QUIRE_OK;
}

static const char *const dispatch_names[3] = {"dispatch.x", "dispatch.y", "dispatch.z"};

static quire_status build_dispatch(const pass_builder *b) {
  int64_t count[3] = {1, 1, 1};
  quire_status status = QUIRE_OK;
  if (b->manifest->dispatch_form == QUIRE_DISPATCH_XYZ) {
    for (int i = 0; status == QUIRE_OK && i < 3; i++) {
      if (b->manifest->dispatch[i] != NULL) {
        status = evaluate_place(b, b->manifest->dispatch[i], dispatch_names[i], &count[i]);
      }
    }
  } else {
    int64_t workgroups = 0;
    status = count_workgroups(b, &workgroups);
    count[0] = workgroups < QUIRE_FOLD_WIDTH ? workgroups : QUIRE_FOLD_WIDTH;
    count[1] = workgroups / QUIRE_FOLD_WIDTH + (workgroups % QUIRE_FOLD_WIDTH > 0);
  }
  for (int i = 0; status == QUIRE_OK && i < 3; i++) {
    if (count[i] > b->limits->workgroups) {
      return refuse_limit(b, failing(b, dispatch_names[i]), "", "the number of workgroups",
                          count[i], b->limits->workgroups);
    }
    b->pass->dispatch[i] = (uint32_t)count[i];
  }
  return status;
}

static quire_status build_workgroup(const pass_builder *b) {
  static const char *const names[3] = {"workgroup.x", "workgroup.y", "workgroup.z"};
  quire_status status = QUIRE_OK;
  int64_t invocations = 1;
  for (int i = 0; status == QUIRE_OK && i < 3 && b->manifest->workgroup[0] != NULL; i++) {
    int64_t *size = &b->pass->workgroup[i];
    status = evaluate_place(b, b->manifest->workgroup[i], names[i], size);
    if (status == QUIRE_OK && *size > b->limits->workgroup_size[i]) {
      return refuse_limit(b, failing(b, names[i]), "", "the workgroup size", *size,
                          b->limits->workgroup_size[i]);
    }
    if (status == QUIRE_OK && (!quire_mul_i64(invocations, *size, &invocations) ||
                               invocations > b->limits->invocations)) {
      return refuse_limit(b, failing(b, "workgroup"), "", "the number of invocations", invocations,
                          b->limits->invocations);
    }
  }
  if (status == QUIRE_OK && b->manifest->workgroup_bytes != NULL) {
    int64_t *bytes = &b->pass->workgroup_bytes;
    status = evaluate_place(b, b->manifest->workgroup_bytes, "workgroupBytes", bytes);
    if (status == QUIRE_OK && *bytes > b->limits->workgroup_bytes) {
      return refuse_limit(b, failing(b, "workgroupBytes"), "", "the workgroup memory", *bytes,
                          b->limits->workgroup_bytes);
    }
  }
  return status;
}

/* ---- all passes ---- */

static pass_limits find_limits(const quire_target *target) {
  int64_t workgroups = quire_target_limit_or_most(target, "maxComputeWorkgroupsPerDimension");
  return (pass_limits){
      .storage_bytes = quire_target_limit_or_most(target, "maxStorageBufferBindingSize"),
      .uniform_bytes = quire_target_limit_or_most(target, "maxUniformBufferBindingSize"),
      .workgroups = workgroups < UINT32_MAX ? workgroups : UINT32_MAX,
      .workgroup_size = {quire_target_limit_or_most(target, "maxComputeWorkgroupSizeX"),
                         quire_target_limit_or_most(target, "maxComputeWorkgroupSizeY"),
                         quire_target_limit_or_most(target, "maxComputeWorkgroupSizeZ")},
      .invocations = quire_target_limit_or_most(target, "maxComputeInvocationsPerWorkgroup"),
      .workgroup_bytes = quire_target_limit_or_most(target, "maxComputeWorkgroupStorageSize")};
}

quire_status quire_planning_build_passes(quire_planning *p) {
  const quire_manifest_variant *variant = &p->manifest->variants[p->variant];
  pass_limits limits = find_limits(p->target);
  quire_status status = QUIRE_OK;
  for (size_t i = 0; status == QUIRE_OK && i < variant->pass_count; i++) {
    const quire_manifest_pass *manifest = &variant->passes[i];
    pass_builder builder = {p, variant, manifest, &p->passes[i], &limits};
    p->passes[i].manifest = manifest;
    if (manifest->native != NULL) {
      p->passes[i].implementation = quire_native_choose(p, p->variant, manifest);
    }
    status = quire_planning_enter_pass(p, manifest);
    status = status == QUIRE_OK ? build_bindings(&builder) : status;
    status = status == QUIRE_OK ? build_dispatch(&builder) : status;
    status = status == QUIRE_OK ? build_workgroup(&builder) : status;
  }
  return status;
}
