#include "tensor_check.h"

#include <inttypes.h>

#include "error.h"
#include "form.h"

static bool is_host(const quire_plan *plan) {
  return plan->device->backend->host_memory;
}

/* Address of element (0, 0, ...) of a checked tensor; of a device, its place in the buffer. */
static uintptr_t address_of(const quire_plan *plan, const quire_tensor *tensor) {
  return (is_host(plan) ? (uintptr_t)tensor->data : 0) + (uintptr_t)tensor->byte_offset;
}

/* Host memory is one; buffers of a device are each for themselves. */
static bool is_one_memory(const quire_plan *plan, const quire_tensor *a, const quire_tensor *b) {
  return is_host(plan) || a->data == b->data;
}

bool quire_is_separate(const quire_plan *plan, const quire_tensor *tensors, size_t output) {
  const quire_form *form = &plan->forms[output];
  if (!form->present || form->pair < 0 || tensors[output].data == NULL || form->elements == 0) {
    return false;
  }
  /* Equal address with other strides is not "in place": the overlap check refuses it. */
  return !is_one_memory(plan, &tensors[output], &tensors[form->pair]) ||
         address_of(plan, &tensors[output]) != address_of(plan, &tensors[form->pair]) ||
         !quire_forms_equal(form, &plan->forms[form->pair]);
}

/* ---- form ---- */

static quire_status check_strides(const quire_form *form, const quire_tensor *tensor,
                                  quire_error *error) {
  int64_t dense = 1;
  for (int32_t i = form->ndim - 1; i >= 0; i--) {
    int64_t stride = tensor->strides == NULL ? dense : tensor->strides[i];
    if (form->shape[i] > 1 && stride != form->strides[i]) {
      return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                        "stride %" PRId32 " is %" PRId64 ", the plan has %" PRId64, i, stride,
                        form->strides[i]);
    }
    dense *= form->shape[i]; /* at most `elements`, none of which is 0 here */
  }
  return QUIRE_OK;
}

static quire_status check_form(const quire_form *form, const quire_tensor *tensor,
                               quire_error *error) {
  if (tensor->dtype != form->dtype) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name, "is %s, the plan has %s",
                      quire_dtype_name(tensor->dtype), quire_dtype_name(form->dtype));
  }
  if (tensor->ndim != form->ndim) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "has %" PRId32 " dimensions, the plan has %" PRId32, tensor->ndim,
                      form->ndim);
  }
  if (tensor->shape == NULL && form->ndim > 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name, "its shape is NULL");
  }
  for (int32_t i = 0; i < form->ndim; i++) {
    if (tensor->shape[i] != form->shape[i]) {
      return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                        "dim %" PRId32 " is %" PRId64 ", the plan has %" PRId64, i,
                        tensor->shape[i], form->shape[i]);
    }
  }
  return form->elements == 0 ? QUIRE_OK : check_strides(form, tensor, error);
}

/* ---- memory ---- */

static quire_status check_memory(const quire_plan *plan, const quire_form *form,
                                 const quire_tensor *tensor, quire_error *error) {
  if (form->elements == 0) {
    return QUIRE_OK;
  }
  if (tensor->data == NULL) {
    return quire_fail(error, QUIRE_BAD_PRESENCE,
                      plan->description.manifest->rules[QUIRE_RULE_PRESENCE], form->name,
                      "has %" PRId64 " elements, its data is NULL", form->elements);
  }
  if (!is_host(plan)) {
    return plan->device->backend->check_tensor(plan, (size_t)(form - plan->forms), tensor, error);
  }
  uintptr_t data = (uintptr_t)tensor->data;
  if (tensor->byte_offset > UINTPTR_MAX - data) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "byte_offset %" PRIu64 " leaves the address space", tensor->byte_offset);
  }
  uintptr_t address = address_of(plan, tensor);
  if (address % quire_dtype_size(form->dtype) != 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "its address is no multiple of the %zu bytes of %s",
                      quire_dtype_size(form->dtype), quire_dtype_name(form->dtype));
  }
  if ((uint64_t)form->high > UINTPTR_MAX - address || 0 - (uint64_t)form->low > address) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "its elements leave the address space");
  }
  return QUIRE_OK;
}

static quire_status check_count(const quire_plan *plan, const quire_tensor *tensors,
                                size_t tensor_count, quire_error *error) {
  if (tensors == NULL && tensor_count > 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "tensors", "is NULL");
  }
  if (tensor_count != plan->slot_count) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "tensors",
                      "there are %zu, the operator has %zu slots", tensor_count, plan->slot_count);
  }
  return QUIRE_OK;
}

/* ---- overlaps ---- */

/* What a slot means for the overlap check of one run. */
static bool is_buffer(const quire_plan *plan, const quire_tensor *tensors, size_t slot) {
  const quire_form *form = &plan->forms[slot];
  if (!form->present || form->elements == 0) {
    return false;
  }
  return !form->is_output || form->pair < 0 || quire_is_separate(plan, tensors, slot);
}

static bool is_written(const quire_plan *plan, const quire_tensor *tensors, size_t slot) {
  const quire_form *form = &plan->forms[slot];
  if (form->is_output) {
    return true;
  }
  return form->pair >= 0 && !quire_is_separate(plan, tensors, (size_t)form->pair);
}

static quire_status check_workspace(const quire_plan *plan, size_t slot, uintptr_t address,
                                    const quire_workspace *workspace, quire_error *error) {
  if (workspace->bytes == 0 || workspace->memory == NULL || !is_host(plan)) {
    return QUIRE_OK;
  }
  const quire_form *form = &plan->forms[slot];
  uintptr_t first = (uintptr_t)workspace->memory;
  uintptr_t end = first + workspace->bytes;
  if (address + (uintptr_t)form->high <= first || end <= address + (uintptr_t)form->low) {
    return QUIRE_OK;
  }
  return quire_fail(error, QUIRE_BAD_ALIAS, plan->description.manifest->rules[QUIRE_RULE_ALIAS],
                    form->name, "overlaps the workspace");
}

/* Refuses any buffer that shares memory with the written one in `slot`. */
static quire_status check_written(const quire_plan *plan, const quire_tensor *tensors, size_t slot,
                                  quire_error *error) {
  const quire_form *form = &plan->forms[slot];
  uintptr_t address = address_of(plan, &tensors[slot]);
  for (size_t other = 0; other < plan->slot_count; other++) {
    if (other == slot || !is_buffer(plan, tensors, other)) {
      continue;
    }
    const quire_form *other_form = &plan->forms[other];
    if (form->alias == (int32_t)other || other_form->alias == (int32_t)slot) {
      continue; /* one buffer: check_stated_alias has seen that it is */
    }
    if (is_one_memory(plan, &tensors[slot], &tensors[other]) &&
        quire_forms_overlap(form, address, other_form, address_of(plan, &tensors[other]))) {
      return quire_fail(error, QUIRE_BAD_ALIAS, plan->description.manifest->rules[QUIRE_RULE_ALIAS],
                        form->name, "is written and overlaps %s", other_form->name);
    }
  }
  return QUIRE_OK;
}

/* An output that the request said to be an input's buffer must be exactly that. */
static quire_status check_stated_alias(const quire_plan *plan, const quire_tensor *tensors,
                                       size_t slot, quire_error *error) {
  const quire_form *form = &plan->forms[slot];
  if (form->alias < 0) {
    return QUIRE_OK;
  }
  const quire_form *input = &plan->forms[form->alias];
  if (!is_one_memory(plan, &tensors[slot], &tensors[form->alias]) ||
      address_of(plan, &tensors[slot]) != address_of(plan, &tensors[form->alias]) ||
      !quire_forms_equal(form, input)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "is not the buffer of %s, and the plan was made for that", input->name);
  }
  return QUIRE_OK;
}

static quire_status check_overlaps(const quire_plan *plan, const quire_tensor *tensors,
                                   const quire_workspace *workspace, quire_error *error) {
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    if (!is_buffer(plan, tensors, slot)) {
      continue;
    }
    QUIRE_TRY(check_workspace(plan, slot, address_of(plan, &tensors[slot]), workspace, error));
    QUIRE_TRY(check_stated_alias(plan, tensors, slot, error));
    if (is_written(plan, tensors, slot)) {
      QUIRE_TRY(check_written(plan, tensors, slot, error));
    }
  }
  return QUIRE_OK;
}

/* In place, the input's strides hold: they must be those that the plan was made for. */
static quire_status check_left_empty(const quire_plan *plan, const quire_form *form,
                                     quire_error *error) {
  const quire_form *input = &plan->forms[form->pair];
  if (form->elements > 0 && !quire_forms_equal(form, input)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "is empty, and the plan was made for a buffer with other strides than %s",
                      input->name);
  }
  return QUIRE_OK;
}

/* ---- entry points ---- */

quire_status quire_check_run(const quire_plan *plan, const quire_tensor *tensors,
                             size_t tensor_count, const quire_workspace *workspace,
                             quire_error *error) {
  QUIRE_TRY(check_count(plan, tensors, tensor_count, error));
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    const quire_form *form = &plan->forms[slot];
    if (!form->present) {
      continue;
    }
    if (form->is_output && form->pair >= 0 && tensors[slot].data == NULL) {
      QUIRE_TRY(check_left_empty(plan, form, error));
      continue;
    }
    QUIRE_TRY(check_form(form, &tensors[slot], error));
    QUIRE_TRY(check_memory(plan, form, &tensors[slot], error));
  }
  QUIRE_TRY(check_overlaps(plan, tensors, workspace, error));
  return is_host(plan) ? QUIRE_OK : plan->device->backend->check_tensors(plan, tensors, error);
}

quire_status quire_check_prepare(const quire_plan *plan, const quire_tensor *tensors,
                                 size_t tensor_count, const quire_workspace *workspace,
                                 quire_error *error) {
  QUIRE_TRY(check_count(plan, tensors, tensor_count, error));
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    const quire_form *form = &plan->forms[slot];
    const quire_tensor *tensor = &tensors[slot];
    if (!form->present || (!form->scheduled && tensor->data == NULL)) {
      continue;
    }
    QUIRE_TRY(check_form(form, tensor, error));
    if (!form->scheduled) {
      continue;
    }
    QUIRE_TRY(check_memory(plan, form, tensor, error));
    if (form->elements > 0) {
      QUIRE_TRY(check_workspace(plan, slot, address_of(plan, tensor), workspace, error));
    }
  }
  return QUIRE_OK;
}
