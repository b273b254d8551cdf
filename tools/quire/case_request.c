#include "case_request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "option_value.h"

/* Splits NAME=VALUE; *value points into the text. The name is allocated; NULL is a failure. */
static char *split_pair(const char *option, const char *text, const char **value,
                        quire_error *error) {
  const size_t length = strcspn(text, "=");
  if (length == 0 || text[length] == '\0') {
    quire_failure_set(error, QUIRE_BAD_REQUEST, "%s: \"%.64s\" is not NAME=VALUE", option, text);
    return NULL;
  }
  char *name = malloc(length + 1);
  if (!name) {
    quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the options");
    return NULL;
  }
  memcpy(name, text, length);
  name[length] = '\0';
  *value = text + length + 1;
  return name;
}

/* A member that no option has set yet. Takes the value, which may be NULL. */
static quire_status set_once(const char *option, const char *name, json_t *value, json_t *set,
                             quire_error *error) {
  if (json_object_get(set, name)) {
    json_decref(value);
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "%s %.64s is given twice", option, name);
  }
  if (json_object_set_new(set, name, value) != 0) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "%s: \"%.64s\" is not UTF-8, or there is no memory", option, name);
  }
  return QUIRE_OK;
}

static quire_value_type declared_type(const quire_operator *op, const char *name) {
  for (size_t i = 0; i < quire_operator_attribute_count(op); ++i) {
    quire_named_value attribute;
    quire_value_type type = QUIRE_VALUE_TYPE_NONE;
    if (quire_operator_attribute(op, i, &attribute, &type) == QUIRE_OK &&
        !strcmp(attribute.name, name)) {
      return type != QUIRE_VALUE_TYPE_NONE ? type : attribute.type;
    }
  }
  return QUIRE_VALUE_TYPE_NONE;
}

static quire_status add_attribute(const char *text, const quire_operator *op, json_t *set,
                                  quire_error *error) {
  static const char *const kinds[] = {"value", "whole number", "number", "text", "true or false"};
  const char *given = "";
  quire_status status = QUIRE_OK;
  char *name = split_pair("--attr", text, &given, error);
  if (!name) {
    return error->status;
  }
  quire_named_value value = {.name = name};
  const quire_value_type type = declared_type(op, name);
  if (!quire_value_read(type, given, &value)) {
    status = quire_failure_set(error, QUIRE_BAD_ATTRIBUTE, "%s: \"%.64s\" is not a %s", name, given,
                               kinds[type]);
  } else if (value.type == QUIRE_VALUE_TYPE_FLOAT && !isfinite(value.f)) {
    status =
        quire_failure_set(error, QUIRE_BAD_ATTRIBUTE, "%s: %s is not a finite number", name, given);
  } else {
    status = set_once("--attr", name, quire_value_json(&value), set, error);
  }
  free(name);
  return status;
}

static quire_status add_dtype(const char *text, json_t *set, quire_error *error) {
  const char *value = "";
  quire_status status = QUIRE_OK;
  char *name = split_pair("--dtype", text, &value, error);
  if (!name) {
    return error->status;
  }
  if (quire_safetensors_dtype(value) == QUIRE_DTYPE_NONE) {
    status =
        quire_failure_set(error, QUIRE_BAD_REQUEST, "--dtype: \"%.64s\" is no element type", value);
  } else {
    status = set_once("--dtype", name, json_string(value), set, error);
  }
  free(name);
  return status;
}

static quire_status merge_options(const quire_case *opened, const quire_call_options *options,
                                  const quire_operator *op, quire_case_request *built,
                                  quire_error *error) {
  built->attributes = json_deep_copy(opened->attributes);
  built->dtypes = json_deep_copy(opened->output_dtypes);
  if (!built->attributes || !built->dtypes) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the request");
  }
  json_t *attributes = json_object();
  json_t *dtypes = json_object();
  quire_status status = QUIRE_OK;
  for (size_t i = 0; i < options->attributes.count && status == QUIRE_OK; ++i) {
    status = add_attribute(options->attributes.items[i], op, attributes, error);
  }
  for (size_t i = 0; i < options->dtypes.count && status == QUIRE_OK; ++i) {
    status = add_dtype(options->dtypes.items[i], dtypes, error);
  }
  if (status == QUIRE_OK && (json_object_update(built->attributes, attributes) != 0 ||
                             json_object_update(built->dtypes, dtypes) != 0)) {
    status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the request");
  }
  json_decref(attributes);
  json_decref(dtypes);
  return status;
}

static void fill_attributes(quire_case_request *built) {
  const char *name = NULL;
  json_t *value = NULL;
  json_object_foreach(built->attributes, name, value) {
    quire_named_value *filled = &built->values[built->request.attribute_count++];
    *filled = (quire_named_value){.name = name};
    if (json_is_integer(value)) {
      filled->type = QUIRE_VALUE_TYPE_INT;
      filled->i = json_integer_value(value);
    } else if (json_is_real(value)) {
      filled->type = QUIRE_VALUE_TYPE_FLOAT;
      filled->f = json_real_value(value);
    } else if (json_is_boolean(value)) {
      filled->type = QUIRE_VALUE_TYPE_BOOL;
      filled->i = json_is_true(value) ? 1 : 0;
    } else {
      filled->type = QUIRE_VALUE_TYPE_STRING;
      filled->s = json_string_value(value);
    }
  }
}

static void fill_inputs(const quire_case *opened, quire_case_request *built) {
  const char *output = NULL;
  for (size_t i = 0; i < opened->tensors.count; ++i) {
    const quire_stored_tensor *tensor = &opened->tensors.tensors[i];
    if (!quire_case_is_expected(tensor, &output)) {
      built->inputs[built->request.input_count++] = (quire_request_tensor){.name = tensor->name,
                                                                           .dtype = tensor->dtype,
                                                                           .ndim = tensor->ndim,
                                                                           .shape = tensor->shape};
    }
  }
}

/*
 * Asks for an output, once; NONE leaves its type to the operator. One name more than the operator
 * has slots is enough to be refused: no list of names costs more than that.
 */
static void ask_for(const quire_operator *op, quire_case_request *built, const char *name,
                    quire_dtype dtype) {
  quire_request *request = &built->request;
  if (request->output_count > quire_operator_slot_count(op)) {
    return;
  }
  for (size_t i = 0; i < request->output_count; ++i) {
    const char *asked = built->outputs[i].name;
    if (asked && !strcmp(asked, name)) {
      return;
    }
  }
  const char *given = json_string_value(json_object_get(built->dtypes, name));
  built->outputs[request->output_count++] = (quire_request_tensor){
      .name = name, .dtype = given ? quire_safetensors_dtype(given) : dtype, .ndim = -1};
}

static void ask_for_wanted(const quire_case *opened, const quire_call_options *options,
                           const quire_operator *op, int for_check, quire_case_request *built) {
  const char *output = NULL;
  for (size_t i = 0; i < options->outputs.count; ++i) {
    const quire_stored_tensor *want =
        for_check ? quire_case_expected(opened, options->outputs.items[i]) : NULL;
    ask_for(op, built, options->outputs.items[i], want ? want->dtype : QUIRE_DTYPE_NONE);
  }
  for (size_t i = 0; for_check && options->outputs.count == 0 && i < opened->tensors.count; ++i) {
    const quire_stored_tensor *tensor = &opened->tensors.tensors[i];
    if (quire_case_is_expected(tensor, &output)) {
      ask_for(op, built, output, tensor->dtype);
    }
  }
  const int by_case = options->outputs.count == 0 && (!for_check || opened->error);
  for (size_t i = 0; by_case && i < json_array_size(opened->outputs); ++i) {
    ask_for(op, built, json_string_value(json_array_get(opened->outputs, i)), QUIRE_DTYPE_NONE);
  }
}

/* 1 if slot i is the output side of an in-place tensor that the case holds. */
static int is_held_in_place(const quire_case *opened, const quire_operator *op, size_t i,
                            quire_slot *slot) {
  quire_slot input;
  return quire_operator_slot(op, i, slot) == QUIRE_OK && slot->is_output && slot->alias >= 0 &&
         quire_operator_slot(op, (size_t)slot->alias, &input) == QUIRE_OK &&
         quire_safetensors_find(&opened->tensors, input.name);
}

/* 1 if the case wants a refusal and itself says which in-place tensors have an output. */
static int chooses_in_place(const quire_case *opened, const quire_operator *op) {
  quire_slot slot;
  for (size_t i = 0; opened->error && i < quire_operator_slot_count(op); ++i) {
    for (size_t j = 0; j < json_array_size(opened->outputs); ++j) {
      if (is_held_in_place(opened, op, i, &slot) &&
          !strcmp(slot.name, json_string_value(json_array_get(opened->outputs, j)))) {
        return 1;
      }
    }
  }
  return 0;
}

static void fill_outputs(const quire_case *opened, const quire_call_options *options,
                         const quire_operator *op, int for_check, quire_case_request *built) {
  ask_for_wanted(opened, options, op, for_check, built);
  const char *name = NULL;
  json_t *value = NULL;
  json_object_foreach(built->dtypes, name, value) {
    ask_for(op, built, name, QUIRE_DTYPE_NONE);
  }
  quire_slot slot;
  const int is_chosen = chooses_in_place(opened, op);
  for (size_t i = 0; !is_chosen && i < quire_operator_slot_count(op); ++i) {
    if (is_held_in_place(opened, op, i, &slot)) {
      ask_for(op, built, slot.name, QUIRE_DTYPE_NONE);
    }
  }
}

quire_status quire_request_build(const quire_case *opened, const quire_call_options *options,
                                 const quire_operator *op, int for_check, quire_case_request *built,
                                 quire_error *error) {
  *built = (quire_case_request){0};
  quire_request_init(&built->request);
  if (opened->attribute_fault.status != QUIRE_OK) {
    *error = opened->attribute_fault;
    return error->status;
  }
  quire_status status = merge_options(opened, options, op, built, error);
  if (status == QUIRE_OK) {
    const size_t outputs = options->outputs.count + opened->tensors.count +
                           json_array_size(opened->outputs) + json_object_size(built->dtypes) +
                           quire_operator_slot_count(op);
    built->inputs = calloc(opened->tensors.count + 1, sizeof *built->inputs);
    built->outputs = calloc(outputs + 1, sizeof *built->outputs);
    built->values = calloc(json_object_size(built->attributes) + 1, sizeof *built->values);
    if (!built->inputs || !built->outputs || !built->values) {
      status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the request");
    }
  }
  if (status != QUIRE_OK || !built->inputs || !built->outputs || !built->values) {
    quire_request_release(built);
    return status;
  }
  fill_attributes(built);
  fill_inputs(opened, built);
  fill_outputs(opened, options, op, for_check, built);
  built->request.naming = QUIRE_NAMES_OPERATOR;
  built->request.inputs = built->inputs;
  built->request.outputs = built->outputs;
  built->request.attributes = built->values;
  built->request.variant = options->variant;
  return QUIRE_OK;
}

void quire_request_release(quire_case_request *built) {
  json_decref(built->attributes);
  json_decref(built->dtypes);
  free(built->inputs);
  free(built->outputs);
  free(built->values);
  *built = (quire_case_request){0};
}
