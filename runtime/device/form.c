#include "form.h"

#include <string.h>

#include "checked.h"
#include "error.h"
#include "planning.h"

bool quire_form_measure(quire_form *form) {
  int64_t size = (int64_t)quire_dtype_size(form->dtype);
  int64_t bytes = 0;
  form->elements = form->low = form->high = 0;
  if (!quire_count_elements(form->shape, (size_t)form->ndim, &form->elements) ||
      !quire_mul_i64(form->elements, size, &bytes)) {
    return false;
  }
  if (form->elements == 0) {
    return true;
  }
  form->high = size;
  for (int32_t i = 0; i < form->ndim; i++) {
    int64_t reach = 0;
    int64_t *end = form->strides[i] < 0 ? &form->low : &form->high;
    if (!quire_mul_i64(form->shape[i] - 1, form->strides[i], &reach) ||
        !quire_mul_i64(reach, size, &reach) || !quire_add_i64(*end, reach, end)) {
      return false;
    }
  }
  return quire_sub_i64(form->high, form->low, &bytes);
}

static uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

bool quire_form_folds(const quire_form *form) {
  if (form->elements <= 1) {
    return false;
  }
  /* Axes by ascending stride: each must step over all that the smaller ones reach. */
  int32_t order[QUIRE_MAX_RANK];
  int32_t count = 0;
  for (int32_t i = 0; i < form->ndim; i++) {
    if (form->shape[i] == 1) {
      continue;
    }
    int32_t at = count++;
    for (; at > 0 && magnitude(form->strides[order[at - 1]]) > magnitude(form->strides[i]); at--) {
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
  uint64_t extent = 1;
  for (int32_t k = 0; k < count; k++) {
    uint64_t stride = magnitude(form->strides[order[k]]);
    if (stride < extent) {
      return true;
    }
    extent += stride * (uint64_t)(form->shape[order[k]] - 1);
  }
  return false;
}

/* Axis of the largest stride among those with more than one element, or -1. */
static int32_t outermost(const quire_form *form) {
  int32_t best = -1;
  for (int32_t i = 0; i < form->ndim; i++) {
    if (form->shape[i] > 1 &&
        (best < 0 || magnitude(form->strides[i]) > magnitude(form->strides[best]))) {
      best = i;
    }
  }
  return best;
}

/*
 * Both repeat with one period: a uses bytes [0, length_a) of it, b [distance, distance + length_b).
 * Disjoint if neither reaches into the other nor past the period.
 */
static bool interleave(const quire_form *a, uintptr_t address_a, const quire_form *b,
                       uintptr_t address_b) {
  int32_t axis_a = outermost(a);
  int32_t axis_b = outermost(b);
  if (axis_a < 0 || axis_b < 0 || a->strides[axis_a] <= 0) {
    return false;
  }
  uint64_t period = (uint64_t)a->strides[axis_a] * quire_dtype_size(a->dtype);
  uint64_t period_b = (uint64_t)b->strides[axis_b] * quire_dtype_size(b->dtype);
  if (b->strides[axis_b] <= 0 || period != period_b) {
    return false;
  }
  uint64_t length_a = (uint64_t)(a->high - a->low) - period * (uint64_t)(a->shape[axis_a] - 1);
  uint64_t length_b = (uint64_t)(b->high - b->low) - period * (uint64_t)(b->shape[axis_b] - 1);
  uint64_t first_a = (uint64_t)address_a + (uint64_t)a->low;
  uint64_t first_b = (uint64_t)address_b + (uint64_t)b->low;
  uint64_t distance = first_b >= first_a ? (first_b - first_a) % period
                                         : (period - (first_a - first_b) % period) % period;
  return distance >= length_a && length_b <= period && distance <= period - length_b;
}

bool quire_forms_overlap(const quire_form *a, uintptr_t address_a, const quire_form *b,
                         uintptr_t address_b) {
  if (a->elements == 0 || b->elements == 0) {
    return false;
  }
  /* Unsigned sums wrap exactly; the caller has seen that the ranges themselves do not. */
  uintptr_t first_a = address_a + (uintptr_t)a->low;
  uintptr_t end_a = address_a + (uintptr_t)a->high;
  uintptr_t first_b = address_b + (uintptr_t)b->low;
  uintptr_t end_b = address_b + (uintptr_t)b->high;
  if (end_a <= first_b || end_b <= first_a) {
    return false;
  }
  return !interleave(a, address_a, b, address_b);
}

bool quire_forms_equal(const quire_form *a, const quire_form *b) {
  if (a->dtype != b->dtype || a->ndim != b->ndim) {
    return false;
  }
  for (int32_t i = 0; i < a->ndim; i++) {
    if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->strides[i] != b->strides[i])) {
      return false;
    }
  }
  return true;
}

/* ---- building ---- */

static void copy_tensor(quire_form *form, const quire_plan_tensor *tensor) {
  form->dtype = tensor->dtype;
  form->ndim = tensor->ndim;
  memcpy(form->shape, tensor->shape, sizeof(form->shape));
  memcpy(form->strides, tensor->strides, sizeof(form->strides));
  form->dense = tensor->dense;
}

static void fill_input(quire_form *form, const quire_plan *plan, size_t index) {
  const quire_manifest *manifest = plan->description.manifest;
  const quire_manifest_tensor *side = &manifest->inputs[index];
  const quire_manifest_key *key = &manifest->keys[side->key_index];
  form->name = side->onnx;
  form->present = plan->description.inputs[index].present;
  form->pair = key->output < 0 ? -1 : (int32_t)manifest->input_count + key->output;
  form->alias = -1;
  if (form->present) {
    copy_tensor(form, &plan->description.inputs[index]);
  }
}

static void fill_output(quire_form *form, const quire_plan *plan, size_t index) {
  const quire_manifest *manifest = plan->description.manifest;
  const quire_manifest_tensor *side = &manifest->outputs[index];
  const quire_plan_tensor *tensor = &plan->description.outputs[index];
  const quire_manifest_key *key = &manifest->keys[side->key_index];
  form->name = side->onnx;
  form->is_output = true;
  form->present = tensor->present;
  form->pair = key->input;
  form->alias = -1;
  if (!form->present) {
    return;
  }
  /* An in-place tensor that the request did not list on its output side keeps the input's strides.
   */
  bool like_input = key->input >= 0 && !tensor->given;
  copy_tensor(form, like_input ? &plan->description.inputs[key->input] : tensor);
  if (key->input < 0 && tensor->alias >= 0) {
    form->alias = manifest->keys[tensor->alias].input;
  }
}

/* Bytes of a dense tensor in a buffer of the device, which is no host memory. */
static bool measure_buffer(quire_form *form, const quire_plan *plan, size_t slot) {
  const quire_manifest *manifest = plan->description.manifest;
  const quire_manifest_tensor *side = slot < manifest->input_count
                                          ? &manifest->inputs[slot]
                                          : &manifest->outputs[slot - manifest->input_count];
  const int32_t input = manifest->keys[side->key_index].input;
  side = input >= 0 ? &manifest->inputs[input] : side; /* says how the tensor is stored */
  int64_t bytes = 0;
  if (!quire_wgsl_bytes(side->storage != QUIRE_DTYPE_NONE ? side->storage : form->dtype,
                        side->packed8, form->elements, &bytes) ||
      !quire_add_i64(bytes, 3, &bytes)) {
    return false;
  }
  form->low = 0;
  form->high = bytes / 4 * 4;
  return true;
}

static bool measure(quire_form *form, const quire_plan *plan, size_t slot) {
  return quire_form_measure(form) &&
         (plan->device->backend->host_memory || measure_buffer(form, plan, slot));
}

static bool is_integer(quire_dtype dtype) {
  return dtype >= QUIRE_INT8 && dtype <= QUIRE_BOOL;
}

/* Marks the inputs that the schedule pass reads: integers that are not updated in place. */
static void mark_scheduled(quire_form *forms, const quire_plan *plan) {
  const quire_manifest *manifest = plan->description.manifest;
  const quire_manifest_pass *pass = plan->description.passes[0].manifest;
  if (!pass->schedule) {
    return;
  }
  for (size_t i = 0; i < pass->binding_count; i++) {
    const quire_manifest_binding *binding = &pass->bindings[i];
    if (binding->kind != QUIRE_BINDING_ARG) {
      continue;
    }
    int32_t input = manifest->keys[binding->source].input;
    if (input >= 0 && forms[input].present && forms[input].pair < 0) {
      forms[input].scheduled = is_integer(forms[input].dtype);
    }
  }
}

static quire_status check_form(const quire_form *form, const quire_plan *plan, quire_error *error) {
  bool written = form->is_output || form->pair >= 0;
  if (written && quire_form_folds(form)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "its strides put several elements at one place, and it is written");
  }
  if (form->alias >= 0 && !plan->forms[form->alias].present) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "is said to be the buffer of %s, which is absent",
                      plan->forms[form->alias].name);
  }
  return QUIRE_OK;
}

quire_status quire_forms_build(quire_plan *plan, quire_error *error) {
  const quire_manifest *manifest = plan->description.manifest;
  size_t count = manifest->input_count + manifest->output_count;
  quire_form *forms = quire_arena_array(&plan->arena, count, sizeof(*forms));
  if (forms == NULL) {
    return quire_fail_memory(error);
  }
  for (size_t i = 0; i < count; i++) {
    if (i < manifest->input_count) {
      fill_input(&forms[i], plan, i);
    } else {
      fill_output(&forms[i], plan, i - manifest->input_count);
    }
    if (forms[i].present && !measure(&forms[i], plan, i)) {
      return quire_fail(error, QUIRE_LIMIT, manifest->rules[QUIRE_RULE_LIMIT], forms[i].name,
                        "its bytes exceed 64 bits");
    }
  }
  mark_scheduled(forms, plan);
  plan->forms = forms;
  plan->slot_count = count;
  for (size_t i = 0; i < count; i++) {
    if (forms[i].present) {
      QUIRE_TRY(check_form(&forms[i], plan, error));
    }
  }
  return QUIRE_OK;
}

void quire_forms_mark_scheduled(quire_plan *plan, const quire_plan *other) {
  quire_form *forms = (quire_form *)plan->forms; /* of the arena, and not shared yet */
  for (size_t i = 0; i < plan->slot_count; i++) {
    forms[i].scheduled = forms[i].present && other->forms[i].scheduled;
  }
}
