#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"

enum { GUARD_BYTES = 256, GUARD_PATTERN = 0x5c, ALIGNMENT = 64 };

static quire_status make_output(const quire_slot *slot, const quire_tensor *form,
                                quire_call_output *output, quire_error *error) {
  *output = (quire_call_output){.name = slot->name, .form = *form};
  const quire_status status = quire_safetensors_bytes(slot->name, form->dtype, form->ndim,
                                                      form->shape, &output->bytes, error);
  if (status != QUIRE_OK) {
    return status;
  }
  const size_t total = output->bytes + GUARD_BYTES + GUARD_BYTES + ALIGNMENT;
  output->memory = malloc(total);
  if (!output->memory) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "%s: no memory for %zu bytes", slot->name,
                             output->bytes);
  }
  memset(output->memory, GUARD_PATTERN, total);
  const size_t past = (uintptr_t)(output->memory + GUARD_BYTES) % ALIGNMENT;
  output->data = output->memory + GUARD_BYTES + (past ? ALIGNMENT - past : 0);
  quire_compare_fill(form->dtype, output->data, output->bytes);
  return QUIRE_OK;
}

/* The elements end on no particular boundary: the guard begins with the very next byte. */
static quire_status check_guards(const quire_call *call, quire_error *error) {
  for (size_t i = 0; i < call->output_count; ++i) {
    const quire_call_output *output = &call->outputs[i];
    const unsigned char *data = output->data;
    for (size_t j = 0; data && j < GUARD_BYTES; ++j) {
      const int is_after = data[output->bytes + j] != GUARD_PATTERN;
      if (is_after || data[-1 - (ptrdiff_t)j] != GUARD_PATTERN) {
        return quire_failure_set(error, QUIRE_INTERNAL, "%s: the memory %s it was overwritten",
                                 output->name, is_after ? "after" : "before");
      }
    }
  }
  return QUIRE_OK;
}

static quire_status bind_slot(const quire_operator *op, const quire_case *opened, size_t index,
                              quire_call *call, quire_error *error) {
  quire_slot slot;
  quire_tensor form;
  if (quire_operator_slot(op, index, &slot) != QUIRE_OK ||
      quire_plan_slot(call->plan, index, &form) != QUIRE_OK) {
    return quire_failure_set(error, QUIRE_INTERNAL, "slot %zu cannot be read", index);
  }
  if (!slot.is_output) {
    const quire_stored_tensor *tensor = quire_safetensors_find(&opened->tensors, slot.name);
    if (tensor) {
      /* Inputs are only read: in-place tensors are bound to outputs of their own. */
      call->tensors[index] = (quire_tensor){.data = (void *)(uintptr_t)tensor->data,
                                            .dtype = tensor->dtype,
                                            .ndim = tensor->ndim,
                                            .shape = tensor->shape};
    }
    return QUIRE_OK;
  }
  if (form.dtype == QUIRE_DTYPE_NONE) {
    return QUIRE_OK;
  }
  quire_call_output *output = &call->outputs[call->output_count++];
  const quire_status status = make_output(&slot, &form, output, error);
  form.data = output->data;
  form.byte_offset = 0;
  form.strides = NULL;
  call->tensors[index] = form;
  return status;
}

static quire_status bind_all(const quire_operator *op, const quire_case *opened, quire_call *call,
                             quire_error *error) {
  const size_t count = quire_operator_slot_count(op);
  call->tensors = calloc(count + 1, sizeof *call->tensors);
  call->outputs = calloc(count + 1, sizeof *call->outputs);
  if (!call->tensors || !call->outputs) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for %zu tensors", count);
  }
  call->tensor_count = count;
  for (size_t i = 0; i < count; ++i) {
    const quire_status status = bind_slot(op, opened, i, call, error);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  return QUIRE_OK;
}

quire_status quire_call_execute(const quire_session *session, const quire_operator *op,
                                const quire_case *opened, const quire_call_options *options,
                                const quire_request *request, quire_call *call,
                                quire_error *error) {
  *call = (quire_call){0};
  quire_status status = quire_plan_create(session->device, op, request, &call->plan, error);
  if (status == QUIRE_OK) {
    status = bind_all(op, opened, call, error);
  }
  if (status == QUIRE_OK) {
    status = quire_workspace_create(session->device, NULL, &call->workspace, error);
  }
  if (status == QUIRE_OK) {
    quire_run_options run_options;
    quire_run_options_init(&run_options);
    run_options.flags = QUIRE_RUN_CHECK_VALUES | (options->is_strict ? QUIRE_RUN_STRICT : 0u);
    status = quire_plan_run(call->plan, call->tensors, call->tensor_count, call->workspace,
                            &run_options, error);
  }
  if (call->plan && call->workspace) {
    quire_error guard;
    if (check_guards(call, &guard) != QUIRE_OK) {
      *error = guard;
      status = guard.status;
    }
  }
  return status;
}

void quire_call_release(quire_call *call) {
  for (size_t i = 0; i < call->output_count; ++i) {
    free(call->outputs[i].memory);
  }
  free(call->outputs);
  free(call->tensors);
  quire_workspace_release(call->workspace);
  quire_plan_release(call->plan);
  *call = (quire_call){0};
}

const quire_call_output *quire_call_find(const quire_call *call, const char *name) {
  for (size_t i = 0; i < call->output_count; ++i) {
    if (!strcmp(call->outputs[i].name, name)) {
      return &call->outputs[i];
    }
  }
  return NULL;
}

const char *quire_call_touched(const quire_call *call) {
  for (size_t i = 0; i < call->output_count; ++i) {
    const quire_call_output *output = &call->outputs[i];
    if (output->data && !quire_compare_is_filled(output->form.dtype, output->data, output->bytes)) {
      return output->name;
    }
  }
  return NULL;
}
