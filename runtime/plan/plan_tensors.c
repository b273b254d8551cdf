/* Step 3: presence, element types and ranks. */
#include <string.h>

#include "planning.h"

/* ---- presence ---- */

static quire_status is_optional(quire_planning *p, const char *side,
                                const quire_manifest_tensor *tensor, bool *optional) {
  *optional = tensor->optional;
  if (tensor->optional_when == NULL) {
    return QUIRE_OK;
  }
  quire_value value;
  quire_expr_fault fault = {0};
  quire_expr_code code = quire_expr_evaluate(tensor->optional_when, &p->env, &value, &fault);
  if (code != QUIRE_EXPR_OK) {
    return quire_refuse_fault(p, quire_planning_format(p, "%s.%s.optional", side, tensor->key),
                              tensor->onnx, code, &fault);
  }
  *optional = value.kind == QUIRE_VALUE_BOOLEAN && value.as.boolean;
  return QUIRE_OK;
}

static quire_status refuse_missing(quire_planning *p, const quire_manifest_tensor *tensor) {
  return quire_refuse_by(p, "inputs", quire_planning_format(p, "inputs.%s", tensor->key), "missing",
                         QUIRE_BAD_PRESENCE, QUIRE_RULE_PRESENCE, tensor->onnx,
                         "is required and not given");
}

static quire_status check_inputs_present(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < manifest->input_count; i++) {
    bool optional = false;
    if (p->inputs[i].present) {
      continue;
    }
    quire_status status = is_optional(p, "inputs", &manifest->inputs[i], &optional);
    if (status != QUIRE_OK) {
      return status;
    }
    if (!optional) {
      return refuse_missing(p, &manifest->inputs[i]);
    }
  }
  return QUIRE_OK;
}

/* An in-place tensor is present exactly when its input is: asking for its output alone is a slip.
 */
static quire_status find_outputs_present(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < manifest->output_count; i++) {
    p->outputs[i].present = p->outputs[i].given; /* a clause may ask for an output behind its own */
  }
  for (size_t i = 0; i < manifest->output_count; i++) {
    const quire_manifest_tensor *tensor = &manifest->outputs[i];
    int32_t input = manifest->keys[tensor->key_index].input;
    bool optional = false;
    if (input >= 0) {
      p->outputs[i].present = p->inputs[input].present;
      if (p->outputs[i].given && !p->outputs[i].present) {
        return refuse_missing(p, &manifest->inputs[input]);
      }
      continue;
    }
    if (!p->outputs[i].given) {
      quire_status status = is_optional(p, "outputs", tensor, &optional);
      if (status != QUIRE_OK) {
        return status;
      }
    }
    p->outputs[i].present = p->outputs[i].given || !optional;
  }
  return QUIRE_OK;
}

/* Names that `optional` clauses used were evaluated before types were known: forget them. */
static void forget_early_values(quire_planning *p) {
  memset(p->memos[QUIRE_LAYER_KERNEL], 0, p->manifest->derive.count * sizeof **p->memos);
}

static bool has_optional_clauses(const quire_manifest_tensor *tensors, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (tensors[i].optional_when != NULL) {
      return true;
    }
  }
  return false;
}

static quire_status check_presence(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  quire_status status = check_inputs_present(p);
  if (status == QUIRE_OK) {
    status = find_outputs_present(p);
  }
  if (has_optional_clauses(manifest->inputs, manifest->input_count) ||
      has_optional_clauses(manifest->outputs, manifest->output_count)) {
    forget_early_values(p);
    memset(p->inferred, 0, manifest->output_count * sizeof *p->inferred);
  }
  return status;
}

/* ---- element types ---- */

static bool is_listed(const quire_manifest_symbol *symbol, quire_dtype dtype) {
  for (size_t i = 0; i < symbol->dtype_count; i++) {
    if (symbol->dtypes[i] == dtype) {
      return true;
    }
  }
  return false;
}

/* "float16, float32" */
static const char *list_text(quire_planning *p, const quire_manifest_symbol *symbol) {
  quire_text text;
  quire_text_init(&text, p->scratch->allocator);
  for (size_t i = 0; i < symbol->dtype_count; i++) {
    quire_text_put(&text, i > 0 ? ", " : "");
    quire_text_put(&text, quire_dtype_name(symbol->dtypes[i]));
  }
  return quire_planning_keep(p, &text);
}

static quire_status refuse_symbol(quire_planning *p, int32_t symbol, const char *stage,
                                  const char *reason, const char *subject, const char *detail) {
  return quire_refuse_by(p, stage,
                         quire_planning_format(p, "dtypes.%s", p->manifest->symbols[symbol].name),
                         reason, QUIRE_BAD_TYPE, QUIRE_RULE_DTYPE, subject, detail);
}

static quire_status check_explicit_symbols(quire_planning *p) {
  for (size_t i = 0; i < p->manifest->symbol_count; i++) {
    const quire_manifest_symbol *symbol = &p->manifest->symbols[i];
    if (p->symbols[i] == QUIRE_DTYPE_NONE || is_listed(symbol, p->symbols[i])) {
      continue;
    }
    const char *list = list_text(p, symbol);
    return refuse_symbol(
        p, (int32_t)i, "inputs", "dtype", symbol->name,
        list == NULL ? NULL : quire_planning_format(p, "the type given is not among %s", list));
  }
  return QUIRE_OK;
}

/* Name of a tensor whose type bound a symbol, for messages. */
static const char *binder(const quire_planning *p, int32_t symbol) {
  for (size_t i = 0; i < p->manifest->input_count; i++) {
    if (p->inputs[i].present && p->manifest->inputs[i].symbol == symbol) {
      return p->manifest->inputs[i].onnx;
    }
  }
  return "the request";
}

static quire_status check_type(quire_planning *p, const char *side,
                               const quire_manifest_tensor *tensor, quire_dtype dtype) {
  const char *detail = NULL;
  const char *name = quire_dtype_name(dtype);
  if (tensor->symbol < 0) {
    if (dtype == tensor->dtype) {
      return QUIRE_OK;
    }
    detail =
        quire_planning_format(p, "is %s, %s is expected", name, quire_dtype_name(tensor->dtype));
  } else {
    const quire_manifest_symbol *symbol = &p->manifest->symbols[tensor->symbol];
    quire_dtype *bound = &p->symbols[tensor->symbol];
    if (is_listed(symbol, dtype)) {
      if (*bound == QUIRE_DTYPE_NONE) {
        *bound = dtype;
      }
      if (*bound == dtype) {
        return QUIRE_OK;
      }
      detail =
          quire_planning_format(p, "is %s, but %s of type %s is %s", name,
                                binder(p, tensor->symbol), symbol->name, quire_dtype_name(*bound));
    } else {
      const char *list = list_text(p, symbol);
      detail =
          list == NULL ? NULL : quire_planning_format(p, "is %s, it must be among %s", name, list);
    }
  }
  return quire_refuse_by(p, side, quire_planning_format(p, "%s.%s", side, tensor->key), "dtype",
                         QUIRE_BAD_TYPE, QUIRE_RULE_DTYPE, tensor->onnx, detail);
}

static quire_status check_types(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  quire_status status = check_explicit_symbols(p);
  for (size_t i = 0; status == QUIRE_OK && i < manifest->input_count; i++) {
    if (p->inputs[i].present) {
      status = check_type(p, "inputs", &manifest->inputs[i], p->inputs[i].dtype);
    }
  }
  for (size_t i = 0; status == QUIRE_OK && i < manifest->output_count; i++) {
    if (p->outputs[i].given && p->outputs[i].dtype != QUIRE_DTYPE_NONE) {
      status = check_type(p, "outputs", &manifest->outputs[i], p->outputs[i].dtype);
    }
  }
  return status;
}

/* Binds a symbol that no tensor bound (LANGUAGE.md 8.2). */
static void bind_by_default(quire_planning *p, size_t index) {
  const quire_manifest_symbol *symbol = &p->manifest->symbols[index];
  if (symbol->dtype_count == 1) {
    p->symbols[index] = symbol->dtypes[0];
    return;
  }
  for (size_t i = 0; i < p->manifest->input_count; i++) {
    if (p->inputs[i].present && is_listed(symbol, p->inputs[i].dtype)) {
      p->symbols[index] = p->inputs[i].dtype;
      return;
    }
  }
}

static quire_status settle_types(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < manifest->symbol_count; i++) {
    if (p->symbols[i] == QUIRE_DTYPE_NONE) {
      bind_by_default(p, i);
    }
  }
  for (size_t i = 0; i < manifest->output_count; i++) {
    const quire_manifest_tensor *tensor = &manifest->outputs[i];
    quire_dtype dtype = tensor->symbol < 0 ? tensor->dtype : p->symbols[tensor->symbol];
    if (!p->outputs[i].present) {
      continue;
    }
    if (dtype == QUIRE_DTYPE_NONE) {
      return refuse_symbol(
          p, tensor->symbol, "outputs", "unbound", tensor->onnx,
          quire_planning_format(p, "no input decides its type %s: it must be given",
                                manifest->symbols[tensor->symbol].name));
    }
    p->outputs[i].dtype = dtype;
  }
  return QUIRE_OK;
}

/* ---- ranks ---- */

quire_status quire_planning_check_rank(quire_planning *p, const char *side,
                                       const quire_manifest_tensor *tensor, const char *what,
                                       int32_t ndim) {
  if (tensor->rank == NULL) {
    return QUIRE_OK;
  }
  quire_value rank;
  quire_expr_fault fault = {0};
  quire_expr_code code = quire_expr_evaluate(tensor->rank, &p->env, &rank, &fault);
  if (code == QUIRE_EXPR_OK && rank.kind != QUIRE_VALUE_INTEGER) {
    code = rank.kind == QUIRE_VALUE_UNDEFINED ? QUIRE_EXPR_UNDEFINED : QUIRE_EXPR_TYPE;
    quire_fault_blame(tensor->rank, code, &fault);
  }
  if (code == QUIRE_EXPR_OK && rank.as.integer == ndim) {
    return QUIRE_OK;
  }
  const char *failing = quire_planning_format(p, "%s.%s.rank", side, tensor->key);
  if (code != QUIRE_EXPR_OK) {
    return quire_refuse_fault(p, failing, tensor->onnx, code, &fault);
  }
  return quire_refuse_by(p, side, failing, "rank", QUIRE_BAD_RANK, QUIRE_RULE_RANK, tensor->onnx,
                         quire_planning_format(p, "%s %d dimensions, %lld are expected", what,
                                               (int)ndim, (long long)rank.as.integer));
}

static quire_status check_ranks(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  quire_status status = QUIRE_OK;
  for (size_t i = 0; status == QUIRE_OK && i < manifest->input_count; i++) {
    if (p->inputs[i].present) {
      status =
          quire_planning_check_rank(p, "inputs", &manifest->inputs[i], "has", p->inputs[i].ndim);
    }
  }
  for (size_t i = 0; status == QUIRE_OK && i < manifest->output_count; i++) {
    const quire_request_tensor *asked = p->asked_outputs[i];
    if (asked != NULL && asked->ndim >= 0) {
      status = quire_planning_check_rank(p, "outputs", &manifest->outputs[i], "has", asked->ndim);
    }
  }
  return status;
}

static quire_status check_output_shapes_given(quire_planning *p) {
  for (size_t i = 0; i < p->manifest->output_count; i++) {
    const quire_manifest_tensor *tensor = &p->manifest->outputs[i];
    bool in_place = p->manifest->keys[tensor->key_index].input >= 0;
    if (p->outputs[i].present && !in_place && !tensor->shape.given && p->outputs[i].ndim < 0) {
      return quire_refuse_by(p, "outputs",
                             quire_planning_format(p, "outputs.%s.shape", tensor->key), "missing",
                             QUIRE_BAD_SHAPE, QUIRE_RULE_SHAPE, tensor->onnx,
                             "its shape must be given: no rule infers it");
    }
  }
  return QUIRE_OK;
}

/* ---- aliases ---- */

static quire_status check_aliases(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < manifest->output_count; i++) {
    const quire_manifest_tensor *tensor = &manifest->outputs[i];
    int32_t alias = p->outputs[i].alias;
    bool in_place = manifest->keys[tensor->key_index].input >= 0;
    int32_t allowed = in_place ? tensor->key_index : tensor->may_alias;
    if (alias < 0 || (alias == allowed && quire_planning_tensor(p, alias)->present)) {
      continue;
    }
    const char *input = manifest->inputs[manifest->keys[alias].input].onnx;
    return quire_refuse_by(
        p, "outputs", quire_planning_format(p, "outputs.%s.alias", tensor->key), "alias",
        QUIRE_BAD_ALIAS, QUIRE_RULE_ALIAS, tensor->onnx,
        quire_planning_format(p,
                              alias == allowed ? "is given as the buffer of %s, which is absent"
                                               : "may not be the buffer of %s",
                              input));
  }
  return QUIRE_OK;
}

quire_status quire_planning_check_tensors(quire_planning *p) {
  static quire_status (*const steps[])(quire_planning *) = {
      check_presence, check_types,  settle_types, check_output_shapes_given,
      check_ranks,    check_aliases};
  quire_status status = QUIRE_OK;
  for (size_t i = 0; status == QUIRE_OK && i < sizeof steps / sizeof *steps; i++) {
    status = steps[i](p);
  }
  return status;
}
