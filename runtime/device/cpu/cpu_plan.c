#include "cpu_plan.h"

#include <assert.h>
#include <string.h>

#include "checked.h"
#include "cpu_run.h"
#include "error.h"

/* ---- views ---- */

/* Shape and strides of a form as a binding's axes show them. */
static void shape_view(quire_view *view, const quire_manifest_binding *binding, quire_dtype dtype,
                       int32_t ndim, const int64_t *shape, const int64_t *strides) {
  view->dtype = dtype;
  view->ndim = ndim;
  for (int32_t i = 0; i < ndim; i++) {
    int32_t axis = binding->axis_count == 0 ? i : binding->axes[i];
    view->shape[i] = shape[axis];
    view->stride[i] = strides[axis];
  }
}

static void scratch_view(quire_view *view, const quire_manifest_binding *binding,
                         const quire_plan_intermediate *one) {
  int64_t strides[QUIRE_MAX_RANK];
  int64_t stride = one->elements > 0 ? 1 : 0; /* without elements a product may be too large */
  for (int32_t i = one->ndim - 1; i >= 0; i--) {
    strides[i] = stride;
    stride = stride > 0 ? stride * one->shape[i] : 0;
  }
  shape_view(view, binding, one->dtype, one->ndim, one->shape, strides);
}

/* One view and its source. An absent tensor's view stays empty. */
static quire_status fill_view(const quire_plan *plan, const quire_manifest_pass *pass, size_t index,
                              quire_view *view, quire_cpu_source *source, quire_error *error) {
  const quire_manifest *manifest = plan->description.manifest;
  const quire_manifest_binding *binding = &pass->bindings[index];
  source->input = source->output = source->scratch = -1;
  source->binding = (int32_t)index;
  if (binding->kind == QUIRE_BINDING_SCRATCH) {
    source->scratch = binding->source;
    scratch_view(view, binding, &plan->description.intermediates[binding->source]);
    return QUIRE_OK;
  }
  const quire_manifest_key *key = &manifest->keys[binding->source];
  int32_t output = key->output < 0 ? -1 : (int32_t)manifest->input_count + key->output;
  const quire_form *form = &plan->forms[key->input >= 0 ? key->input : output];
  if (!form->present) {
    return QUIRE_OK;
  }
  if (binding->axis_count != 0 && binding->axis_count != form->ndim) {
    return quire_fail(error, QUIRE_INTERNAL, NULL, form->name,
                      "the axes of its binding are %d, it has %d dimensions",
                      (int)binding->axis_count, (int)form->ndim);
  }
  source->input = key->input;
  source->output = output;
  shape_view(view, binding, form->dtype, form->ndim, form->shape, form->strides);
  return QUIRE_OK;
}

/* ---- passes ---- */

/* An implementation was chosen, and it takes these views: else the variant were not eligible. */
static quire_status check_pass(const quire_plan_pass *planned, size_t view_count,
                               quire_error *error) {
  assert(planned->implementation != NULL && view_count <= QUIRE_PASS_MAX_BINDINGS &&
         view_count == planned->implementation->binding_count);
  (void)view_count;
  size_t items = 0;
  if (!quire_mul_size(planned->dispatch[0], planned->dispatch[1], &items) ||
      !quire_mul_size(items, planned->dispatch[2], &items)) {
    return quire_fail(error, QUIRE_LIMIT, NULL, planned->manifest->id, "has too many items");
  }
  return QUIRE_OK;
}

static quire_status check_grid(const quire_plan_intermediate *grid, const char *pass,
                               quire_error *error) {
  if (grid->dtype != QUIRE_UINT32 || grid->elements != 3 || !grid->step) {
    return quire_fail(error, QUIRE_INTERNAL, NULL, pass,
                      "its grid %s is not uint32 [3] of lifetime step", grid->id);
  }
  return QUIRE_OK;
}

quire_status quire_cpu_pass_fill(quire_plan *plan, const quire_plan_pass *planned,
                                 quire_cpu_pass *pass, quire_error *error) {
  const quire_manifest_pass *manifest = planned->manifest;
  quire_view *views = quire_arena_array(&plan->arena, manifest->binding_count, sizeof(*views));
  quire_cpu_source *sources =
      quire_arena_array(&plan->arena, manifest->binding_count, sizeof(*sources));
  if (views == NULL || sources == NULL) {
    return quire_fail_memory(error);
  }
  for (size_t i = 0; i < manifest->binding_count; i++) {
    if (manifest->bindings[i].kind == QUIRE_BINDING_UNIFORM) {
      pass->uniforms = planned->bindings[i].words;
      continue;
    }
    QUIRE_TRY(
        fill_view(plan, manifest, i, &views[pass->view_count], &sources[pass->view_count], error));
    pass->view_count++;
  }
  QUIRE_TRY(check_pass(planned, pass->view_count, error));
  pass->id = manifest->id;
  pass->function = planned->implementation->function;
  pass->views = views;
  pass->sources = sources;
  pass->manifest = manifest;
  for (int i = 0; i < 3; i++) {
    pass->dispatch[i] = planned->dispatch[i];
  }
  if (manifest->grid >= 0) {
    QUIRE_TRY(check_grid(&plan->description.intermediates[manifest->grid], pass->id, error));
    pass->has_grid = true;
    pass->grid_offset = plan->offsets[manifest->grid];
  }
  return QUIRE_OK;
}

/* ---- leading pass ---- */

/* Pieces are large enough to be worth a thread, and at most 256 a job. */
static void cut(quire_cpu_plan *cpu, quire_cpu_job *job) {
  enum { LEAST_PIECE = 256 * 1024, MOST_PIECES = 256 };
  int64_t piece = job->bytes / MOST_PIECES + 1;
  piece = (piece + 63) / 64 * 64;
  job->piece = piece < LEAST_PIECE ? LEAST_PIECE : piece;
  job->first_item = cpu->job_items;
  cpu->job_items += (size_t)((job->bytes + job->piece - 1) / job->piece);
  cpu->job_count++;
}

static quire_status fill_jobs(quire_plan *plan, quire_cpu_plan *cpu, quire_error *error) {
  size_t scratch_count = quire_described_variant(&plan->description)->intermediate_count;
  quire_cpu_job *jobs =
      quire_arena_array(&plan->arena, plan->slot_count + scratch_count, sizeof(*jobs));
  if (jobs == NULL) {
    return quire_fail_memory(error);
  }
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    const quire_form *form = &plan->forms[slot];
    if (form->is_output && form->present && form->pair >= 0 && form->elements > 0) {
      quire_cpu_job *job = &jobs[cpu->job_count];
      job->output = (int32_t)slot;
      quire_strided_copy_init(&job->copy, &plan->forms[form->pair], form);
      job->bytes = job->copy.bytes;
      cut(cpu, job);
    }
  }
  for (size_t i = 0; i < scratch_count; i++) {
    const quire_plan_intermediate *one = &plan->description.intermediates[i];
    if (one->zero_init && !one->step && one->bytes > 0) {
      quire_cpu_job *job = &jobs[cpu->job_count];
      job->output = -1;
      job->offset = plan->offsets[i];
      job->bytes = one->bytes;
      cut(cpu, job);
    }
  }
  cpu->jobs = jobs;
  return QUIRE_OK;
}

quire_status quire_cpu_plan_create(quire_plan *plan, quire_error *error) {
  size_t count = quire_described_variant(&plan->description)->pass_count;
  quire_cpu_plan *cpu = quire_arena_array(&plan->arena, 1, sizeof(*cpu));
  quire_cpu_pass *passes = quire_arena_array(&plan->arena, count, sizeof(*passes));
  if (cpu == NULL || passes == NULL) {
    return quire_fail_memory(error);
  }
  for (size_t i = 0; i < count; i++) {
    QUIRE_TRY(quire_cpu_pass_fill(plan, &plan->description.passes[i], &passes[i], error));
  }
  bool scheduled = count > 0 && passes[0].manifest->schedule;
  cpu->schedule = scheduled ? &passes[0] : NULL;
  cpu->passes = passes + (scheduled ? 1 : 0);
  cpu->pass_count = count - (scheduled ? 1 : 0);
  QUIRE_TRY(fill_jobs(plan, cpu, error));
  plan->backend_data = cpu;
  return QUIRE_OK;
}

void quire_cpu_plan_destroy(quire_plan *plan) {
  (void)plan; /* everything lies in the plan's arena */
}
