/* Step 1: the request's names become indices, and its form is checked. */
#include <string.h>

#include "planning.h"

quire_value quire_named_value_read(const quire_named_value *named) {
  switch (named->type) {
    case QUIRE_VALUE_TYPE_INT:
      return quire_value_integer(named->i);
    case QUIRE_VALUE_TYPE_FLOAT:
      return quire_value_number(named->f);
    case QUIRE_VALUE_TYPE_STRING:
      return quire_value_text(named->s);
    case QUIRE_VALUE_TYPE_BOOL:
      return quire_value_boolean(named->i != 0);
    default:
      return quire_value_undefined();
  }
}

static quire_status refuse_unknown(quire_planning *p, const char *space, const char *name,
                                   const char *noun, quire_status status) {
  return quire_refuse(p, &(quire_refusal){.stage = "request",
                                          .failing = quire_planning_format(p, "%s.%s", space, name),
                                          .reason = "unknown",
                                          .status = status,
                                          .subject = name,
                                          .detail = quire_planning_format(
                                              p, "is not %s of %s", noun, p->manifest->qualified),
                                          .variant = -1});
}

/* ---- tensors ---- */

static const char *bad_dims(quire_planning *p, const quire_request_tensor *tensor) {
  if (tensor->shape == NULL && tensor->ndim > 0) {
    return "has no shape";
  }
  for (int32_t i = 0; i < tensor->ndim; i++) {
    if (tensor->shape[i] < 0) {
      return quire_planning_format(p, "dim %d is %lld, at least 0 is expected", (int)i,
                                   (long long)tensor->shape[i]);
    }
  }
  return "";
}

/* Checks a tensor's form whatever the operator. */
static quire_status check_form(quire_planning *p, const quire_request_tensor *tensor,
                               bool is_output) {
  int32_t least = is_output ? -1 : 0;
  if (tensor->name == NULL) {
    return quire_refuse_malformed(p, NULL,
                                  is_output ? "an output has no name" : "an input has no name");
  }
  if (tensor->ndim < least || tensor->ndim > QUIRE_MAX_RANK) {
    return quire_refuse_malformed(
        p, tensor->name,
        quire_planning_format(p, "has %d dimensions, 0 to %d are possible", (int)tensor->ndim,
                              (int)QUIRE_MAX_RANK));
  }
  if ((int)tensor->dtype < 0 || tensor->dtype >= QUIRE_DTYPE_COUNT ||
      (tensor->dtype == QUIRE_DTYPE_NONE && !is_output)) {
    return quire_refuse_malformed(
        p, tensor->name,
        quire_planning_format(p, "element type %d is unknown", (int)tensor->dtype));
  }
  if (!is_output && tensor->alias != NULL) {
    return quire_refuse_malformed(p, tensor->name, "is an input: only outputs take an alias");
  }
  if (tensor->ndim < 0 && tensor->strides != NULL) {
    return quire_refuse_malformed(p, tensor->name, "has strides but no shape");
  }
  const char *dims = bad_dims(p, tensor);
  return dims != NULL && dims[0] == '\0' ? QUIRE_OK : quire_refuse_malformed(p, tensor->name, dims);
}

/* Index of a name, looked for from `start` on: requests mostly keep the manifest's order. */
static int32_t find_tensor(const quire_planning *p, const quire_manifest_tensor *tensors,
                           size_t count, const char *name, size_t start) {
  bool keys = p->request->naming == QUIRE_NAMES_MANIFEST;
  for (size_t step = 0; step < count; step++) {
    size_t i = start + step < count ? start + step : start + step - count;
    if (strcmp(keys ? tensors[i].key : tensors[i].onnx, name) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

/* Copies shape and strides. */
static void set_form(quire_planning *p, const quire_request_tensor *asked,
                     quire_plan_tensor *tensor) {
  tensor->dtype = asked->dtype;
  tensor->ndim = asked->ndim;
  tensor->dense = true;
  for (int32_t i = 0; i < asked->ndim; i++) {
    tensor->shape[i] = asked->shape[i];
  }
  if (asked->strides == NULL) {
    quire_strides_fill(tensor->shape, asked->ndim, tensor->strides);
    return;
  }
  for (int32_t i = 0; i < asked->ndim; i++) {
    tensor->strides[i] = asked->strides[i];
  }
  tensor->dense = quire_strides_are_dense(tensor->shape, tensor->strides, asked->ndim);
  p->strided = p->strided || !tensor->dense;
}

static quire_status read_inputs(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  size_t next = 0;
  for (size_t i = 0; i < p->request->input_count; i++) {
    const quire_request_tensor *asked = &p->request->inputs[i];
    int32_t index = find_tensor(p, manifest->inputs, manifest->input_count, asked->name, next);
    if (index < 0) {
      return refuse_unknown(p, "inputs", asked->name, "an input", QUIRE_UNSUPPORTED);
    }
    if (p->asked_inputs[index] != NULL) {
      return quire_refuse_malformed(p, asked->name, "the input is given twice");
    }
    p->asked_inputs[index] = asked;
    p->inputs[index].present = true;
    next = (size_t)index + 1;
  }
  return QUIRE_OK;
}

static quire_status read_outputs(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  size_t next = 0;
  for (size_t i = 0; i < p->request->output_count; i++) {
    const quire_request_tensor *asked = &p->request->outputs[i];
    int32_t index = find_tensor(p, manifest->outputs, manifest->output_count, asked->name, next);
    if (index < 0) {
      return refuse_unknown(p, "outputs", asked->name, "an output", QUIRE_BAD_REQUEST);
    }
    if (p->asked_outputs[index] != NULL) {
      return quire_refuse_malformed(p, asked->name, "the output is given twice");
    }
    p->asked_outputs[index] = asked;
    p->outputs[index].given = true;
    next = (size_t)index + 1;
  }
  return QUIRE_OK;
}

static quire_status read_aliases(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < manifest->output_count; i++) {
    const quire_request_tensor *asked = p->asked_outputs[i];
    p->outputs[i].alias = -1;
    if (asked == NULL || asked->alias == NULL) {
      continue;
    }
    int32_t input = find_tensor(p, manifest->inputs, manifest->input_count, asked->alias, 0);
    if (input < 0) {
      return refuse_unknown(p, "alias", asked->alias, "an input", QUIRE_BAD_REQUEST);
    }
    p->outputs[i].alias = manifest->inputs[input].key_index;
  }
  return QUIRE_OK;
}

static quire_status set_forms(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < manifest->input_count; i++) {
    p->inputs[i].alias = -1;
    if (p->asked_inputs[i] != NULL) {
      set_form(p, p->asked_inputs[i], &p->inputs[i]);
    }
  }
  for (size_t i = 0; i < manifest->output_count; i++) {
    p->outputs[i].ndim = -1;
    p->outputs[i].dense = true;
    if (p->asked_outputs[i] != NULL) {
      set_form(p, p->asked_outputs[i], &p->outputs[i]);
    }
  }
  return QUIRE_OK;
}

/* ---- scalars ---- */

static quire_status check_named(quire_planning *p, const quire_named_value *named,
                                const char *noun) {
  if (named->name == NULL) {
    return quire_refuse_malformed(p, NULL, quire_planning_format(p, "%s has no name", noun));
  }
  if ((int)named->type < 0 || named->type > QUIRE_VALUE_TYPE_BOOL ||
      (named->type == QUIRE_VALUE_TYPE_STRING && named->s == NULL)) {
    return quire_refuse_malformed(p, named->name, "the value has no known kind");
  }
  return QUIRE_OK;
}

static quire_status read_attributes(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < p->request->attribute_count; i++) {
    const quire_named_value *named = &p->request->attributes[i];
    int32_t index = quire_manifest_find_attribute(manifest, named->name);
    if (index < 0) {
      return refuse_unknown(p, "attributes", named->name, "an attribute", QUIRE_UNSUPPORTED);
    }
    if (p->attributes[index].kind != QUIRE_VALUE_UNDEFINED) {
      return quire_refuse_malformed(p, named->name, "the attribute is given twice");
    }
    p->attributes[index] = quire_named_value_read(named);
  }
  return QUIRE_OK;
}

static quire_status read_tunables(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < p->request->tunable_count; i++) {
    const quire_named_value *named = &p->request->tunables[i];
    int32_t index = quire_manifest_find_tunable(manifest, named->name);
    if (index < 0) {
      return refuse_unknown(p, "tunables", named->name, "a tunable", QUIRE_BAD_REQUEST);
    }
    if (p->tunables[index].kind != QUIRE_VALUE_UNDEFINED) {
      return quire_refuse_malformed(p, named->name, "the tunable is given twice");
    }
    p->tunables[index] = quire_named_value_read(named);
  }
  return QUIRE_OK;
}

static quire_status read_dtypes(quire_planning *p) {
  for (size_t i = 0; i < p->request->dtype_count; i++) {
    const quire_named_value *named = &p->request->dtypes[i];
    int32_t index = quire_manifest_find_symbol(p->manifest, named->name);
    if (index < 0) {
      return refuse_unknown(p, "dtypes", named->name, "a type symbol", QUIRE_BAD_REQUEST);
    }
    if (named->type != QUIRE_VALUE_TYPE_STRING) {
      return quire_refuse_malformed(p, named->name, "the element type is not given by name");
    }
    quire_dtype dtype = quire_dtype_from_name(named->s);
    /* COUNT is in no symbol's list: an unknown name is refused with the symbols of step 3. */
    p->symbols[index] = dtype != QUIRE_DTYPE_NONE ? dtype : QUIRE_DTYPE_COUNT;
  }
  return QUIRE_OK;
}

static quire_status check_tunable_kinds(quire_planning *p) {
  for (size_t i = 0; i < p->manifest->tunable_count; i++) {
    const quire_manifest_tunable *tunable = &p->manifest->tunables[i];
    const quire_value *value = &p->tunables[i];
    if (value->kind == QUIRE_VALUE_UNDEFINED || quire_value_same_kind(value, &tunable->value)) {
      continue;
    }
    return quire_refuse(
        p, &(quire_refusal){
               .stage = "request",
               .failing = quire_planning_format(p, "tunables.%s", tunable->name),
               .reason = "type",
               .status = QUIRE_BAD_REQUEST,
               .subject = tunable->name,
               .detail = quire_planning_format(p, "is of kind %s, its default of kind %s",
                                               quire_value_kind_name(value->kind),
                                               quire_value_kind_name(tunable->value.kind)),
               .variant = -1});
  }
  return QUIRE_OK;
}

/* ---- the whole ---- */

static quire_status check_all_named(quire_planning *p, const quire_named_value *named, size_t count,
                                    const char *noun) {
  for (size_t i = 0; i < count; i++) {
    quire_status status = check_named(p, &named[i], noun);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  return QUIRE_OK;
}

static quire_status check_lists(quire_planning *p) {
  const quire_request *request = p->request;
  const struct {
    const char *name;
    const void *list;
    size_t count;
  } lists[] = {{"inputs", request->inputs, request->input_count},
               {"outputs", request->outputs, request->output_count},
               {"attributes", request->attributes, request->attribute_count},
               {"tunables", request->tunables, request->tunable_count},
               {"dtypes", request->dtypes, request->dtype_count}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    if (lists[i].list == NULL && lists[i].count > 0) {
      return quire_refuse_malformed(
          p, lists[i].name, quire_planning_format(p, "is NULL, its count is %zu", lists[i].count));
    }
  }
  return QUIRE_OK;
}

static quire_status check_all_forms(quire_planning *p) {
  const quire_request *request = p->request;
  quire_status status = check_lists(p);
  for (size_t i = 0; status == QUIRE_OK && i < request->input_count; i++) {
    status = check_form(p, &request->inputs[i], false);
  }
  for (size_t i = 0; status == QUIRE_OK && i < request->output_count; i++) {
    status = check_form(p, &request->outputs[i], true);
  }
  if (status == QUIRE_OK) {
    status = check_all_named(p, request->attributes, request->attribute_count, "an attribute");
  }
  if (status == QUIRE_OK) {
    status = check_all_named(p, request->tunables, request->tunable_count, "a tunable");
  }
  if (status == QUIRE_OK) {
    status = check_all_named(p, request->dtypes, request->dtype_count, "a type symbol");
  }
  return status;
}

quire_status quire_planning_read_request(quire_planning *p) {
  static quire_status (*const steps[])(quire_planning *) = {
      check_all_forms, read_inputs,  read_outputs,        read_attributes, read_tunables,
      read_dtypes,     read_aliases, check_tunable_kinds, set_forms};
  quire_status status = QUIRE_OK;
  for (size_t i = 0; status == QUIRE_OK && i < sizeof steps / sizeof *steps; i++) {
    status = steps[i](p);
  }
  return status;
}
