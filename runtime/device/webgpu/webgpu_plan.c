/* Making plans: buffers, uniforms, rendered and compiled passes. */
#include "webgpu_plan.h"

#include <inttypes.h>
#include <string.h>

#include "checked.h"
#include "error.h"
#include "template.h"
#include "text.h"
#include "webgpu_record.h"
#include "webgpu_run.h"
#include "webgpu_shader.h"

/* What is being put together. */
typedef struct builder {
  quire_plan *plan;
  quire_webgpu *gpu;
  quire_webgpu_plan *made;
  quire_webgpu_pass *passes;
  quire_webgpu_scratch *scratch;
  unsigned char *uniforms;
  size_t uniform_bytes;
  quire_error *error;
} builder;

static const quire_manifest_variant *variant_of(const quire_plan *plan) {
  return &plan->description.manifest->variants[plan->description.variant];
}

static bool is_active(const quire_plan_pass *pass) {
  return pass->manifest->shader != NULL && pass->dispatch[0] > 0 && pass->dispatch[1] > 0 &&
         pass->dispatch[2] > 0;
}

static int32_t output_slot(const quire_manifest *manifest, const quire_manifest_key *key) {
  return key->output < 0 ? -1 : (int32_t)manifest->input_count + key->output;
}

/* ---- scratch ---- */

/* The slot of a pure output that the request says to be the buffer of input `slot`, or -1. */
static int32_t alias_of(const quire_plan *plan, int32_t slot) {
  for (size_t i = 0; i < plan->slot_count; i++) {
    if (plan->forms[i].present && plan->forms[i].alias == slot && plan->forms[i].elements > 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

/*
 * Intermediates keep their numbers; behind them come copies of the inputs that share their buffer
 * with an output: no dispatch may read a buffer and write it under another name.
 */
static quire_status fill_scratch(builder *b) {
  const quire_plan *plan = b->plan;
  const size_t count = variant_of(plan)->intermediate_count;
  const size_t inputs = plan->description.manifest->input_count;
  b->scratch = quire_arena_array(&b->plan->arena, count + inputs, sizeof *b->scratch);
  if (b->scratch == NULL) {
    return quire_fail_memory(b->error);
  }
  for (size_t i = 0; i < count; i++) {
    const quire_plan_intermediate *one = &plan->description.intermediates[i];
    b->scratch[i].clear = one->zero_init;
    b->scratch[i].copy_of = -1;
  }
  b->made->scratch = b->scratch;
  b->made->scratch_count = count;
  return QUIRE_OK;
}

/* The number of the copy of an input; 0 if it is out of the question: numbers begin behind. */
static int32_t copy_of_input(builder *b, int32_t slot) {
  const size_t first = variant_of(b->plan)->intermediate_count;
  for (size_t i = first; i < b->made->scratch_count; i++) {
    if (b->scratch[i].copy_of == slot) {
      return (int32_t)i;
    }
  }
  quire_webgpu_scratch *one = &b->scratch[b->made->scratch_count];
  one->copy_of = slot;
  one->bytes = (uint64_t)b->plan->forms[slot].high;
  return (int32_t)b->made->scratch_count++;
}

/* ---- bindings ---- */

static void fill_tensor(builder *b, const quire_manifest_binding *binding,
                        quire_webgpu_source *source) {
  const quire_manifest *manifest = b->plan->description.manifest;
  const quire_manifest_key *key = &manifest->keys[binding->source];
  const int32_t output = output_slot(manifest, key);
  const quire_form *form = &b->plan->forms[key->input >= 0 ? key->input : output];
  if (form->elements == 0) {
    return;
  }
  source->bytes = (uint64_t)form->high;
  source->input = key->input;
  source->output = output;
  if (key->input >= 0 && output < 0 && alias_of(b->plan, key->input) >= 0) {
    source->input = -1;
    source->scratch = copy_of_input(b, key->input);
  }
}

static void fill_intermediate(builder *b, const quire_manifest_binding *binding,
                              quire_webgpu_source *source) {
  const quire_plan_intermediate *one = &b->plan->description.intermediates[binding->source];
  if (one->bytes > 0) {
    source->bytes = ((uint64_t)one->bytes + 3) / 4 * 4;
    source->scratch = binding->source;
    b->scratch[binding->source].bytes = source->bytes;
  }
}

/* Collects the values; the buffer is made when all are known. */
static quire_status fill_uniform(builder *b, const quire_plan_binding *planned,
                                 quire_webgpu_source *source) {
  const size_t step = b->gpu->limits.minUniformBufferOffsetAlignment;
  size_t at = 0;
  if (!quire_align_size(b->uniform_bytes, step < 256 ? 256 : step, &at) ||
      at > INT32_MAX - planned->bytes) {
    return quire_fail(b->error, QUIRE_LIMIT, NULL, "uniforms", "are too large");
  }
  source->uniform = (int32_t)at;
  source->bytes = planned->bytes;
  memcpy(b->uniforms + at, planned->words, planned->bytes);
  b->uniform_bytes = at + planned->bytes;
  return QUIRE_OK;
}

static WGPUBufferBindingType type_of(const quire_manifest_binding *binding) {
  if (binding->kind == QUIRE_BINDING_UNIFORM) {
    return WGPUBufferBindingType_Uniform;
  }
  return binding->writable ? WGPUBufferBindingType_Storage : WGPUBufferBindingType_ReadOnlyStorage;
}

static quire_status fill_sources(builder *b, const quire_plan_pass *planned,
                                 quire_webgpu_pass *pass, WGPUBufferBindingType *types) {
  const quire_manifest_pass *manifest = planned->manifest;
  quire_webgpu_source *sources =
      quire_arena_array(&b->plan->arena, manifest->binding_count, sizeof *sources);
  if (sources == NULL) {
    return quire_fail_memory(b->error);
  }
  for (size_t i = 0; i < manifest->binding_count; i++) {
    if (planned->bindings[i].index < 0) {
      continue; /* optional, and its tensor is absent */
    }
    if (pass->source_count == QUIRE_WEBGPU_MOST_BINDINGS) {
      return quire_fail(b->error, QUIRE_LIMIT, NULL, manifest->id, "has more than %d bindings",
                        (int)QUIRE_WEBGPU_MOST_BINDINGS);
    }
    const quire_manifest_binding *binding = &manifest->bindings[i];
    quire_webgpu_source *source = &sources[pass->source_count];
    source->input = source->output = source->scratch = source->uniform = -1;
    source->writable = binding->kind != QUIRE_BINDING_UNIFORM && binding->writable;
    types[pass->source_count++] = type_of(binding);
    if (binding->kind == QUIRE_BINDING_UNIFORM) {
      QUIRE_TRY(fill_uniform(b, &planned->bindings[i], source));
    } else if (binding->kind == QUIRE_BINDING_SCRATCH) {
      fill_intermediate(b, binding, source);
    } else {
      fill_tensor(b, binding, source);
    }
  }
  pass->sources = sources;
  return QUIRE_OK;
}

/* ---- passes ---- */

static quire_status compile(builder *b, size_t index, const WGPUBufferBindingType *types,
                            quire_webgpu_pass *pass) {
  quire_text text;
  quire_text_init(&text, b->gpu->allocator);
  quire_status status =
      quire_template_render(&b->plan->description, index, b->plan->op->templates, &text, b->error);
  if (status == QUIRE_OK) {
    status = text.failed ? quire_fail_memory(b->error)
                         : quire_webgpu_check_shader(b->gpu, quire_text_view(&text), text.length,
                                                     pass->id, b->error);
  }
  if (status == QUIRE_OK) {
    quire_webgpu_lock(b->gpu);
    status = quire_webgpu_check_lost(b->gpu, b->error);
    if (status == QUIRE_OK) {
      status = quire_webgpu_pipeline_get(b->gpu, quire_text_view(&text), text.length, types,
                                         pass->source_count, pass->id, &pass->pipeline, b->error);
    }
    quire_webgpu_unlock(b->gpu);
  }
  quire_text_release(&text);
  return status;
}

static quire_status fill_pass(builder *b, size_t index) {
  const quire_plan_pass *planned = &b->plan->description.passes[index];
  if (!is_active(planned)) {
    return QUIRE_OK;
  }
  WGPUBufferBindingType types[QUIRE_WEBGPU_MOST_BINDINGS];
  quire_webgpu_pass *pass = &b->passes[b->made->pass_count++];
  pass->id = planned->manifest->id;
  memcpy(pass->dispatch, planned->dispatch, sizeof pass->dispatch);
  QUIRE_TRY(fill_sources(b, planned, pass, types));
  return compile(b, index, types, pass);
}

/* Room for all uniforms, each at a multiple of the alignment. */
static quire_status make_room(builder *b) {
  const size_t step = b->gpu->limits.minUniformBufferOffsetAlignment;
  const size_t align = step < 256 ? 256 : step;
  size_t bytes = 0;
  for (size_t i = 0; i < variant_of(b->plan)->pass_count; i++) {
    const quire_plan_pass *pass = &b->plan->description.passes[i];
    for (size_t k = 0; k < pass->manifest->binding_count; k++) {
      bytes += (pass->bindings[k].bytes + align - 1) / align * align;
    }
  }
  b->uniforms = quire_arena_array(&b->plan->arena, bytes + 1, 1);
  return b->uniforms == NULL ? quire_fail_memory(b->error) : QUIRE_OK;
}

static quire_status make_uniforms(builder *b) {
  if (b->uniform_bytes == 0) {
    return QUIRE_OK;
  }
  quire_webgpu_lock(b->gpu);
  quire_status status = quire_webgpu_make_uniform(b->gpu, b->uniforms, b->uniform_bytes,
                                                  &b->made->uniforms, b->error);
  quire_webgpu_unlock(b->gpu);
  return status;
}

/* The host's check of values: the variant's own schedule pass, or that of the CPU's plan. */
static quire_status fill_schedule(builder *b) {
  quire_plan *owner = b->plan->host != NULL ? b->plan->host : b->plan;
  const quire_plan_pass *first = &owner->description.passes[0];
  if (!first->manifest->schedule || first->implementation == NULL) {
    return QUIRE_OK;
  }
  for (size_t slot = 0; slot < b->plan->slot_count; slot++) {
    const quire_form *form = &b->plan->forms[slot];
    if (form->scheduled && !form->dense) {
      return quire_fail(b->error, QUIRE_UNSUPPORTED, NULL, form->name,
                        "is strided, and its values would be read back");
    }
  }
  quire_cpu_pass *pass = quire_arena_array(&b->plan->arena, 1, sizeof *pass);
  if (pass == NULL) {
    return quire_fail_memory(b->error);
  }
  owner->arena = b->plan->arena; /* lent to a host's plan, and taken back */
  const quire_status status = quire_cpu_pass_fill(owner, first, pass, b->error);
  b->plan->arena = owner->arena;
  QUIRE_TRY(status);
  b->made->schedule = pass;
  b->made->schedule_plan = owner;
  return QUIRE_OK;
}

static quire_status build(builder *b) {
  QUIRE_TRY(fill_scratch(b));
  QUIRE_TRY(make_room(b));
  for (size_t i = 0; i < variant_of(b->plan)->pass_count; i++) {
    QUIRE_TRY(fill_pass(b, i));
  }
  QUIRE_TRY(make_uniforms(b));
  return fill_schedule(b);
}

quire_status quire_webgpu_plan_create(quire_plan *plan, quire_error *error) {
  const size_t count = variant_of(plan)->pass_count;
  if (count > QUIRE_WEBGPU_MOST_PASSES) {
    return quire_fail(error, QUIRE_LIMIT, NULL, variant_of(plan)->id, "has %zu passes, at most %d",
                      count, (int)QUIRE_WEBGPU_MOST_PASSES);
  }
  builder b = {.plan = plan, .gpu = quire_webgpu_of(plan->device), .error = error};
  b.made = quire_arena_array(&plan->arena, 1, sizeof *b.made);
  b.passes = quire_arena_array(&plan->arena, count, sizeof *b.passes);
  if (b.made == NULL || b.passes == NULL) {
    return quire_fail_memory(error);
  }
  b.made->passes = b.passes;
  plan->backend_data = b.made;
  quire_status status = build(&b);
  if (status != QUIRE_OK) {
    quire_webgpu_plan_destroy(plan);
  }
  return status;
}

void quire_webgpu_plan_destroy(quire_plan *plan) {
  quire_webgpu *gpu = quire_webgpu_of(plan->device);
  quire_webgpu_plan *made = plan->backend_data;
  if (made == NULL) {
    return;
  }
  quire_webgpu_lock(gpu);
  for (size_t i = 0; i < made->pass_count; i++) {
    quire_webgpu_pipeline pipeline = made->passes[i].pipeline;
    quire_webgpu_pipeline_release(gpu, &pipeline);
  }
  quire_webgpu_drop_buffer(gpu, made->uniforms);
  quire_webgpu_unlock(gpu);
  plan->backend_data = NULL;
}
