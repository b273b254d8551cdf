/* The names of a finished plan: what templates ask when no request is at hand any more. */
#include <string.h>

#include "planning.h"
#include "tuning.h"

struct quire_plan_facts {
  quire_target target; /* its description is borrowed */
  quire_precision precision;
  const quire_value *attributes; /* strings copied */
  const quire_value *tunables;
  const quire_dtype *symbols;
};

struct quire_plan_names {
  quire_planning planning;
  quire_request request; /* all that planning still asks of one */
};

/* ---- keeping ---- */

/* Values whose strings may be the request's. */
static const quire_value *keep_values(quire_arena *arena, const quire_value *values, size_t count) {
  quire_value *kept = quire_arena_array(arena, count, sizeof *kept);
  for (size_t i = 0; kept != NULL && i < count; i++) {
    kept[i] = values[i];
    if (values[i].kind == QUIRE_VALUE_STRING) {
      kept[i].as.string = quire_arena_copy(arena, values[i].as.string, values[i].length);
      if (kept[i].as.string == NULL) {
        return NULL;
      }
    }
  }
  return kept;
}

const quire_plan_facts *quire_plan_facts_keep(const quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  quire_plan_facts *facts = quire_arena_alloc(p->arena, sizeof *facts);
  quire_dtype *symbols = quire_arena_array(p->arena, manifest->symbol_count, sizeof *symbols);
  if (facts == NULL || symbols == NULL) {
    return NULL;
  }
  for (size_t i = 0; i < manifest->symbol_count; i++) {
    symbols[i] = p->symbols[i];
  }
  *facts = (quire_plan_facts){
      .target = *p->target,
      .precision = p->request->precision,
      .attributes = keep_values(p->arena, p->attributes, manifest->attribute_count),
      .tunables = keep_values(p->arena, p->tunables, manifest->tunable_count),
      .symbols = symbols};
  return facts->attributes != NULL && facts->tunables != NULL ? facts : NULL;
}

/* ---- asking ---- */

static quire_memo *new_memos(quire_arena *arena, const quire_manifest_layer *layer) {
  return quire_arena_array(arena, layer->count, sizeof(quire_memo));
}

quire_plan_names *quire_plan_names_open(const quire_plan_description *description, size_t pass,
                                        quire_arena *arena) {
  const quire_manifest *manifest = description->manifest;
  const quire_manifest_variant *variant = quire_described_variant(description);
  const quire_plan_facts *facts = description->facts;
  quire_plan_names *names = quire_arena_array(arena, 1, sizeof *names);
  if (names == NULL) {
    return NULL;
  }
  quire_planning *p = &names->planning;
  names->request.precision = facts->precision;
  p->manifest = manifest;
  p->request = &names->request;
  p->target = &facts->target;
  p->arena = arena;
  p->scratch = arena;
  p->variant = description->variant;
  /* All shapes are known: nothing is written to these any more. */
  p->inputs = (quire_plan_tensor *)description->inputs;
  p->outputs = (quire_plan_tensor *)description->outputs;
  p->attributes = (quire_value *)facts->attributes;
  p->tunables = (quire_value *)facts->tunables;
  p->symbols = (quire_dtype *)facts->symbols;
  p->shapes = quire_arena_array(arena, manifest->key_count, sizeof *p->shapes);
  p->limits = quire_arena_array(arena, manifest->limit_count, sizeof *p->limits);
  p->layers[QUIRE_LAYER_KERNEL] = manifest->derive;
  p->layers[QUIRE_LAYER_VARIANT] = variant->derive;
  p->layers[QUIRE_LAYER_PASS] = variant->passes[pass].derive;
  bool complete = p->shapes != NULL && p->limits != NULL;
  for (int layer = 0; layer < QUIRE_LAYER_COUNT; layer++) {
    p->memos[layer] = new_memos(arena, &p->layers[layer]);
    complete = complete && p->memos[layer] != NULL;
  }
  quire_environment_init(p);
  return complete ? names : NULL;
}

quire_expr_env *quire_plan_names_env(quire_plan_names *names) {
  return &names->planning.env;
}

quire_value quire_plan_names_limit(const quire_plan_names *names, const char *name, size_t length) {
  int64_t limit = 0;
  bool known = quire_target_limit(names->planning.target, name, length, &limit);
  return known ? quire_value_integer(limit) : quire_value_undefined();
}

quire_value quire_plan_names_adapter(const quire_plan_names *names, const char *name,
                                     size_t length) {
  return quire_target_adapter(names->planning.target, name, length);
}

void quire_plan_write_tuning_key(const quire_plan_description *description, quire_text *out) {
  const quire_manifest *manifest = description->manifest;
  const quire_plan_facts *facts = description->facts;
  quire_text parts[3];
  for (size_t i = 0; i < 3; i++) {
    quire_text_init(&parts[i], out->allocator);
  }
  quire_tuning_write_manifest(manifest, &parts[0]);
  quire_tuning_write_adapter(&facts->target, &parts[1]);
  quire_tuning_write_problem(manifest, description->inputs, facts->attributes, &parts[2]);
  const struct {
    const char *name, *text;
  } members[] = {{"operator", manifest->qualified},
                 {"manifest", quire_text_view(&parts[0])},
                 {"variant", quire_described_variant(description)->id},
                 {"adapter", quire_text_view(&parts[1])},
                 {"class", quire_text_view(&parts[2])}};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    quire_text_format(out, "%s\"%s\": ", i > 0 ? ", " : "{", members[i].name);
    quire_text_json_string(out, members[i].text, strlen(members[i].text));
  }
  quire_text_put(out, "}");
  for (size_t i = 0; i < 3; i++) {
    out->failed = out->failed || parts[i].failed;
    quire_text_release(&parts[i]);
  }
}
