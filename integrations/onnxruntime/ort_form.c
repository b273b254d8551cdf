#include "ort_form.h"

#include <string.h>

/* Attributes, with what the reading functions share. */
typedef struct reading {
  const quire_ort_runtime *runtime;
  const quire_ort_label *label;
  const quire_ort_binding *binding;
  quire_ort_form *form;
} reading;

/* ---- attributes ---- */

/* The declared name, which lives as long as the operator; NULL: unknown. */
static const char *declared_name(const quire_operator *op, const char *name) {
  for (size_t i = 0; i < quire_operator_attribute_count(op); i++) {
    quire_named_value declared;
    if (quire_operator_attribute(op, i, &declared, NULL) == QUIRE_OK &&
        strcmp(declared.name, name) == 0) {
      return declared.name;
    }
  }
  return NULL;
}

/* Reads a text of at most size - 1 bytes: the runtime gives bytes without a zero behind them. */
static OrtStatus *read_text(const reading *r, const OrtOpAttr *attribute, const char *name,
                            char *text, size_t size) {
  size_t length = 0;
  OrtStatus *status =
      r->runtime->api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text, size - 1, &length);
  if (length < size && status != NULL) {
    return status;
  }
  r->runtime->api->ReleaseStatus(status);
  if (length >= size) {
    return quire_ort_refuse(r->runtime, r->label, ORT_NOT_IMPLEMENTED,
                            "%s: is a text of %zu bytes, no known value is as long", name, length);
  }
  text[length] = 0;
  if (memchr(text, 0, length) != NULL) {
    return quire_ort_refuse(r->runtime, r->label, ORT_INVALID_ARGUMENT,
                            "%s: holds a zero byte after %zu of %zu bytes", name, strlen(text),
                            length);
  }
  return NULL;
}

static OrtStatus *read_value(const reading *r, const OrtOpAttr *attribute, const char *name,
                             char text[QUIRE_ORT_TEXT_SIZE], quire_named_value *value) {
  const OrtApi *api = r->runtime->api;
  OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
  size_t size = 0;
  float number = 0;
  QUIRE_ORT_TRY(api->OpAttr_GetType(attribute, &type));
  switch (type) {
    case ORT_OP_ATTR_INT:
      value->type = QUIRE_VALUE_TYPE_INT;
      return api->ReadOpAttr(attribute, type, &value->i, sizeof value->i, &size);
    case ORT_OP_ATTR_FLOAT:
      value->type = QUIRE_VALUE_TYPE_FLOAT;
      QUIRE_ORT_TRY(api->ReadOpAttr(attribute, type, &number, sizeof number, &size));
      value->f = (double)number;
      return NULL;
    case ORT_OP_ATTR_STRING:
      value->type = QUIRE_VALUE_TYPE_STRING;
      value->s = text;
      return read_text(r, attribute, name, text, QUIRE_ORT_TEXT_SIZE);
    default:
      return quire_ort_refuse(r->runtime, r->label, ORT_NOT_IMPLEMENTED,
                              "%s: is no number and no text", name);
  }
}

/* True if an attribute that Quire lacks says nothing: one that came later means at zero what was
   before it. */
static bool is_neutral(const quire_ort_neutral *neutral, const char *name,
                       const quire_named_value *value) {
  if (neutral->name != NULL && strcmp(neutral->name, name) == 0) {
    return value->type == QUIRE_VALUE_TYPE_INT && value->i == neutral->value;
  }
  switch (value->type) {
    case QUIRE_VALUE_TYPE_INT:
      return value->i == 0;
    case QUIRE_VALUE_TYPE_FLOAT:
      return value->f == 0;
    default:
      return value->s != NULL && value->s[0] == 0;
  }
}

static OrtStatus *read_attribute(const reading *r, const OrtOpAttr *attribute) {
  quire_ort_form *form = r->form;
  const char *name = NULL;
  char text[QUIRE_ORT_TEXT_SIZE];
  quire_named_value value = {NULL, QUIRE_VALUE_TYPE_NONE, 0, 0, NULL};
  QUIRE_ORT_TRY(r->runtime->api->OpAttr_GetName(attribute, &name));
  QUIRE_ORT_TRY(read_value(r, attribute, name, text, &value));
  value.name = declared_name(r->binding->op, name);
  if (value.name == NULL) {
    return is_neutral(&r->binding->kind->neutral, name, &value)
               ? NULL
               : quire_ort_refuse(r->runtime, r->label, ORT_NOT_IMPLEMENTED,
                                  "%s: is set, and Quire %s does not know it", name,
                                  quire_version());
  }
  if (form->attribute_count == QUIRE_ORT_MOST_ATTRIBUTES ||
      (value.s != NULL && form->text_count == QUIRE_ORT_MOST_TEXTS)) {
    return quire_ort_refuse(r->runtime, r->label, ORT_NOT_IMPLEMENTED, "%s: too many attributes",
                            name);
  }
  if (value.s != NULL) {
    char *kept = form->texts[form->text_count++];
    memcpy(kept, text, strlen(text) + 1);
    value.s = kept;
  }
  form->attributes[form->attribute_count++] = value;
  return NULL;
}

static OrtStatus *read_attributes(const reading *r, const OrtNode *node) {
  enum { MOST = 2 * QUIRE_ORT_MOST_ATTRIBUTES }; /* some may be unknown, and zero */
  const OrtOpAttr *attributes[MOST];
  size_t count = 0;
  QUIRE_ORT_TRY(r->runtime->api->Node_GetNumAttributes(node, &count));
  if (count > MOST) {
    return quire_ort_refuse(r->runtime, r->label, ORT_NOT_IMPLEMENTED, "has %zu attributes", count);
  }
  QUIRE_ORT_TRY(r->runtime->api->Node_GetAttributes(node, attributes, count));
  /* All are read, whatever the first refused one is: the others tell who else may take the node. */
  OrtStatus *first = NULL;
  for (size_t i = 0; i < count; i++) {
    OrtStatus *status = read_attribute(r, attributes[i]);
    if (first == NULL) {
      first = status;
    } else {
      r->runtime->api->ReleaseStatus(status);
    }
  }
  return first;
}

/* ---- tensors ---- */

/* Number of the first value behind the known ones, or 0. */
static size_t find_unknown(const OrtValueInfo *const *values, size_t count, size_t known) {
  for (size_t i = known; i < count; i++) {
    if (values[i] != NULL) {
      return i;
    }
  }
  return 0;
}

OrtStatus *quire_ort_read_values(const quire_ort_runtime *runtime, const quire_ort_label *label,
                                 const quire_ort_binding *binding, const OrtNode *node,
                                 quire_ort_values *values) {
  enum { MOST = 64 };
  const OrtApi *api = runtime->api;
  const OrtValueInfo *inputs[MOST] = {NULL};
  const OrtValueInfo *outputs[MOST] = {NULL};
  size_t input_count = 0;
  size_t output_count = 0;
  QUIRE_ORT_TRY(api->Node_GetNumInputs(node, &input_count));
  QUIRE_ORT_TRY(api->Node_GetNumOutputs(node, &output_count));
  if (input_count > MOST || output_count > MOST) {
    return quire_ort_refuse(runtime, label, ORT_NOT_IMPLEMENTED, "has %zu inputs, %zu outputs",
                            input_count, output_count);
  }
  QUIRE_ORT_TRY(api->Node_GetInputs(node, inputs, input_count));
  QUIRE_ORT_TRY(api->Node_GetOutputs(node, outputs, output_count));
  values->unknown_input = find_unknown(inputs, input_count, binding->input_count);
  values->unknown_output = find_unknown(outputs, output_count, binding->output_count);
  memcpy(values->inputs, inputs, sizeof values->inputs);
  memcpy(values->outputs, outputs, sizeof values->outputs);
  return NULL;
}

/* Type, rank and shape of a value: 1 in place of a size that is not known, and *exact cleared. A
   rank of 0 may mean an unknown one: none of our tensors is a scalar. */
static OrtStatus *read_shape(const quire_ort_runtime *runtime, const OrtValueInfo *value,
                             quire_tensor *tensor, int64_t shape[QUIRE_MAX_RANK], bool *exact) {
  const OrtApi *api = runtime->api;
  const OrtTypeInfo *type = NULL;
  const OrtTensorTypeAndShapeInfo *info = NULL;
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  QUIRE_ORT_TRY(api->GetValueInfoTypeInfo(value, &type));
  QUIRE_ORT_TRY(api->CastTypeInfoToTensorInfo(type, &info));
  if (info == NULL) {
    return NULL; /* no tensor: its type stays NONE */
  }
  QUIRE_ORT_TRY(api->GetTensorElementType(info, &element));
  QUIRE_ORT_TRY(api->GetDimensionsCount(info, &rank));
  tensor->dtype = quire_ort_dtype(element);
  tensor->shape = shape;
  if (rank > QUIRE_MAX_RANK) {
    *exact = false;
    return NULL;
  }
  tensor->ndim = (int32_t)rank;
  QUIRE_ORT_TRY(api->GetDimensions(info, shape, rank));
  *exact = *exact && rank > 0;
  for (size_t i = 0; i < rank; i++) {
    *exact = *exact && shape[i] >= 0;
    shape[i] = shape[i] < 0 ? 1 : shape[i];
  }
  return NULL;
}

static OrtStatus *read_type(const reading *r, const OrtValueInfo *value, const char *name,
                            quire_dtype *dtype) {
  quire_tensor tensor = {NULL, 0, QUIRE_DTYPE_NONE, 0, NULL, NULL};
  int64_t shape[QUIRE_MAX_RANK];
  bool exact = true;
  *dtype = QUIRE_DTYPE_NONE;
  if (value == NULL) {
    return NULL;
  }
  QUIRE_ORT_TRY(read_shape(r->runtime, value, &tensor, shape, &exact));
  *dtype = tensor.dtype;
  return tensor.dtype != QUIRE_DTYPE_NONE
             ? NULL
             : quire_ort_refuse(r->runtime, r->label, ORT_NOT_IMPLEMENTED,
                                "%s: has an element type that Quire does not know", name);
}

OrtStatus *quire_ort_form_read(const quire_ort_runtime *runtime, const quire_ort_label *label,
                               const quire_ort_binding *binding, const OrtNode *node,
                               const quire_ort_values *values, quire_ort_form *form) {
  const reading r = {runtime, label, binding, form};
  memset(form, 0, sizeof *form);
  form->binding = binding;
  for (size_t i = 0; i < binding->input_count; i++) {
    QUIRE_ORT_TRY(read_type(&r, values->inputs[i], binding->kind->inputs[i], &form->inputs[i]));
  }
  for (size_t i = 0; i < binding->output_count; i++) {
    QUIRE_ORT_TRY(read_type(&r, values->outputs[i], binding->kind->outputs[i], &form->outputs[i]));
  }
  QUIRE_ORT_TRY(read_attributes(&r, node));
  if (values->unknown_input > 0 || values->unknown_output > 0) {
    bool is_input = values->unknown_input > 0;
    return quire_ort_refuse(
        runtime, label, ORT_NOT_IMPLEMENTED, "%s %zu is present, and Quire %s does not know it",
        is_input ? "input" : "output", is_input ? values->unknown_input : values->unknown_output,
        quire_version());
  }
  return NULL;
}

/* ---- comparing ---- */

static bool values_equal(const quire_named_value *a, const quire_named_value *b) {
  if (a->name != b->name || a->type != b->type || a->i != b->i || a->f != b->f) {
    return false;
  }
  return a->type != QUIRE_VALUE_TYPE_STRING || strcmp(a->s, b->s) == 0;
}

bool quire_ort_form_equal(const quire_ort_form *a, const quire_ort_form *b) {
  if (a->binding != b->binding || a->attribute_count != b->attribute_count ||
      memcmp(a->inputs, b->inputs, sizeof a->inputs) != 0 ||
      memcmp(a->outputs, b->outputs, sizeof a->outputs) != 0) {
    return false;
  }
  for (size_t i = 0; i < a->attribute_count; i++) {
    if (!values_equal(&a->attributes[i], &b->attributes[i])) {
      return false;
    }
  }
  return true;
}

/* ---- planning ---- */

quire_status quire_ort_form_plan(const quire_ort_form *form, quire_device *device,
                                 const quire_tensor inputs[QUIRE_ORT_MOST_INPUTS], bool aliased,
                                 quire_plan **plan, quire_error *error) {
  const quire_ort_binding *binding = form->binding;
  quire_request_tensor in[QUIRE_ORT_MOST_INPUTS];
  quire_request_tensor out[QUIRE_ORT_MOST_OUTPUTS];
  quire_request request;
  quire_request_init(&request);
  request.inputs = in;
  request.outputs = out;
  request.attributes = form->attributes;
  request.attribute_count = form->attribute_count;
  for (size_t i = 0; i < binding->input_count; i++) {
    if (form->inputs[i] != QUIRE_DTYPE_NONE) {
      in[request.input_count++] = (quire_request_tensor){
          binding->kind->inputs[i], inputs[i].dtype, inputs[i].ndim, inputs[i].shape, NULL, NULL};
    }
  }
  for (size_t i = 0; i < binding->output_count; i++) {
    if (form->outputs[i] != QUIRE_DTYPE_NONE) {
      const char *alias =
          aliased && binding->alias[i] >= 0 ? binding->kind->inputs[binding->alias[i]] : NULL;
      out[request.output_count++] = (quire_request_tensor){
          binding->kind->outputs[i], form->outputs[i], -1, NULL, NULL, alias};
    }
  }
  return quire_plan_create(device, binding->op, &request, plan, error);
}

/* What planning with made-up sizes can tell for certain: everything that comes before sizes. */
static bool is_certain(const quire_error *error, bool ranks_known) {
  switch (error->status) {
    case QUIRE_BAD_ATTRIBUTE:
    case QUIRE_BAD_PRESENCE:
    case QUIRE_BAD_TYPE:
      return true;
    case QUIRE_BAD_RANK:
      return ranks_known;
    case QUIRE_UNSUPPORTED:
      return error->rule[0] != 0; /* a rule of the contract, not the lack of a variant */
    default:
      return false;
  }
}

OrtStatus *quire_ort_form_check(const quire_ort_runtime *runtime, const quire_ort_label *label,
                                const quire_ort_form *form, const quire_ort_values *values,
                                quire_device *device) {
  quire_tensor inputs[QUIRE_ORT_MOST_INPUTS];
  int64_t shapes[QUIRE_ORT_MOST_INPUTS][QUIRE_MAX_RANK];
  bool exact = true;
  bool ranks_known = true;
  memset(inputs, 0, sizeof inputs);
  for (size_t i = 0; i < form->binding->input_count; i++) {
    if (values->inputs[i] != NULL) {
      QUIRE_ORT_TRY(read_shape(runtime, values->inputs[i], &inputs[i], shapes[i], &exact));
      ranks_known = ranks_known && inputs[i].ndim > 0;
    }
  }
  quire_plan *plan = NULL;
  quire_error error;
  quire_status status = quire_ort_form_plan(form, device, inputs, false, &plan, &error);
  quire_plan_release(plan);
  if (status == QUIRE_OK || (!exact && !is_certain(&error, ranks_known))) {
    return NULL;
  }
  return quire_ort_pass_on(runtime, label, &error);
}
