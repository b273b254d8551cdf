#include "ort_claim.h"

#include <stdlib.h>
#include <string.h>

/* A cache that a node may update in place. */
typedef struct cache {
  const quire_ort_runtime *runtime;
  const quire_ort_label *label;
  const quire_ort_kind *kind;
  const char *name; /* of the input */
  const OrtValueInfo *value;
} cache;

/* Other readers may run before or after the update, as the runtime likes: only nodes that keep
   caches themselves can be meant to share one. */
static OrtStatus *check_reader(const cache *c, const OrtNode *reader) {
  const OrtApi *api = c->runtime->api;
  const char *type = NULL;
  const char *domain = NULL;
  const char *name = NULL;
  if (reader == NULL) {
    return NULL;
  }
  QUIRE_ORT_TRY(api->Node_GetOperatorType(reader, &type));
  QUIRE_ORT_TRY(api->Node_GetDomain(reader, &domain));
  QUIRE_ORT_TRY(api->Node_GetName(reader, &name));
  if (strcmp(type, c->kind->type) == 0 && strcmp(domain, c->kind->domain) == 0) {
    return NULL;
  }
  return quire_ort_refuse(c->runtime, c->label, ORT_INVALID_ARGUMENT,
                          "%s: is updated in place, since the node has no output for it, and %s "
                          "node \"%.256s\" reads it too: give the node its cache outputs",
                          c->name, type, name);
}

static OrtStatus *check_readers_in(const cache *c, const OrtNode **readers, int64_t *positions,
                                   size_t count) {
  QUIRE_ORT_TRY(c->runtime->api->ValueInfo_GetValueConsumers(c->value, readers, positions, count));
  for (size_t i = 0; i < count; i++) {
    QUIRE_ORT_TRY(check_reader(c, readers[i]));
  }
  return NULL;
}

static OrtStatus *check_readers(const cache *c) {
  size_t count = 0;
  QUIRE_ORT_TRY(c->runtime->api->ValueInfo_GetValueNumConsumers(c->value, &count));
  const OrtNode **readers = calloc(count + 1, sizeof *readers);
  int64_t *positions = calloc(count + 1, sizeof *positions);
  OrtStatus *status = readers != NULL && positions != NULL
                          ? check_readers_in(c, readers, positions, count)
                          : quire_ort_refuse(c->runtime, c->label, ORT_FAIL,
                                             "no memory for %zu readers of %s", count, c->name);
  free(readers);
  free(positions);
  return status;
}

/* An initializer is the model itself: a run must not change the next one. */
static OrtStatus *check_cache(const cache *c) {
  bool constant = false;
  QUIRE_ORT_TRY(c->runtime->api->ValueInfo_IsConstantInitializer(c->value, &constant));
  if (constant) {
    return quire_ort_refuse(c->runtime, c->label, ORT_INVALID_ARGUMENT,
                            "%s: is a constant initializer and would be updated in place, since "
                            "the node has no output for it: give the node its cache outputs",
                            c->name);
  }
  return check_readers(c);
}

/* True if the runtime will drop an output: then the input's buffer is all there is. */
static OrtStatus *is_dropped(const quire_ort_runtime *runtime, const OrtValueInfo *output,
                             bool *dropped) {
  size_t readers = 0;
  bool taken = false;
  *dropped = output == NULL;
  if (output != NULL) {
    QUIRE_ORT_TRY(runtime->api->ValueInfo_GetValueNumConsumers(output, &readers));
    QUIRE_ORT_TRY(runtime->api->ValueInfo_IsGraphOutput(output, &taken));
    *dropped = readers == 0 && !taken;
  }
  return NULL;
}

static OrtStatus *check_caches(const quire_ort_runtime *runtime, const quire_ort_label *label,
                               const quire_ort_binding *binding, const quire_ort_values *values) {
  for (size_t i = 0; i < binding->output_count; i++) {
    quire_slot facts;
    bool dropped = false;
    if (!binding->in_place[i] ||
        quire_operator_slot(binding->op, (size_t)binding->output_slots[i], &facts) != QUIRE_OK) {
      continue;
    }
    QUIRE_ORT_TRY(is_dropped(runtime, values->outputs[i], &dropped));
    for (size_t k = 0; dropped && k < binding->input_count; k++) {
      if (binding->input_slots[k] == facts.alias && values->inputs[k] != NULL) {
        const cache c = {runtime, label, binding->kind, binding->kind->inputs[k],
                         values->inputs[k]};
        QUIRE_ORT_TRY(check_cache(&c));
      }
    }
  }
  return NULL;
}

OrtStatus *quire_ort_claim_check(const quire_ort_runtime *runtime, const quire_ort_label *label,
                                 const quire_ort_binding *binding, const OrtNode *node,
                                 quire_device *device, quire_ort_form *form) {
  quire_ort_values values;
  memset(form, 0, sizeof *form);
  form->binding = binding;
  QUIRE_ORT_TRY(quire_ort_read_values(runtime, label, binding, node, &values));
  QUIRE_ORT_TRY(quire_ort_form_read(runtime, label, binding, node, &values, form));
  QUIRE_ORT_TRY(quire_ort_form_check(runtime, label, form, &values, device));
  return check_caches(runtime, label, binding, &values);
}

bool quire_ort_claim_has_fallback(const quire_ort_form *form) {
  switch (form->binding->kind->fallback) {
    case QUIRE_ORT_FALLBACK_ALWAYS:
      return true;
    case QUIRE_ORT_FALLBACK_FLOAT32:
      for (size_t i = 0; i < form->attribute_count; i++) {
        if (strcmp(form->attributes[i].name, "state_window") == 0 && form->attributes[i].i > 0) {
          return false;
        }
      }
      return form->inputs[0] == QUIRE_FLOAT32;
    default:
      return false;
  }
}
