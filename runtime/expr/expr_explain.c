/* Why a clause is not true (docs/manifest-language.md 8.3). */
#include "expr_code.h"

/* A place in the tree of some expression. */
typedef struct quire_place {
  const quire_expr *expr;
  int32_t node;
} quire_place;

static const quire_node *node_of(quire_place place) {
  return &place.expr->nodes[place.node];
}

static quire_place child(quire_place place, int index) {
  quire_place result = {place.expr, node_of(place)->first};
  for (int i = 0; i < index; ++i) {
    result.node = node_of(result)->next;
  }
  return result;
}

static quire_span span_of(quire_place place) {
  quire_span span = {place.expr->text + node_of(place)->begin, node_of(place)->length};
  return span;
}

static quire_expr_code value_of(quire_place place, quire_expr_env *env, quire_value *value) {
  quire_expr_fault fault = {.at = NULL};
  *value = quire_value_undefined();
  return quire_expr_run(place.expr, node_of(place)->code_begin, node_of(place)->code_end, env,
                        value, &fault);
}

static bool same_span(quire_span a, quire_span b) {
  if (a.length != b.length) {
    return false;
  }
  for (size_t i = 0; i < a.length; ++i) {
    if (a.text[i] != b.text[i]) {
      return false;
    }
  }
  return true;
}

/* ---- the chain ---- */

/* The expression of a derived name, if `place` is one; a number or boolean of the JSON is none. */
static const quire_expr *definition_of(quire_place place, quire_expr_env *env) {
  if (node_of(place)->op != QUIRE_OP_LOAD) {
    return NULL;
  }
  const quire_ref *ref = &place.expr->refs[node_of(place)->operand];
  if (ref->kind != QUIRE_REF_DERIVED) {
    return NULL;
  }
  const quire_expr *definition = env->definition(env, ref);
  return definition == NULL || definition->from_json ? NULL : definition;
}

/* One step towards the reason; false at its end. Names that are passed are left to the caller. */
static bool step(quire_place *place, quire_expr_env *env) {
  const quire_node *node = node_of(*place);
  quire_value value;
  if (node->op == QUIRE_OP_AND) {
    quire_place left = child(*place, 0);
    if (value_of(left, env, &value) != QUIRE_EXPR_OK) {
      return false;
    }
    *place = quire_value_truth(&value) ? child(*place, 1) : left;
    return true;
  }
  if (node->op == QUIRE_OP_CHOICE) {
    if (value_of(child(*place, 0), env, &value) != QUIRE_EXPR_OK) {
      return false;
    }
    *place = child(*place, quire_value_truth(&value) ? 1 : 2);
    return true;
  }
  if (node->op == QUIRE_OP_OR && node_of(child(*place, 0))->op == QUIRE_OP_NOT) {
    *place = child(*place, 1);
    return true;
  }
  return false;
}

/* Derived names nest at most 64 deep (docs/manifest-language.md 12), and no chain is longer. */
enum { longest_chain = 64 };

/* Follows the clause to the place that decides, noting the names that it passes. */
static quire_place follow(const quire_expr *clause, quire_expr_env *env, quire_span *chain,
                          size_t *count) {
  quire_place place = {clause, clause->node_count - 1};
  *count = 0;
  for (;;) {
    const quire_expr *definition = definition_of(place, env);
    if (definition != NULL) {
      if (*count == longest_chain) {
        return place;
      }
      chain[(*count)++] = span_of(place);
      place.expr = definition;
      place.node = definition->node_count - 1;
    } else if (!step(&place, env)) {
      return place;
    }
  }
}

/* ---- the operands ---- */

static bool is_comparison(const quire_node *node) {
  return node->op >= QUIRE_OP_EQUAL && node->op <= QUIRE_OP_GREATER_EQUAL;
}

static bool add_operand(quire_place place, quire_expr_env *env, quire_because *because,
                        quire_operand *operands) {
  quire_span text = span_of(place);
  if (node_of(place)->op == QUIRE_OP_LITERAL) {
    return true;
  }
  for (size_t i = 0; i < because->operand_count; ++i) {
    if (same_span(operands[i].text, text)) {
      return true;
    }
  }
  quire_operand *operand = &operands[because->operand_count++];
  operand->text = text;
  operand->error = value_of(place, env, &operand->value);
  return operand->error != QUIRE_EXPR_MEMORY;
}

/* `place` is no `or`; `alternative`: it is one of an `or`'s, so any form counts. */
static bool add_operands(quire_place place, bool alternative, quire_expr_env *env,
                         quire_because *because, quire_operand *operands) {
  const quire_node *node = node_of(place);
  if (is_comparison(node)) {
    return add_operand(child(place, 0), env, because, operands) &&
           add_operand(child(place, 1), env, because, operands);
  }
  if (node->op == QUIRE_OP_NOT) {
    return add_operand(child(place, 0), env, because, operands);
  }
  return !alternative || add_operand(place, env, because, operands);
}

/* The alternatives of an `or`, from left to right, nested ones opened, without recursion. */
static bool collect(quire_place place, quire_expr_env *env, quire_because *because,
                    quire_operand *operands) {
  if (node_of(place)->op != QUIRE_OP_OR) {
    return add_operands(place, false, env, because, operands);
  }
  size_t most = (size_t)place.expr->node_count;
  int32_t *pending = quire_arena_array(env->arena, most, sizeof *pending);
  if (pending == NULL) {
    return false;
  }
  size_t count = 0;
  pending[count++] = place.node;
  while (count > 0) {
    quire_place next = {place.expr, pending[--count]};
    if (node_of(next)->op == QUIRE_OP_OR) {
      pending[count++] = child(next, 1).node;
      pending[count++] = child(next, 0).node;
    } else if (!add_operands(next, true, env, because, operands)) {
      return false;
    }
  }
  return true;
}

bool quire_expr_explain(const quire_expr *clause, quire_expr_env *env, quire_because *because) {
  size_t names = 0;
  quire_span *chain = quire_arena_array(env->arena, longest_chain + 1, sizeof *chain);
  if (chain == NULL) {
    return false;
  }
  quire_place place = follow(clause, env, chain, &names);
  quire_span text = span_of(place);
  if (names == 0 || !same_span(chain[names - 1], text)) {
    chain[names++] = text;
  }
  quire_operand *operands =
      quire_arena_array(env->arena, (size_t)place.expr->node_count, sizeof *operands);
  if (operands == NULL) {
    return false;
  }
  because->chain = chain;
  because->chain_length = names;
  because->operands = operands;
  because->operand_count = 0;
  return collect(place, env, because, operands);
}
