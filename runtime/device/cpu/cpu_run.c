#include "cpu_run.h"

#include <string.h>

#include "cpu_device.h"
#include "cpu_plan.h"
#include "error.h"
#include "float_mode.h"
#include "red_zones.h"
#include "tensor_check.h"

/* ---- views ---- */

/* An in-place tensor with a buffer of its own on the output side: that one, in its strides. */
static void show_output(quire_view *view, const quire_form *form,
                        const quire_manifest_binding *binding) {
  for (int32_t i = 0; i < form->ndim; i++) {
    view->stride[i] = form->strides[binding->axis_count == 0 ? i : binding->axes[i]];
  }
}

static void *tensor_data(const quire_tensor *tensor) {
  return tensor->data == NULL ? NULL : (unsigned char *)tensor->data + tensor->byte_offset;
}

/* Fills the views of a pass that runs after the schedule pass. */
static void bind(const quire_plan *plan, const quire_cpu_pass *pass, const quire_tensor *tensors,
                 const quire_workspace *workspace, quire_view *views) {
  memcpy(views, pass->views, pass->view_count * sizeof(*views));
  for (size_t i = 0; i < pass->view_count; i++) {
    const quire_cpu_source *source = &pass->sources[i];
    if (source->scratch >= 0) {
      bool empty = plan->description.intermediates[source->scratch].elements == 0;
      views[i].data = empty ? NULL : workspace->memory + plan->offsets[source->scratch];
    } else if (source->input < 0 && source->output >= 0) {
      views[i].data = tensor_data(&tensors[source->output]);
    } else if (source->input >= 0 && source->output >= 0 &&
               quire_is_separate(plan, tensors, (size_t)source->output)) {
      views[i].data = tensor_data(&tensors[source->output]);
      show_output(&views[i], &plan->forms[source->output],
                  &pass->manifest->bindings[source->binding]);
    } else if (source->input >= 0) {
      views[i].data = tensor_data(&tensors[source->input]);
    }
  }
}

/* A schedule pass sees the form of every tensor, and the data of scratch and of integer inputs
 * only. */
static void bind_schedule(const quire_plan *plan, const quire_cpu_pass *pass,
                          const quire_tensor *tensors, const quire_workspace *workspace,
                          quire_view *views) {
  memcpy(views, pass->views, pass->view_count * sizeof(*views));
  for (size_t i = 0; i < pass->view_count; i++) {
    const quire_cpu_source *source = &pass->sources[i];
    if (source->scratch >= 0) {
      const quire_plan_intermediate *one = &plan->description.intermediates[source->scratch];
      views[i].data = one->elements == 0 || !one->step
                          ? NULL
                          : workspace->memory + plan->offsets[source->scratch];
    } else if (source->input >= 0 && plan->forms[source->input].scheduled) {
      views[i].data = tensor_data(&tensors[source->input]);
    }
  }
}

/* ---- items ---- */

/* One pass of one call, as its items see it. */
typedef struct work {
  const quire_pass *pass;
  quire_pass_function *function;
  atomic_bool failed;
} work;

static void run_index(work *one, size_t index) {
  const size_t *grid = one->pass->grid;
  size_t item[3] = {index, 0, 0};
  if (index >= grid[0]) {
    item[0] = index % grid[0];
    item[1] = index / grid[0] % grid[1];
    item[2] = index / grid[0] / grid[1];
  }
  if (one->function(one->pass, item) != QUIRE_OK) {
    atomic_store_explicit(&one->failed, true, memory_order_relaxed);
  }
}

static void run_task(void *user, size_t index) {
  quire_float_mode mode = quire_float_mode_enter();
  run_index(user, index);
  quire_float_mode_leave(mode);
}

static void run_range(work *one, size_t first, size_t last) {
  quire_float_mode mode = quire_float_mode_enter();
  for (size_t index = first; index < last; index++) {
    run_index(one, index);
  }
  quire_float_mode_leave(mode);
}

static quire_status finish(work *one, const quire_cpu_pass *pass, quire_error *error) {
  if (atomic_load_explicit(&one->failed, memory_order_relaxed)) {
    return quire_fail(error, QUIRE_INTERNAL, NULL, pass->id,
                      "an item failed, and only a schedule pass may");
  }
  return QUIRE_OK;
}

static void read_grid(const quire_cpu_pass *pass, const quire_workspace *workspace,
                      size_t grid[3]) {
  memcpy(grid, pass->dispatch, sizeof(pass->dispatch));
  if (pass->has_grid) {
    uint32_t counts[3];
    memcpy(counts, workspace->memory + pass->grid_offset, sizeof(counts));
    for (int i = 0; i < 3; i++) {
      grid[i] = counts[i] < grid[i] ? counts[i] : grid[i];
    }
  }
}

/* One thread of the device's own, or one item: no executor is asked. */
static bool is_serial(const quire_executor *executor, size_t count) {
  return count <= 1 ||
         (executor->parallel_for == quire_pool_parallel_for && executor->thread_limit == 1);
}

static quire_status run_pass(const quire_plan *plan, const quire_cpu_pass *pass,
                             const quire_tensor *tensors, const quire_workspace *workspace,
                             const quire_executor *executor, quire_error *error) {
  quire_view views[QUIRE_PASS_MAX_BINDINGS];
  quire_pass call = {.views = views, .uniforms = pass->uniforms};
  call.flags = workspace->prepared_flags;
  read_grid(pass, workspace, call.grid);
  size_t count = call.grid[0] * call.grid[1] * call.grid[2];
  if (count == 0) {
    return QUIRE_OK;
  }
  bind(plan, pass, tensors, workspace, views);
  work one = {.pass = &call, .function = pass->function};
  atomic_init(&one.failed, false);
  if (is_serial(executor, count)) {
    run_range(&one, 0, count);
  } else {
    executor->parallel_for(executor->user, run_task, &one, count);
  }
  return finish(&one, pass, error);
}

/* ---- leading pass ---- */

/* The jobs of one call. */
typedef struct lead {
  const quire_plan *plan;
  const quire_tensor *tensors;
  const quire_workspace *workspace;
} lead;

static void run_piece(const lead *call, const quire_cpu_job *job, int64_t first) {
  int64_t last = job->bytes - first < job->piece ? job->bytes : first + job->piece;
  if (job->output < 0) {
    memset(call->workspace->memory + job->offset + first, 0, (size_t)(last - first));
    return;
  }
  if (quire_is_separate(call->plan, call->tensors, (size_t)job->output)) {
    int32_t input = call->plan->forms[job->output].pair;
    quire_strided_copy_range(&job->copy, tensor_data(&call->tensors[input]),
                             tensor_data(&call->tensors[job->output]), first, last);
  }
}

static void run_lead_item(void *user, size_t index) {
  const lead *call = user;
  const quire_cpu_plan *cpu = call->plan->backend_data;
  size_t at = cpu->job_count - 1;
  while (cpu->jobs[at].first_item > index) {
    at--;
  }
  const quire_cpu_job *job = &cpu->jobs[at];
  run_piece(call, job, (int64_t)(index - job->first_item) * job->piece);
}

/* Bytes that the leading pass of this call moves. */
static int64_t lead_bytes(const lead *call) {
  const quire_cpu_plan *cpu = call->plan->backend_data;
  int64_t bytes = 0;
  for (size_t i = 0; i < cpu->job_count; i++) {
    const quire_cpu_job *job = &cpu->jobs[i];
    bool active =
        job->output < 0 || quire_is_separate(call->plan, call->tensors, (size_t)job->output);
    bytes += active ? job->bytes : 0;
  }
  return bytes;
}

static void run_lead(const lead *call, const quire_executor *executor) {
  enum { WORTH_THREADS = 512 * 1024 };
  const quire_cpu_plan *cpu = call->plan->backend_data;
  int64_t bytes = lead_bytes(call);
  if (bytes == 0) {
    return;
  }
  if (bytes >= WORTH_THREADS && !is_serial(executor, cpu->job_items)) {
    lead copy = *call;
    executor->parallel_for(executor->user, run_lead_item, &copy, cpu->job_items);
    return;
  }
  for (size_t i = 0; i < cpu->job_items; i++) {
    run_lead_item((void *)call, i);
  }
}

/* ---- entry points ---- */

static void clear_step(const quire_plan *plan, const quire_workspace *workspace) {
  const quire_manifest_variant *variant = quire_described_variant(&plan->description);
  for (size_t i = 0; i < variant->intermediate_count; i++) {
    const quire_plan_intermediate *one = &plan->description.intermediates[i];
    if (one->zero_init && one->step && one->bytes > 0) {
      memset(workspace->memory + plan->offsets[i], 0, (size_t)one->bytes);
    }
  }
}

/* What a schedule pass wrote as item counts must not exceed what the plan allows for. */
static quire_status check_grids(const quire_plan *plan, const quire_workspace *workspace,
                                quire_error *error) {
  const quire_cpu_plan *cpu = plan->backend_data;
  for (size_t i = 0; i < cpu->pass_count; i++) {
    const quire_cpu_pass *pass = &cpu->passes[i];
    if (!pass->has_grid) {
      continue;
    }
    uint32_t counts[3];
    memcpy(counts, workspace->memory + pass->grid_offset, sizeof(counts));
    for (int k = 0; k < 3; k++) {
      if (counts[k] > pass->dispatch[k]) {
        return quire_fail(error, QUIRE_INTERNAL, NULL, pass->id,
                          "the schedule pass wants %u items on axis %d, the plan allows %zu",
                          (unsigned)counts[k], k, pass->dispatch[k]);
      }
    }
  }
  return QUIRE_OK;
}

/* Threads that will share the work; 0: unknown. */
static uint32_t thread_hint(const quire_plan *plan, const quire_run_options *options) {
  const quire_cpu *device = plan->device->backend_data;
  const quire_executor *executor =
      options->executor != NULL ? options->executor : &device->executor;
  return executor->thread_limit > UINT32_MAX ? UINT32_MAX : (uint32_t)executor->thread_limit;
}

quire_status quire_cpu_schedule_run(const quire_plan *plan, const quire_cpu_pass *schedule,
                                    const quire_tensor *tensors, const quire_workspace *workspace,
                                    uint32_t flags, uint32_t threads, quire_error *error) {
  quire_red_zones_lay(plan, workspace);
  clear_step(plan, workspace);
  if (schedule == NULL) {
    return QUIRE_OK;
  }
  quire_view views[QUIRE_PASS_MAX_BINDINGS];
  quire_pass call = {.views = views, .uniforms = schedule->uniforms, .grid = {1, 1, 1}};
  call.flags = flags & QUIRE_RUN_STRICT;
  call.threads = threads;
  call.error = error;
  bind_schedule(plan, schedule, tensors, workspace, views);
  const size_t item[3] = {0, 0, 0};
  quire_float_mode mode = quire_float_mode_enter();
  quire_status status = schedule->function(&call, item);
  quire_float_mode_leave(mode);
  return status;
}

quire_status quire_cpu_prepare(quire_plan *plan, const quire_tensor *tensors,
                               quire_workspace *workspace, const quire_run_options *options,
                               quire_error *error) {
  const quire_cpu_plan *cpu = plan->backend_data;
  QUIRE_TRY(quire_cpu_schedule_run(plan, cpu->schedule, tensors, workspace, options->flags,
                                   thread_hint(plan, options), error));
  QUIRE_TRY(quire_red_zones_check(plan, workspace, error));
  return check_grids(plan, workspace, error);
}

quire_status quire_cpu_run(quire_plan *plan, const quire_tensor *tensors,
                           quire_workspace *workspace, const quire_run_options *options,
                           quire_error *error) {
  const quire_cpu_plan *cpu = plan->backend_data;
  const quire_cpu *device = plan->device->backend_data;
  const quire_executor *executor =
      options->executor != NULL ? options->executor : &device->executor;
  const lead call = {plan, tensors, workspace};
  run_lead(&call, executor);
  for (size_t i = 0; i < cpu->pass_count; i++) {
    QUIRE_TRY(run_pass(plan, &cpu->passes[i], tensors, workspace, executor, error));
  }
  return quire_red_zones_check(plan, workspace, error);
}

size_t quire_cpu_passes(const quire_plan *plan) {
  const quire_cpu_plan *cpu = plan->backend_data;
  return cpu->pass_count + 1;
}

size_t quire_cpu_items(const quire_plan *plan, const quire_workspace *workspace, size_t pass) {
  const quire_cpu_plan *cpu = plan->backend_data;
  if (pass == 0) {
    return cpu->job_items;
  }
  size_t grid[3];
  read_grid(&cpu->passes[pass - 1], workspace, grid);
  return grid[0] * grid[1] * grid[2];
}

quire_status quire_cpu_run_items(quire_plan *plan, size_t pass, size_t first, size_t last,
                                 const quire_tensor *tensors, quire_workspace *workspace,
                                 quire_error *error) {
  const quire_cpu_plan *cpu = plan->backend_data;
  if (first >= last) {
    return QUIRE_OK;
  }
  if (pass == 0) {
    lead call = {plan, tensors, workspace};
    for (size_t i = first; i < last; i++) {
      run_lead_item(&call, i);
    }
    return QUIRE_OK;
  }
  const quire_cpu_pass *one = &cpu->passes[pass - 1];
  quire_view views[QUIRE_PASS_MAX_BINDINGS];
  quire_pass call = {.views = views, .uniforms = one->uniforms};
  call.flags = workspace->prepared_flags;
  read_grid(one, workspace, call.grid);
  bind(plan, one, tensors, workspace, views);
  work items = {.pass = &call, .function = one->function};
  atomic_init(&items.failed, false);
  run_range(&items, first, last);
  QUIRE_TRY(finish(&items, one, error));
  return quire_red_zones_check(plan, workspace, error);
}
