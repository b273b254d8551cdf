/* Executing a template's tree, within the limits of section 12. */
#include <string.h>

#include "error.h"
#include "template_parts.h"

static bool write_list(quire_template_rendering *r, const quire_template_node *node);

/* ---- faults ---- */

/* Place of a fault in the template: where it was raised, if that is text of the template. */
static size_t place_of(const quire_template_rendering *r, const quire_expr *expr,
                       const quire_expr_fault *fault) {
  const quire_template *made = r->made;
  size_t length = 0;
  const char *text = quire_expr_source(expr, &length);
  uintptr_t at = (uintptr_t)fault->at;
  uintptr_t begin = (uintptr_t)made->text;
  bool own = at >= begin && at < begin + made->length;
  return (size_t)((own ? fault->at : text) - made->text);
}

static bool fail(const quire_template_rendering *r, const quire_expr *expr, quire_expr_code code,
                 const quire_expr_fault *fault) {
  int shown = fault->at_length > 200 ? 200 : (int)fault->at_length;
  if (code == QUIRE_EXPR_MEMORY) {
    quire_template_fault_memory(r->fault);
  } else {
    quire_template_fault_set(r->fault, quire_expr_code_name(code), place_of(r, expr, fault),
                             "`%.*s`", shown, fault->at);
  }
  return false;
}

/* A conversion of an expression's value failed: the whole expression is to blame. */
static bool fail_value(const quire_template_rendering *r, const quire_expr *expr,
                       quire_expr_code code) {
  quire_expr_fault fault = {code, NULL, 0};
  fault.at = quire_expr_source(expr, &fault.at_length);
  return fail(r, expr, code, &fault);
}

static bool evaluate(quire_template_rendering *r, const quire_expr *expr, quire_value *value) {
  quire_expr_fault fault = {QUIRE_EXPR_OK, NULL, 0};
  *value = quire_value_undefined();
  quire_expr_code code = quire_expr_evaluate(expr, &r->env, value, &fault);
  return code == QUIRE_EXPR_OK || fail(r, expr, code, &fault);
}

/* Every statement costs a step, so that long bodies in many rounds end. */
static bool take_step(quire_template_rendering *r, const char *at) {
  if (r->env.steps_left > 0) {
    --r->env.steps_left;
    return true;
  }
  quire_template_fault_set(r->fault, "limit", (size_t)(at - r->made->text),
                           "too many steps in one rendering");
  return false;
}

/* ---- output ---- */

static bool write_bytes(quire_template_rendering *r, const char *at, const char *text,
                        size_t length) {
  if (r->out->length + length > QUIRE_TEMPLATE_MAX_TEXT) {
    quire_template_fault_set(r->fault, "limit", (size_t)(at - r->made->text),
                             "more than %d bytes are rendered", QUIRE_TEMPLATE_MAX_TEXT);
    return false;
  }
  quire_text_append(r->out, text, length);
  if (r->out->failed) {
    quire_template_fault_memory(r->fault);
  }
  return !r->out->failed;
}

static bool write_output(quire_template_rendering *r, const quire_template_node *node) {
  quire_value value;
  size_t length = 0;
  const char *at = quire_expr_source(node->expr, &length);
  if (!evaluate(r, node->expr, &value)) {
    return false;
  }
  if (value.kind == QUIRE_VALUE_STRING) {
    return write_bytes(r, at, value.as.string, value.length);
  }
  quire_text form;
  quire_text_init(&form, r->env.arena->allocator);
  bool ok = quire_value_write(&form, &value);
  if (!ok) {
    (void)fail_value(r, node->expr,
                     value.kind == QUIRE_VALUE_LIST ? QUIRE_EXPR_TYPE : QUIRE_EXPR_RANGE);
  } else if (form.failed) {
    quire_template_fault_memory(r->fault);
    ok = false;
  } else {
    ok = write_bytes(r, at, quire_text_view(&form), form.length);
  }
  quire_text_release(&form);
  return ok;
}

/* ---- variables ---- */

static bool push_variable(quire_template_rendering *r, int32_t name, quire_value value) {
  quire_template_variable *variables = quire_template_grow(
      r->made, r->variables, r->variable_count, &r->variable_capacity, sizeof *variables);
  if (variables == NULL) {
    return false;
  }
  r->variables = variables;
  variables[r->variable_count++] = (quire_template_variable){name, value};
  return true;
}

/* Sets the variable of the innermost frame; names of outer ones are hidden until its end. */
static bool set_variable(quire_template_rendering *r, int32_t name, quire_value value) {
  for (int32_t i = r->variable_count - 1; i >= r->frame; --i) {
    if (r->variables[i].name == name) {
      r->variables[i].value = value;
      return true;
    }
  }
  bool is_global = r->frame == 0;
  if (!push_variable(r, name, value)) {
    return false;
  }
  r->global_count += is_global ? 1 : 0;
  return true;
}

/* ---- for ---- */

/* What a loop goes over: a list, or begin + index * step. */
typedef struct loop_range {
  const quire_value *items;
  int64_t begin, step, count;
} loop_range;

/* Rounds of [begin, end) by step, without overflow. */
static int64_t count_rounds(int64_t begin, int64_t end, int64_t step) {
  if (step > 0 ? begin >= end : begin <= end) {
    return 0;
  }
  uint64_t distance = step > 0 ? (uint64_t)end - (uint64_t)begin : (uint64_t)begin - (uint64_t)end;
  uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  uint64_t count = (distance - 1) / stride + 1;
  return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

static bool find_range(quire_template_rendering *r, const quire_template_node *node,
                       loop_range *range) {
  quire_value value;
  if (!evaluate(r, node->expr, &value)) {
    return false;
  }
  if (quire_expr_is_range(node->expr)) {
    const quire_value *items = value.as.list;
    range->begin = items[0].as.integer;
    range->step = items[2].as.integer;
    range->count = count_rounds(range->begin, items[1].as.integer, range->step);
    return true;
  }
  if (value.kind != QUIRE_VALUE_LIST) {
    return fail_value(r, node->expr,
                      value.kind == QUIRE_VALUE_UNDEFINED ? QUIRE_EXPR_UNDEFINED : QUIRE_EXPR_TYPE);
  }
  range->items = value.as.list;
  range->count = value.length;
  return true;
}

static bool write_for(quire_template_rendering *r, const quire_template_node *node) {
  loop_range range = {NULL, 0, 1, 0};
  size_t length = 0;
  const char *at = quire_expr_source(node->expr, &length);
  if (!find_range(r, node, &range)) {
    return false;
  }
  if (range.count > QUIRE_TEMPLATE_MAX_ROUNDS - r->rounds) {
    quire_template_fault_set(r->fault, "limit", (size_t)(at - r->made->text),
                             "more than %d rounds in one rendering", QUIRE_TEMPLATE_MAX_ROUNDS);
    return false;
  }
  r->rounds += range.count;
  int32_t frame = r->frame;
  int32_t variables = r->variable_count;
  quire_template_loop loop = {0, range.count, r->loop};
  r->frame = variables;
  r->loop = &loop;
  bool ok = push_variable(r, node->name, quire_value_undefined());
  for (; ok && loop.index < loop.count; ++loop.index) {
    r->variables[variables].value =
        range.items != NULL ? range.items[loop.index]
                            : quire_value_integer(range.begin + loop.index * range.step);
    ok = take_step(r, at) && write_list(r, node->body);
  }
  r->loop = loop.outer;
  r->frame = frame;
  r->variable_count = variables;
  return ok;
}

/* ---- macros ---- */

/* Values of all parameters: arguments as they are, defaults seeing the parameters before them. */
static bool bind_parameters(quire_template_rendering *r, const quire_template_macro *macro,
                            const quire_value *given, uint32_t given_bits) {
  for (int32_t i = 0; i < macro->signature.parameter_count; ++i) {
    quire_value value = given[i];
    if ((given_bits >> i & 1u) == 0 && macro->defaults[i] != NULL &&
        !evaluate(r, macro->defaults[i], &value)) {
      return false;
    }
    if (!push_variable(r, macro->parameters[i], value)) {
      return false;
    }
  }
  return true;
}

/* Runs a macro's body with a frame and an output of its own. */
static bool run_macro(quire_template_rendering *r, const quire_template_macro *macro,
                      const quire_value *given, uint32_t given_bits, quire_text *out) {
  const quire_template_rendering before = *r;
  r->frame = r->variable_count;
  r->macro_frame = r->variable_count;
  r->loop = NULL;
  r->out = out;
  ++r->macro_depth;
  bool ok = bind_parameters(r, macro, given, given_bits) && write_list(r, macro->body);
  r->variable_count = before.variable_count;
  r->frame = before.frame;
  r->macro_frame = before.macro_frame;
  r->loop = before.loop;
  r->out = before.out;
  --r->macro_depth;
  return ok;
}

static quire_expr_code call_macro(quire_expr_env *env, const quire_macro_call *call,
                                  const quire_value *arguments, quire_value *value,
                                  quire_expr_fault *fault) {
  quire_template_rendering *r = env->user;
  quire_value given[QUIRE_MACRO_PARAMETERS];
  uint32_t given_bits = 0;
  memset(given, 0, sizeof given);
  fault->at = NULL;
  if (!r->made->macros[call->macro].is_defined) {
    return QUIRE_EXPR_UNDEFINED; /* the branch that it stands in was not taken */
  }
  if (r->macro_depth >= QUIRE_TEMPLATE_MAX_DEPTH) {
    return QUIRE_EXPR_LIMIT;
  }
  for (int32_t i = 0; i < call->argument_count; ++i) {
    given[call->parameters[i]] = arguments[i];
    given_bits |= 1u << call->parameters[i];
  }
  quire_text out;
  quire_text_init(&out, env->arena->allocator);
  quire_expr_code code = QUIRE_EXPR_OK;
  if (run_macro(r, &r->made->macros[call->macro], given, given_bits, &out)) {
    code = quire_string_make(env, quire_text_view(&out), out.length, value);
  } else {
    /* The fault is noted already; the code only ends what goes on around. */
    code = r->fault->out_of_memory ? QUIRE_EXPR_MEMORY : QUIRE_EXPR_LIMIT;
  }
  quire_text_release(&out);
  return code;
}

/* ---- statements ---- */

/* The first branch whose condition holds; they are a list, not a nest. */
static bool write_if(quire_template_rendering *r, const quire_template_node *node) {
  for (const quire_template_node *branch = node; branch != NULL; branch = branch->other) {
    quire_value value = quire_value_boolean(true);
    if (branch->expr != NULL && !evaluate(r, branch->expr, &value)) {
      return false;
    }
    if (quire_value_truth(&value)) {
      return write_list(r, branch->body);
    }
  }
  return true;
}

static bool write_node(quire_template_rendering *r, const quire_template_node *node) {
  quire_value value;
  switch (node->kind) {
    case QUIRE_TEMPLATE_TEXT:
      return take_step(r, node->text.text) &&
             write_bytes(r, node->text.text, node->text.text, node->text.length);
    case QUIRE_TEMPLATE_OUTPUT:
      return write_output(r, node);
    case QUIRE_TEMPLATE_IF:
      return write_if(r, node);
    case QUIRE_TEMPLATE_FOR:
      return write_for(r, node);
    case QUIRE_TEMPLATE_SET:
      return evaluate(r, node->expr, &value) && set_variable(r, node->name, value);
    case QUIRE_TEMPLATE_MACRO:
      r->made->macros[node->name].is_defined = true;
      return true;
  }
  return false;
}

static bool write_list(quire_template_rendering *r, const quire_template_node *node) {
  for (; node != NULL; node = node->next) {
    if (!write_node(r, node)) {
      return false;
    }
  }
  return true;
}

/* ---- asking the plan ---- */

static bool ask_has(quire_expr_env *env, quire_space space, const char *key, size_t length) {
  const quire_template_rendering *r = env->user;
  quire_expr_env *plan = quire_plan_names_env(r->names);
  return plan->has(plan, space, key, length);
}

static bool ask_feature(quire_expr_env *env, const char *name, size_t length) {
  const quire_template_rendering *r = env->user;
  quire_expr_env *plan = quire_plan_names_env(r->names);
  return plan->feature(plan, name, length);
}

bool quire_template_write(quire_template_rendering *rendering) {
  const quire_expr_env *plan = quire_plan_names_env(rendering->names);
  rendering->env = (quire_expr_env){.user = rendering,
                                    .load = quire_template_load,
                                    .has = ask_has,
                                    .feature = ask_feature,
                                    .call = call_macro,
                                    .arena = plan->arena,
                                    .steps_left = plan->steps_left};
  /* A variable that nobody can name: frames of loops and macros begin behind the template's own. */
  enum { nameless = -1 };
  rendering->global_count = 1;
  return push_variable(rendering, nameless, quire_value_undefined()) &&
         write_list(rendering, rendering->made->body);
}
