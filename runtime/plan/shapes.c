/* Shapes: evaluated, and inferred on first use. */
#include <string.h>

#include "checked.h"
#include "planning.h"

void quire_strides_fill(const int64_t *shape, int32_t ndim, int64_t *strides) {
  int64_t stride = 1;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    strides[i] = stride;
    if (!quire_mul_i64(stride, shape[i], &stride)) {
      stride = INT64_MAX;
    }
  }
}

bool quire_strides_are_dense(const int64_t *shape, const int64_t *strides, int32_t ndim) {
  int64_t stride = 1;
  bool dense = true;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    if (shape[i] == 0) {
      return true;
    }
    dense = dense && (shape[i] == 1 || strides[i] == stride);
    dense = quire_mul_i64(stride, shape[i], &stride) && dense;
  }
  return dense;
}

/* ---- evaluating ---- */

/* A failed conversion is told with the text of the expression whose value it was. */
void quire_fault_blame(const quire_expr *expr, quire_expr_code code, quire_expr_fault *fault) {
  fault->code = code;
  fault->at = quire_expr_source(expr, &fault->at_length);
}

static quire_expr_code evaluate_list(quire_planning *p, const quire_expr *expr, bool allow_number,
                                     int64_t *dims, int32_t *ndim, quire_expr_fault *fault) {
  quire_value value;
  quire_expr_code code = quire_expr_evaluate(expr, &p->env, &value, fault);
  if (code != QUIRE_EXPR_OK) {
    return code;
  }
  const quire_value *items = &value;
  uint32_t count = 1;
  if (value.kind == QUIRE_VALUE_LIST) {
    items = value.as.list;
    count = value.length;
  } else if (value.kind == QUIRE_VALUE_UNDEFINED) {
    code = QUIRE_EXPR_UNDEFINED;
  } else if (!allow_number) {
    code = QUIRE_EXPR_TYPE;
  }
  if (code == QUIRE_EXPR_OK && count > QUIRE_MAX_RANK) {
    code = QUIRE_EXPR_RANGE;
  }
  for (uint32_t i = 0; code == QUIRE_EXPR_OK && i < count; i++) {
    code = quire_value_to_integer(&items[i], 0, INT64_MAX, &dims[i]);
  }
  if (code != QUIRE_EXPR_OK) {
    quire_fault_blame(expr, code, fault);
  }
  *ndim = (int32_t)count;
  return code;
}

quire_expr_code quire_shape_evaluate(quire_planning *p, const quire_shape_expr *shape,
                                     bool allow_number, int64_t *dims, int32_t *ndim,
                                     quire_expr_fault *fault) {
  if (shape->list != NULL) {
    return evaluate_list(p, shape->list, allow_number, dims, ndim, fault);
  }
  if (shape->count > QUIRE_MAX_RANK) {
    quire_fault_blame(shape->dims[QUIRE_MAX_RANK], QUIRE_EXPR_RANGE, fault);
    return QUIRE_EXPR_RANGE;
  }
  for (size_t i = 0; i < shape->count; i++) {
    quire_value value;
    quire_expr_code code = quire_expr_evaluate(shape->dims[i], &p->env, &value, fault);
    if (code != QUIRE_EXPR_OK) {
      return code;
    }
    code = quire_value_to_integer(&value, 0, INT64_MAX, &dims[i]);
    if (code != QUIRE_EXPR_OK) {
      quire_fault_blame(shape->dims[i], code, fault);
      return code;
    }
  }
  *ndim = (int32_t)shape->count;
  return QUIRE_EXPR_OK;
}

quire_expr_code quire_planning_infer(quire_planning *p, int32_t output, quire_expr_fault *fault) {
  quire_memo *memo = &p->inferred[output];
  const quire_shape_expr *shape = &p->manifest->outputs[output].shape;
  if (memo->state == QUIRE_MEMO_BUSY) {
    return QUIRE_EXPR_CYCLE;
  }
  if (!shape->given) {
    return QUIRE_EXPR_OK; /* nothing says it: undefined */
  }
  if (memo->state == QUIRE_MEMO_NEW) {
    if (p->depth >= QUIRE_PLAN_DEPTH) {
      return QUIRE_EXPR_LIMIT;
    }
    quire_plan_tensor *tensor = &p->outputs[output];
    int32_t ndim = 0;
    memo->state = QUIRE_MEMO_BUSY;
    p->depth++;
    memo->code = quire_shape_evaluate(p, shape, false, tensor->shape, &ndim, &memo->fault);
    p->depth--;
    memo->state = QUIRE_MEMO_DONE;
    if (memo->code == QUIRE_EXPR_OK) {
      tensor->ndim = ndim;
      quire_strides_fill(tensor->shape, ndim, tensor->strides);
    }
  }
  if (memo->code != QUIRE_EXPR_OK) {
    *fault = memo->fault;
  }
  return memo->code;
}
