/* Operators as the public interface shows them: names, slots and attributes of a manifest. */
#include <string.h>

#include "alloc.h"
#include "context_object.h"
#include "error.h"
#include "operator_package.h"

static quire_status check_text(const quire_context *context, const char *text, size_t length,
                               quire_error *error) {
  if (context == NULL || (text == NULL && length != 0)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, context == NULL ? "context" : "text",
                      "is NULL");
  }
  return QUIRE_OK;
}

quire_status quire_operator_load_package(quire_context *context, const char *text, size_t length,
                                         const quire_package_options *options, quire_operator **op,
                                         quire_error *error) {
  if (op == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "op", "is NULL");
  }
  *op = NULL;
  QUIRE_TRY(check_text(context, text, length, error));
  quire_operator *made = quire_alloc_array(&context->allocator, 1, sizeof *made);
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  quire_status status =
      quire_manifest_load(&context->allocator, text, length, NULL, NULL, &made->manifest, error);
  if (status == QUIRE_OK) {
    status = quire_registry_check(&context->registry, made->manifest, error);
  }
  if (status == QUIRE_OK && options != NULL) {
    status = quire_package_read(options, made->manifest, &made->templates, error);
  }
  if (status != QUIRE_OK) {
    if (made->manifest != NULL) {
      quire_manifest_destroy(made->manifest);
    }
    quire_dealloc(&context->allocator, made, sizeof *made, QUIRE_ALLOC_ALIGNMENT);
    return status;
  }
  atomic_init(&made->references, 1);
  made->owner = &context->owner;
  context->owner.retain(&context->owner);
  *op = made;
  return QUIRE_OK;
}

quire_status quire_operator_load(quire_context *context, const char *text, size_t length,
                                 quire_operator **op, quire_error *error) {
  return quire_operator_load_package(context, text, length, NULL, op, error);
}

quire_status quire_operator_lint(quire_context *context, const char *text, size_t length,
                                 quire_finding_function *report, void *user, quire_error *error) {
  return quire_operator_lint_package(context, text, length, NULL, report, user, error);
}

quire_status quire_operator_lint_package(quire_context *context, const char *text, size_t length,
                                         const quire_package_options *options,
                                         quire_finding_function *report, void *user,
                                         quire_error *error) {
  QUIRE_TRY(check_text(context, text, length, error));
  quire_manifest *manifest = NULL;
  QUIRE_TRY(quire_manifest_load(&context->allocator, text, length, report, user, &manifest, error));
  quire_error fault;
  quire_status status = quire_registry_check(&context->registry, manifest, &fault);
  if (status != QUIRE_OK) {
    if (report != NULL) {
      quire_finding finding = {QUIRE_SEVERITY_ERROR, fault.subject, 0, fault.message};
      report(user, &finding);
    }
    if (error != NULL) {
      *error = fault;
    }
  } else if (options != NULL) {
    status = quire_package_lint(options, manifest, text, length, report, user, error);
  }
  quire_manifest_destroy(manifest);
  return status;
}

void quire_operator_retain(const quire_operator *op) {
  atomic_fetch_add_explicit(&((quire_operator *)op)->references, 1, memory_order_relaxed);
}

void quire_operator_release(quire_operator *op) {
  /* A built-in one belongs to its context, whatever the caller thinks. */
  if (op == NULL || op->built_in ||
      atomic_fetch_sub_explicit(&op->references, 1, memory_order_acq_rel) != 1) {
    return;
  }
  quire_owner *owner = op->owner;
  quire_manifest_destroy(op->manifest);
  quire_dealloc(owner->allocator, op, sizeof *op, QUIRE_ALLOC_ALIGNMENT);
  owner->release(owner);
}

const char *quire_operator_name(const quire_operator *op) {
  return op == NULL ? "" : op->manifest->qualified;
}

int64_t quire_operator_since_version(const quire_operator *op) {
  return op == NULL ? 0 : op->manifest->since_version;
}

size_t quire_operator_variant_count(const quire_operator *op) {
  return op == NULL ? 0 : op->manifest->variant_count;
}

const char *quire_operator_variant_name(const quire_operator *op, size_t index) {
  return index < quire_operator_variant_count(op) ? op->manifest->variants[index].id : NULL;
}

const char *quire_operator_variant_backend(const quire_operator *op, size_t index) {
  return index < quire_operator_variant_count(op) ? op->manifest->variants[index].backend : NULL;
}

size_t quire_operator_slot_count(const quire_operator *op) {
  return op == NULL ? 0 : op->manifest->input_count + op->manifest->output_count;
}

quire_status quire_operator_slot(const quire_operator *op, size_t index, quire_slot *slot) {
  if (slot == NULL || index >= quire_operator_slot_count(op)) {
    return QUIRE_BAD_REQUEST;
  }
  const quire_manifest *manifest = op->manifest;
  bool output = index >= manifest->input_count;
  const quire_manifest_tensor *tensor =
      output ? &manifest->outputs[index - manifest->input_count] : &manifest->inputs[index];
  /* An in-place tensor's output side may always be left out: then the input's buffer is written. */
  int32_t input = manifest->keys[tensor->key_index].input;
  slot->name = tensor->onnx;
  slot->key = tensor->key;
  slot->is_output = output;
  slot->alias = output ? input : -1;
  slot->is_optional = tensor->optional || tensor->optional_when != NULL || slot->alias >= 0;
  return QUIRE_OK;
}

int32_t quire_operator_find_slot(const quire_operator *op, const char *name, int is_output) {
  if (op == NULL || name == NULL) {
    return -1;
  }
  if (!is_output) {
    return quire_manifest_find_input(op->manifest, name);
  }
  int32_t output = quire_manifest_find_output(op->manifest, name);
  return output < 0 ? -1 : (int32_t)op->manifest->input_count + output;
}

size_t quire_operator_attribute_count(const quire_operator *op) {
  return op == NULL ? 0 : op->manifest->attribute_count;
}

static void set_value(quire_named_value *out, const quire_value *value, quire_value_type kind) {
  switch (value->kind) {
    case QUIRE_VALUE_INTEGER:
      /* The manifest's numbers lose a point with nothing behind it: 0.0 is read as 0. */
      out->type = kind == QUIRE_VALUE_TYPE_FLOAT ? QUIRE_VALUE_TYPE_FLOAT : QUIRE_VALUE_TYPE_INT;
      out->i = value->as.integer;
      out->f = (double)value->as.integer;
      break;
    case QUIRE_VALUE_DOUBLE:
      out->type = QUIRE_VALUE_TYPE_FLOAT;
      out->f = value->as.number;
      break;
    case QUIRE_VALUE_BOOLEAN:
      out->type = QUIRE_VALUE_TYPE_BOOL;
      out->i = value->as.boolean;
      break;
    case QUIRE_VALUE_STRING:
      out->type = QUIRE_VALUE_TYPE_STRING;
      out->s = value->as.string;
      break;
    default:
      break;
  }
}

quire_status quire_operator_attribute(const quire_operator *op, size_t index,
                                      quire_named_value *attribute, quire_value_type *type) {
  if (attribute == NULL || index >= quire_operator_attribute_count(op)) {
    return QUIRE_BAD_REQUEST;
  }
  const quire_manifest_attribute *declared = &op->manifest->attributes[index];
  memset(attribute, 0, sizeof *attribute);
  attribute->name = declared->name;
  set_value(attribute, &declared->default_value, declared->type);
  if (type != NULL) {
    *type = declared->type;
  }
  return QUIRE_OK;
}

size_t quire_operator_tunable_count(const quire_operator *op) {
  return op == NULL ? 0 : op->manifest->tunable_count;
}

quire_status quire_operator_tunable(const quire_operator *op, size_t index,
                                    quire_named_value *tunable, size_t *choice_count) {
  if (tunable == NULL || choice_count == NULL || index >= quire_operator_tunable_count(op)) {
    return QUIRE_BAD_REQUEST;
  }
  const quire_manifest_tunable *declared = &op->manifest->tunables[index];
  *tunable = (quire_named_value){.name = declared->name};
  set_value(tunable, &declared->value, QUIRE_VALUE_TYPE_NONE);
  *choice_count = declared->choice_count;
  return QUIRE_OK;
}

quire_status quire_operator_tunable_choice(const quire_operator *op, size_t index, size_t choice,
                                           quire_named_value *value) {
  if (value == NULL || index >= quire_operator_tunable_count(op) ||
      choice >= op->manifest->tunables[index].choice_count) {
    return QUIRE_BAD_REQUEST;
  }
  const quire_manifest_tunable *declared = &op->manifest->tunables[index];
  *value = (quire_named_value){.name = declared->name};
  set_value(value, &declared->choices[choice], QUIRE_VALUE_TYPE_NONE);
  return QUIRE_OK;
}
