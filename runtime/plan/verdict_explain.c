/* Obstacles told: clause texts, chains with operands, sentences. */
#include <string.h>

#include "planning.h"

const char *quire_verdict_reason(const quire_verdict *verdict) {
  switch (verdict->obstacle) {
    case QUIRE_OBSTACLE_BACKEND:
    case QUIRE_OBSTACLE_FEATURE:
    case QUIRE_OBSTACLE_NATIVE:
      return "feature";
    case QUIRE_OBSTACLE_LIMIT:
    case QUIRE_OBSTACLE_SUBGROUP:
    case QUIRE_OBSTACLE_BUFFERS:
      return "limit";
    default:
      return verdict->code != QUIRE_EXPR_OK ? "error" : "false";
  }
}

const char *quire_verdict_clause(quire_planning *p, const quire_verdict *verdict) {
  size_t length = 0;
  const char *source = NULL;
  switch (verdict->obstacle) {
    case QUIRE_OBSTACLE_BACKEND:
      return "requires.backend";
    case QUIRE_OBSTACLE_FEATURE:
      return quire_planning_format(p, "requires.features.%s", verdict->name);
    case QUIRE_OBSTACLE_LIMIT:
      return quire_planning_format(p, "requires.limits.%s", verdict->name);
    case QUIRE_OBSTACLE_SUBGROUP:
      return "requires.subgroupMinSize";
    case QUIRE_OBSTACLE_BUFFERS:
      return "requires.buffers";
    case QUIRE_OBSTACLE_NATIVE:
      return "requires.native";
    case QUIRE_OBSTACLE_DENSE:
      return "requires.dense";
    default:
      source = quire_expr_source(verdict->clause, &length);
      return quire_planning_format(p, "%.*s", (int)length, source);
  }
}

static quire_operand make_operand(const char *text, quire_value value) {
  return (quire_operand){{text, strlen(text)}, value, QUIRE_EXPR_OK};
}

/* Operands of an obstacle that is not a clause; at most two. */
static bool fill_operands(quire_planning *p, int32_t index, const quire_verdict *verdict,
                          quire_because *because) {
  quire_operand *operands = quire_arena_array(p->scratch, 2, sizeof *operands);
  if (operands == NULL) {
    return false;
  }
  const quire_manifest_variant *variant = &p->manifest->variants[index];
  const char *text = NULL;
  const char *backend = quire_target_backend(p->target);
  because->operands = operands;
  switch (verdict->obstacle) {
    case QUIRE_OBSTACLE_BACKEND:
      operands[0] = make_operand("device.backend", quire_value_text(backend));
      because->operand_count = 1;
      return true;
    case QUIRE_OBSTACLE_BUFFERS:
      text = quire_planning_format(p, "device.limits.%s", verdict->name);
      operands[0] = make_operand("bindings", quire_value_integer(verdict->count));
      operands[1] = make_operand(text != NULL ? text : "", quire_value_integer(verdict->most));
      because->operand_count = 2;
      return text != NULL;
    case QUIRE_OBSTACLE_NATIVE:
      text = quire_native_describe(p, index, &variant->passes[verdict->index]);
      operands[0] = make_operand(
          "native", quire_value_string(text != NULL ? text : "", text != NULL ? strlen(text) : 0));
      because->operand_count = 1;
      return text != NULL;
    case QUIRE_OBSTACLE_DENSE:
      text = quire_planning_format(p, "dense.%s", p->manifest->keys[verdict->index].name);
      operands[0] = make_operand(text != NULL ? text : "", quire_value_boolean(false));
      because->operand_count = 1;
      return text != NULL;
    default:
      return true;
  }
}

bool quire_verdict_explain(quire_planning *p, int32_t index, const quire_verdict *verdict,
                           quire_because *because) {
  *because = (quire_because){NULL, 0, NULL, 0};
  if (verdict->obstacle == QUIRE_OBSTACLE_WHEN && verdict->code == QUIRE_EXPR_OK) {
    return quire_expr_explain(verdict->clause, &p->env, because);
  }
  quire_span *chain = quire_arena_array(p->scratch, 1, sizeof *chain);
  const char *clause = quire_verdict_clause(p, verdict);
  if (chain == NULL || clause == NULL) {
    return false;
  }
  *chain = (quire_span){clause, strlen(clause)};
  because->chain = chain;
  because->chain_length = 1;
  return fill_operands(p, index, verdict, because);
}

/* One sentence about an obstacle, for the error's message. */
const char *quire_verdict_sentence(quire_planning *p, int32_t index, const quire_verdict *verdict,
                                   const quire_because *because, const char *clause) {
  const quire_manifest_variant *variant = &p->manifest->variants[index];
  switch (verdict->obstacle) {
    case QUIRE_OBSTACLE_BACKEND:
      return quire_planning_format(p, "%s: it is for backend %s, the device is of backend %s",
                                   clause, verdict->name, quire_target_backend(p->target));
    case QUIRE_OBSTACLE_FEATURE:
      return quire_planning_format(p, "%s: the device lacks this feature", clause);
    case QUIRE_OBSTACLE_LIMIT:
      return verdict->most < 0
                 ? quire_planning_format(p, "%s: the device does not tell this limit", clause)
                 : quire_planning_format(p, "%s: the device has %lld, %lld is needed", clause,
                                         (long long)verdict->most, (long long)verdict->count);
    case QUIRE_OBSTACLE_SUBGROUP:
      return quire_planning_format(p, "%s: the device's subgroups are too small or unknown",
                                   clause);
    case QUIRE_OBSTACLE_BUFFERS:
      return quire_planning_format(p, "%s: %lld buffers in one pass, the device has %s %lld",
                                   clause, (long long)verdict->count, verdict->name,
                                   (long long)verdict->most);
    case QUIRE_OBSTACLE_NATIVE: {
      const char *why = quire_native_describe(p, index, &variant->passes[verdict->index]);
      return why == NULL ? NULL : quire_planning_format(p, "%s: %s", clause, why);
    }
    case QUIRE_OBSTACLE_DENSE:
      return quire_planning_format(p, "%s: %s has strides, shaders take dense tensors only", clause,
                                   p->manifest->keys[verdict->index].name);
    default:
      if (verdict->code != QUIRE_EXPR_OK) {
        return quire_planning_format(p, "%s: error \"%s\" in %.*s", clause,
                                     quire_expr_code_name(verdict->code),
                                     (int)verdict->fault.at_length, verdict->fault.at);
      }
      return quire_because_sentence(p, because, &verdict->value);
  }
}
