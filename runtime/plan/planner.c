/* The steps of planning in their order (LANGUAGE.md section 8). */
#include "planner.h"

#include <string.h>

#include "error.h"
#include "planning.h"
#include "tuning.h"

/* Zeroed array of the run's scratch, or of the plan's arena. */
#define NEW_ARRAY(arena, pointer, count) \
  ((pointer) = quire_arena_array((arena), (count), sizeof *(pointer)))

/* Allocates what the manifest's counts ask for. */
static quire_status begin(quire_planning *p, const quire_manifest *manifest,
                          const quire_request *request, const quire_target *target,
                          quire_arena *arena, quire_arena *scratch) {
  *p = (quire_planning){.manifest = manifest,
                        .request = request,
                        .target = target,
                        .arena = arena,
                        .scratch = scratch,
                        .variant = -1,
                        .refusal = {.variant = -1}};
  quire_environment_init(p);
  p->layers[QUIRE_LAYER_KERNEL] = manifest->derive;
  size_t pointer = sizeof(void *);
  p->asked_inputs = quire_arena_array(scratch, manifest->input_count, pointer);
  p->asked_outputs = quire_arena_array(scratch, manifest->output_count, pointer);
  p->shapes = quire_arena_array(scratch, manifest->key_count, pointer);
  bool ok = p->asked_inputs != NULL && p->asked_outputs != NULL && p->shapes != NULL &&
            NEW_ARRAY(arena, p->inputs, manifest->input_count) != NULL &&
            NEW_ARRAY(arena, p->outputs, manifest->output_count) != NULL &&
            NEW_ARRAY(scratch, p->inferred, manifest->output_count) != NULL &&
            NEW_ARRAY(scratch, p->attributes, manifest->attribute_count) != NULL &&
            NEW_ARRAY(scratch, p->tunables, manifest->tunable_count) != NULL &&
            NEW_ARRAY(scratch, p->symbols, manifest->symbol_count) != NULL &&
            NEW_ARRAY(scratch, p->limits, manifest->limit_count) != NULL &&
            NEW_ARRAY(scratch, p->memos[QUIRE_LAYER_KERNEL], manifest->derive.count) != NULL;
  p->refusal.status = ok ? QUIRE_OK : QUIRE_OUT_OF_MEMORY;
  return p->refusal.status;
}

static quire_status enter_layer(quire_planning *p, int layer, const quire_manifest_layer *derive) {
  p->layers[layer] = *derive;
  if (derive->count > 0 && NEW_ARRAY(p->scratch, p->memos[layer], derive->count) == NULL) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  return QUIRE_OK;
}

quire_status quire_planning_enter_pass(quire_planning *p, const quire_manifest_pass *pass) {
  return enter_layer(p, QUIRE_LAYER_PASS, &pass->derive);
}

/* Takes what steps 5 to 7 need for the chosen variant. */
static quire_status begin_variant(quire_planning *p, int32_t index) {
  const quire_manifest_variant *variant = &p->manifest->variants[index];
  if (NEW_ARRAY(p->arena, p->intermediates, variant->intermediate_count) == NULL ||
      NEW_ARRAY(p->arena, p->passes, variant->pass_count) == NULL) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  p->variant = index;
  return enter_layer(p, QUIRE_LAYER_VARIANT, &variant->derive);
}

static bool has_shaders(const quire_manifest *manifest, int32_t index) {
  const quire_manifest_variant *variant = &manifest->variants[index];
  for (size_t i = 0; i < variant->pass_count; i++) {
    if (variant->passes[i].shader != NULL) {
      return true;
    }
  }
  return false;
}

/* Runs every step. QUIRE_OK fills *description; else p->refusal tells why (except out of memory).
 */
static quire_status run_steps(quire_planning *p, quire_plan_description *description) {
  int32_t chosen = -1;
  *description = (quire_plan_description){.variant = -1};
  QUIRE_TRY(quire_planning_read_request(p));
  QUIRE_TRY(quire_planning_read_attributes(p));
  QUIRE_TRY(quire_planning_check_tensors(p));
  QUIRE_TRY(quire_planning_check_contract(p));
  QUIRE_TRY(quire_planning_select(p, &chosen));
  QUIRE_TRY(begin_variant(p, chosen));
  QUIRE_TRY(quire_planning_check_shapes(p));
  QUIRE_TRY(quire_planning_size_intermediates(p));
  QUIRE_TRY(quire_planning_build_passes(p));
  const quire_plan_facts *facts = NULL;
  if (has_shaders(p->manifest, chosen)) {
    facts = quire_plan_facts_keep(p);
    if (facts == NULL) {
      return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
    }
  }
  *description = (quire_plan_description){.manifest = p->manifest,
                                          .facts = facts,
                                          .variant = chosen,
                                          .inputs = p->inputs,
                                          .outputs = p->outputs,
                                          .intermediates = p->intermediates,
                                          .passes = p->passes};
  return QUIRE_OK;
}

/* ---- tuned values ---- */

/* The target's entry for the plan that was made; a reason if there is none that can be used. */
static quire_status find_tuned(quire_planning *p, const quire_plan_description *description,
                               quire_planning_tuned *tuned) {
  if (p->request->tunable_count > 0) {
    tuned->reason = "the request has tunables of its own";
    return QUIRE_OK;
  }
  const char *tunable = "";
  if (!quire_tuning_find(p->target->tuning, p->manifest, description->variant, p->target, p->inputs,
                         p->attributes, p->scratch->allocator, &tuned->entry)) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  if (tuned->entry == NULL) {
    tuned->reason = "no entry for this variant, adapter and class of call";
    return QUIRE_OK;
  }
  const char *fault = quire_tuning_fault(p->manifest, tuned->entry, &tunable);
  if (fault == NULL) {
    return QUIRE_OK;
  }
  tuned->entry = NULL;
  tuned->reason = quire_planning_format(p, "its entry is ignored: %.60s %s", tunable, fault);
  return tuned->reason != NULL ? QUIRE_OK
                               : quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
}

/* Plans again with an entry's values in place of the manifest's own, through the same checks. */
static quire_status plan_tuned(quire_planning *p, quire_planning_tuned *tuned,
                               quire_plan_description *description) {
  quire_request *request = quire_arena_alloc(p->scratch, sizeof *request);
  if (request == NULL) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  *request = *p->request;
  request->tunables = tuned->entry->tunables;
  request->tunable_count = tuned->entry->tunable_count;
  quire_planning again;
  quire_plan_description other;
  quire_status status = begin(&again, p->manifest, request, p->target, p->arena, p->scratch);
  if (status == QUIRE_OK) {
    status = run_steps(&again, &other);
  }
  if (status == QUIRE_OUT_OF_MEMORY) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  if (status != QUIRE_OK || other.variant != description->variant) {
    tuned->entry = NULL;
    tuned->reason = status != QUIRE_OK ? "its entry is ignored: there is no plan with its values"
                                       : "its entry is ignored: its values select another variant";
    return QUIRE_OK;
  }
  *p = again;
  p->env.user = p;
  *description = other;
  return QUIRE_OK;
}

/* Every step, with the target's tuned values where they fit. */
static quire_status plan(quire_planning *p, quire_plan_description *description) {
  quire_planning_tuned tuned = {NULL, NULL};
  QUIRE_TRY(run_steps(p, description));
  if (p->target->tuning != NULL) {
    QUIRE_TRY(find_tuned(p, description, &tuned));
  }
  if (tuned.entry != NULL) {
    QUIRE_TRY(plan_tuned(p, &tuned, description));
  }
  p->tuned = tuned;
  return QUIRE_OK;
}

/* First block of scratch: on the stack, aligned as arenas want it. */
typedef union scratch_block {
  max_align_t align;
  unsigned char bytes[QUIRE_SCRATCH_BYTES];
} scratch_block;

quire_status quire_plan_describe(const quire_manifest *manifest, const quire_request *request,
                                 const quire_target *target, quire_arena *arena,
                                 quire_plan_description *description, quire_error *error) {
  scratch_block block;
  quire_arena scratch;
  quire_planning planning;
  quire_arena_init_with(&scratch, arena->allocator, block.bytes, sizeof block.bytes);
  quire_status status = begin(&planning, manifest, request, target, arena, &scratch);
  if (status == QUIRE_OK) {
    status = plan(&planning, description);
  }
  if (status != QUIRE_OK) {
    status = quire_refusal_report(&planning, error);
  }
  quire_arena_release(&scratch);
  return status;
}

/* True if there is something to explain: malformed requests and lack of memory are errors only. */
static bool is_explained(const quire_planning *p, quire_status status) {
  return status == QUIRE_OK ||
         (p->refusal.stage != NULL && p->refusal.status != QUIRE_OUT_OF_MEMORY);
}

static quire_status explain(quire_planning *p, quire_explain_format format, quire_text *out,
                            quire_error *error) {
  quire_plan_description description;
  quire_status status = plan(p, &description);
  if (status != QUIRE_OK) {
    status = quire_refusal_report(p, error);
  }
  if (!is_explained(p, status)) {
    return status;
  }
  quire_explanation explanation = {.p = p, .description = status == QUIRE_OK ? &description : NULL};
  if (!quire_explanation_fill(&explanation)) {
    return quire_fail_memory(error);
  }
  size_t before = out->length;
  if (format == QUIRE_EXPLAIN_JSON) {
    quire_explain_write_json(&explanation, out);
  } else {
    quire_explain_write_text(&explanation, out);
  }
  if (out->failed || out->length == before) {
    return quire_fail_memory(error);
  }
  return status;
}

quire_status quire_plan_explain(const quire_manifest *manifest, const quire_request *request,
                                const quire_target *target, quire_explain_format format,
                                const quire_allocator *allocator, quire_text *out,
                                quire_error *error) {
  quire_arena arena;
  quire_arena scratch;
  quire_planning planning;
  quire_arena_init(&arena, allocator);
  quire_arena_init(&scratch, allocator);
  quire_status status = begin(&planning, manifest, request, target, &arena, &scratch);
  if (status == QUIRE_OK) {
    status = explain(&planning, format, out, error);
  } else {
    status = quire_fail_memory(error);
  }
  quire_arena_release(&arena);
  quire_arena_release(&scratch);
  return status;
}
