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

/* ---- memory of a device ---- */

static int is_host(const quire_device *device) {
  return !strcmp(quire_device_describe(device)->backend, "cpu");
}

/* The plan's device must store a tensor as files do. */
static quire_status check_storage(const quire_call *call, size_t slot, const char *name,
                                  uint64_t bytes, quire_error *error) {
  const uint64_t stored = quire_plan_slot_bytes(call->plan, slot);
  if (stored - bytes > 3 && stored != 0) {
    return quire_failure_set(error, QUIRE_UNSUPPORTED,
                             "%s: the device stores %llu bytes for its %llu", name,
                             (unsigned long long)stored, (unsigned long long)bytes);
  }
  return QUIRE_OK;
}

static quire_status upload_input(quire_call *call, size_t slot, const char *name, size_t bytes,
                                 quire_tensor *tensor, quire_error *error) {
  if (is_host(call->device) || quire_plan_slot_bytes(call->plan, slot) == 0) {
    return QUIRE_OK;
  }
  quire_status status = check_storage(call, slot, name, bytes, error);
  if (status == QUIRE_OK) {
    status = quire_buffer_create(call->device, bytes, &call->inputs[slot], error);
  }
  if (status == QUIRE_OK) {
    status = quire_buffer_write(call->device, call->inputs[slot], 0, tensor->data, bytes, error);
  }
  tensor->data = call->inputs[slot];
  return status;
}

/* The whole of an output with its guards; its elements then begin GUARD_BYTES into the buffer. */
static quire_status upload_output(quire_call *call, size_t slot, quire_call_output *output,
                                  quire_tensor *tensor, quire_error *error) {
  if (is_host(call->device)) {
    return QUIRE_OK;
  }
  tensor->data = NULL;
  if (quire_plan_slot_bytes(call->plan, slot) == 0) {
    return QUIRE_OK;
  }
  const uint64_t bytes = (uint64_t)output->bytes + GUARD_BYTES + GUARD_BYTES;
  quire_status status = check_storage(call, slot, output->name, output->bytes, error);
  if (status == QUIRE_OK) {
    status = quire_buffer_create(call->device, bytes, &output->buffer, error);
  }
  if (status == QUIRE_OK) {
    status = quire_buffer_write(call->device, output->buffer, 0,
                                (unsigned char *)output->data - GUARD_BYTES, bytes, error);
  }
  tensor->data = output->buffer;
  tensor->byte_offset = GUARD_BYTES;
  return status;
}

static quire_status read_back(quire_call *call, quire_error *error) {
  for (size_t i = 0; i < call->output_count; ++i) {
    quire_call_output *output = &call->outputs[i];
    if (!output->buffer) {
      continue;
    }
    const quire_status status = quire_buffer_read(
        call->device, output->buffer, 0, (unsigned char *)output->data - GUARD_BYTES,
        (uint64_t)output->bytes + GUARD_BYTES + GUARD_BYTES, error);
    if (status != QUIRE_OK) {
      return status;
    }
    /* Devices write whole words: what fills up the last one belongs to the tensor. */
    memset((unsigned char *)output->data + output->bytes, GUARD_PATTERN,
           (4 - output->bytes % 4) % 4);
  }
  return QUIRE_OK;
}

/* ---- guards ---- */

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
    if (!tensor) {
      return QUIRE_OK;
    }
    /* Inputs are only read: in-place tensors are bound to outputs of their own. */
    call->tensors[index] = (quire_tensor){.data = (void *)(uintptr_t)tensor->data,
                                          .dtype = tensor->dtype,
                                          .ndim = tensor->ndim,
                                          .shape = tensor->shape};
    return upload_input(call, index, slot.name, tensor->bytes, &call->tensors[index], error);
  }
  if (form.dtype == QUIRE_DTYPE_NONE) {
    return QUIRE_OK;
  }
  quire_call_output *output = &call->outputs[call->output_count++];
  quire_status status = make_output(&slot, &form, output, error);
  form.data = output->data;
  form.byte_offset = 0;
  form.strides = NULL;
  if (status == QUIRE_OK) {
    status = upload_output(call, index, output, &form, error);
  }
  call->tensors[index] = form;
  return status;
}

static quire_status bind_all(const quire_operator *op, const quire_case *opened, quire_call *call,
                             quire_error *error) {
  const size_t count = quire_operator_slot_count(op);
  call->tensors = calloc(count + 1, sizeof *call->tensors);
  call->outputs = calloc(count + 1, sizeof *call->outputs);
  call->inputs = calloc(count + 1, sizeof *call->inputs);
  if (!call->tensors || !call->outputs || !call->inputs) {
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
  *call = (quire_call){.device = session->device};
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
    quire_error lost;
    const quire_status back = read_back(call, status == QUIRE_OK ? error : &lost);
    status = status == QUIRE_OK ? back : status;
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
    quire_buffer_destroy(call->device, call->outputs[i].buffer);
  }
  for (size_t i = 0; call->inputs && i < call->tensor_count; ++i) {
    quire_buffer_destroy(call->device, call->inputs[i]);
  }
  free(call->inputs);
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
