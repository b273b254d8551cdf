/* The evaluator: runs flat code on a stack of values. */
#include "expr_code.h"

/* Stacks of this depth need no memory from the arena. */
enum { small_stack = 32 };

/*
 * Lists may share their parts, so that a short text could describe an enormous value: making or
 * comparing a list costs a step for every element at every level, and lists nest only so deep.
 */
static quire_expr_code charge_level(const quire_value *value, quire_expr_env *env, int nesting) {
  if (value->kind != QUIRE_VALUE_LIST) {
    return QUIRE_EXPR_OK;
  }
  if (nesting == 0 || env->steps_left < value->length) {
    return QUIRE_EXPR_LIMIT;
  }
  env->steps_left -= value->length;
  for (uint32_t i = 0; i < value->length; ++i) {
    quire_expr_code code = charge_level(&value->as.list[i], env, nesting - 1);
    if (code != QUIRE_EXPR_OK) {
      return code;
    }
  }
  return QUIRE_EXPR_OK;
}

/* Takes the cost of a list, one step an element at any level, from the steps left. */
static quire_expr_code charge_list(const quire_value *value, quire_expr_env *env) {
  return charge_level(value, env, QUIRE_LIST_NESTING);
}

static quire_expr_code make_list(const quire_value *items, uint8_t count, quire_expr_env *env,
                                 quire_value *out) {
  for (uint8_t i = 0; i < count; ++i) {
    if (items[i].kind == QUIRE_VALUE_UNDEFINED) {
      return QUIRE_EXPR_UNDEFINED;
    }
    /* One level is left for the list itself. */
    quire_expr_code code = charge_level(&items[i], env, QUIRE_LIST_NESTING - 1);
    if (code != QUIRE_EXPR_OK) {
      return code;
    }
  }
  quire_value *list = quire_arena_array(env->arena, count, sizeof *list);
  if (list == NULL) {
    return QUIRE_EXPR_MEMORY;
  }
  for (uint8_t i = 0; i < count; ++i) {
    list[i] = items[i];
  }
  *out = quire_value_list(list, count);
  return QUIRE_EXPR_OK;
}

static quire_expr_code load(const quire_ref *ref, quire_expr_env *env, quire_value *out,
                            quire_expr_fault *fault) {
  if (ref->kind == QUIRE_REF_UNKNOWN) {
    *out = quire_value_undefined();
    return QUIRE_EXPR_OK;
  }
  if (ref->kind == QUIRE_REF_FOLD_WIDTH) {
    *out = quire_value_integer(65535);
    return QUIRE_EXPR_OK;
  }
  return env->load(env, ref, out, fault);
}

/* Instructions that neither jump nor push a known value; their operands are top[0], ... */
static quire_expr_code operate(const quire_instruction *instruction, quire_value *top,
                               quire_expr_env *env) {
  switch ((quire_op)instruction->op) {
    case QUIRE_OP_DEFINED:
      *top = quire_value_boolean(top->kind != QUIRE_VALUE_UNDEFINED);
      return QUIRE_EXPR_OK;
    case QUIRE_OP_UNDEFINED:
      *top = quire_value_boolean(top->kind == QUIRE_VALUE_UNDEFINED);
      return QUIRE_EXPR_OK;
    case QUIRE_OP_NOT:
      *top = quire_value_boolean(!quire_value_truth(top));
      return QUIRE_EXPR_OK;
    case QUIRE_OP_NEGATE:
      return quire_operator_negate(top, top);
    case QUIRE_OP_LIST:
      return make_list(top, instruction->count, env, top);
    case QUIRE_OP_FILTER:
      return quire_filter_apply((quire_filter)instruction->operand, top, instruction->count, env,
                                top);
    case QUIRE_OP_IN:
      if (top[1].kind == QUIRE_VALUE_LIST) {
        quire_expr_code code = charge_list(&top[1], env);
        if (code != QUIRE_EXPR_OK) {
          return code;
        }
      }
      return quire_operator_template(QUIRE_OP_IN, &top[0], &top[1], env, top);
    case QUIRE_OP_CONCATENATE:
    case QUIRE_OP_ADD_TEXT:
    case QUIRE_OP_INDEX:
      return quire_operator_template((quire_op)instruction->op, &top[0], &top[1], env, top);
    case QUIRE_OP_CALL:
      if (instruction->operand == QUIRE_FUNCTION_NUMEL ||
          instruction->operand == QUIRE_FUNCTION_SAME_SHAPE) {
        quire_expr_code code = charge_list(top, env);
        if (code != QUIRE_EXPR_OK) {
          return code;
        }
      }
      return quire_function_call((quire_function)instruction->operand, top, instruction->count, env,
                                 top);
    default:
      break;
  }
  if (top[0].kind == QUIRE_VALUE_LIST && top[1].kind == QUIRE_VALUE_LIST) {
    quire_expr_code code = charge_list(&top[0], env);
    if (code != QUIRE_EXPR_OK) {
      return code;
    }
  }
  return quire_operator_binary((quire_op)instruction->op, &top[0], &top[1], &top[0]);
}

static quire_expr_code fail(const quire_expr *expr, const quire_instruction *instruction,
                            quire_expr_code code, quire_expr_fault *fault) {
  fault->code = code;
  if (fault->at == NULL) {
    fault->at = expr->text + instruction->begin;
    fault->at_length = instruction->length;
  }
  return code;
}

static quire_expr_code run(const quire_expr *expr, int32_t begin, int32_t end, quire_expr_env *env,
                           quire_value *stack, quire_expr_fault *fault) {
  quire_value *top = stack; /* the next free place */
  fault->at = NULL;
  for (int32_t i = begin; i < end; ++i) {
    const quire_instruction *instruction = &expr->code[i];
    if (instruction->op == QUIRE_OP_JUMP) {
      i += instruction->operand;
      continue;
    }
    if (env->steps_left == 0) {
      return fail(expr, instruction, QUIRE_EXPR_LIMIT, fault);
    }
    --env->steps_left;
    quire_expr_code code = QUIRE_EXPR_OK;
    switch ((quire_op)instruction->op) {
      case QUIRE_OP_LITERAL:
        *top++ = expr->literals[instruction->operand];
        continue;
      case QUIRE_OP_LOAD:
        code = load(&expr->refs[instruction->operand], env, top++, fault);
        break;
      case QUIRE_OP_AND:
      case QUIRE_OP_OR:
        if (quire_value_truth(top - 1) == (instruction->op == QUIRE_OP_OR)) {
          i += instruction->operand; /* the left operand decides, and is the result */
        } else {
          --top;
        }
        continue;
      case QUIRE_OP_CHOICE:
        --top;
        i += quire_value_truth(top) ? 0 : instruction->operand;
        continue;
      case QUIRE_OP_CHOICE_OR_NOTHING:
        if (quire_value_truth(--top)) {
          continue;
        }
        *top++ = quire_value_undefined();
        i += instruction->operand;
        continue;
      case QUIRE_OP_MACRO:
        top -= instruction->count;
        code = env->call(env, &expr->macro_calls[instruction->operand], top, top, fault);
        ++top;
        break;
      default:
        top -= instruction->count;
        code = operate(instruction, top++, env);
        break;
    }
    if (code != QUIRE_EXPR_OK) {
      return fail(expr, instruction, code, fault);
    }
  }
  return QUIRE_EXPR_OK;
}

quire_expr_code quire_expr_run(const quire_expr *expr, int32_t begin, int32_t end,
                               quire_expr_env *env, quire_value *value, quire_expr_fault *fault) {
  quire_value small[small_stack];
  quire_value *stack = small;
  if (expr->stack_depth > small_stack) {
    stack = quire_arena_alloc(env->arena, (size_t)expr->stack_depth * sizeof *stack);
    if (stack == NULL) {
      fault->code = QUIRE_EXPR_MEMORY;
      fault->at = expr->text;
      fault->at_length = expr->length;
      return QUIRE_EXPR_MEMORY;
    }
  }
  quire_expr_code code = run(expr, begin, end, env, stack, fault);
  if (code == QUIRE_EXPR_OK) {
    *value = stack[0];
  }
  return code;
}

quire_expr_code quire_expr_evaluate(const quire_expr *expr, quire_expr_env *env, quire_value *value,
                                    quire_expr_fault *fault) {
  if (expr->constant && env->steps_left > 0) {
    --env->steps_left;
    *value = expr->value;
    return QUIRE_EXPR_OK;
  }
  return quire_expr_run(expr, 0, expr->code_count, env, value, fault);
}
