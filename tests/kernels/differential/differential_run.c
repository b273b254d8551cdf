#include "differential_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend.h"

enum { MOST_THREADS = 8, CANARY = 0x5A };

/* ---- threads of our own: items in whatever order they take them ---- */

typedef struct team {
  quire_task_function *task;
  void *user;
  size_t count;
  atomic_size_t next;
} team;

static void *work(void *user) {
  team *of = user;
  for (size_t i = atomic_fetch_add(&of->next, 1); i < of->count;
       i = atomic_fetch_add(&of->next, 1)) {
    of->task(of->user, of->count - 1 - i); /* backwards: no order may matter */
  }
  return NULL;
}

static void run_parallel(void *user, quire_task_function *task, void *task_user, size_t count) {
  const size_t threads = *(const size_t *)user;
  pthread_t handles[MOST_THREADS];
  size_t started = 0;
  team of = {.task = task, .user = task_user, .count = count};
  atomic_init(&of.next, 0);
  while (started + 1 < threads && started + 1 < count &&
         pthread_create(&handles[started], NULL, work, &of) == 0) {
    started += 1;
  }
  (void)work(&of);
  for (size_t i = 0; i < started; ++i) {
    (void)pthread_join(handles[i], NULL);
  }
}

/* ---- a workspace that ends where a forbidden page begins ---- */

typedef struct scratch {
  unsigned char *mapping, *memory;
  size_t mapped, bytes, before;
} scratch;

static void scratch_open(scratch *one, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  one->bytes = (bytes + 63) / 64 * 64;
  const size_t whole = (one->bytes + page - 1) / page * page + page;
  one->mapped = whole + page;
  void *memory =
      mmap(NULL, one->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect((char *)memory + whole, page, PROT_NONE) != 0) {
    fail_msg("no workspace of %zu bytes", bytes);
  }
  one->mapping = memory;
  one->before = whole - one->bytes;
  one->memory = one->mapping + one->before;
  memset(one->mapping, CANARY, one->before);
  memset(one->memory, 0xff, one->bytes); /* NaN: nothing may count on zeros */
}

static void scratch_close(scratch *one, const diff_call *call) {
  for (size_t i = 0; i < one->before; ++i) {
    if (one->mapping[i] != CANARY) {
      fail_msg("%s: memory before the workspace was written", call->text);
    }
  }
  (void)munmap(one->mapping, one->mapped);
}

/* ---- planning ---- */

typedef struct request_memory {
  quire_request_tensor inputs[DIFF_MOST_TENSORS], outputs[DIFF_MOST_TENSORS];
  quire_request request;
} request_memory;

static void build_request(const diff_call *call, request_memory *memory) {
  quire_request_init(&memory->request);
  quire_request *request = &memory->request;
  for (int i = 0; i < call->tensor_count; ++i) {
    const diff_tensor *one = &call->tensors[i];
    const quire_request_tensor asked = {.name = one->name,
                                        .dtype = one->tensor.dtype,
                                        .ndim = one->tensor.ndim,
                                        .shape = one->shape,
                                        .strides = one->tensor.strides ? one->strides : NULL,
                                        .alias = one->alias};
    if (one->is_output) {
      memory->outputs[request->output_count++] = asked;
    } else {
      memory->inputs[request->input_count++] = asked;
    }
  }
  request->inputs = memory->inputs;
  request->outputs = memory->outputs;
  request->attributes = call->attributes;
  request->attribute_count = (size_t)call->attribute_count;
}

static void note_kernel(diff_kernels *kernels, const char *name) {
  for (size_t i = 0; i < kernels->count; ++i) {
    if (!strcmp(kernels->names[i], name)) {
      return;
    }
  }
  assert_true(kernels->count < DIFF_MOST_KERNELS);
  kernels->names[kernels->count++] = name;
}

/* True if the plan uses the subject. */
static bool uses(const quire_plan *plan, const diff_subject *subject, diff_kernels *kernels) {
  const quire_plan_description *description = &plan->description;
  const quire_manifest_variant *variant = &description->manifest->variants[description->variant];
  bool found = subject->real == NULL;
  for (size_t i = 0; i < variant->pass_count; ++i) {
    const quire_implementation *one = description->passes[i].implementation;
    if (one && kernels) {
      note_kernel(kernels, one->kernel);
    }
    found = found || (one && !strcmp(one->name, subject->real->name));
  }
  return found;
}

static void execute(quire_plan *plan, const quire_operator *op, const diff_subject *subject,
                    diff_call *call, size_t threads) {
  quire_tensor tensors[2 * DIFF_MOST_TENSORS] = {{0}};
  quire_workspace_need need;
  quire_workspace_options options;
  quire_workspace *workspace = NULL;
  quire_run_options run;
  quire_error error = {0};
  scratch memory;
  for (int i = 0; i < call->tensor_count; ++i) {
    const diff_tensor *one = &call->tensors[i];
    const int32_t slot = quire_operator_find_slot(op, one->name, one->is_output);
    assert_true(slot >= 0 && slot < 2 * DIFF_MOST_TENSORS);
    tensors[slot] = one->tensor;
  }
  quire_plan_workspace(plan, &need);
  scratch_open(&memory, need.bytes);
  quire_workspace_options_init(&options);
  options.memory = memory.memory;
  options.bytes = memory.bytes;
  if (quire_workspace_create(subject->device, need.bytes ? &options : NULL, &workspace, &error) !=
      QUIRE_OK) {
    fail_msg("%s: workspace: %s", call->text, error.message);
  }
  const quire_executor executor = {run_parallel, &threads, threads};
  quire_run_options_init(&run);
  run.executor = &executor;
  run.flags = call->flags;
  const quire_status status =
      quire_plan_run(plan, tensors, quire_operator_slot_count(op), workspace, &run, &error);
  if (status != QUIRE_OK) {
    fail_msg("%s: %s %s: %s", call->text, quire_status_name(status), error.rule, error.message);
  }
  quire_workspace_release(workspace);
  scratch_close(&memory, call);
}

bool diff_run(diff_subject *subject, diff_call *call, size_t threads, diff_kernels *kernels) {
  request_memory memory = {0};
  quire_error error = {0};
  quire_plan *plan = NULL;
  build_request(call, &memory);
  const quire_operator *op = quire_context_find_operator(subject->context, call->op);
  if (!op) {
    fail_msg("no operator %s", call->op);
    return false;
  }
  diff_subject_begin(subject);
  if (quire_plan_create(subject->device, op, &memory.request, &plan, &error) != QUIRE_OK) {
    fail_msg("%s: %s %s: %s", call->text, quire_status_name(error.status), error.rule,
             error.message);
    return false;
  }
  const bool is_used = uses(plan, subject, kernels);
  if (is_used) {
    diff_restore(call);
    execute(plan, op, subject, call, threads);
    diff_subject_end(subject);
  }
  quire_plan_release(plan);
  return is_used;
}
