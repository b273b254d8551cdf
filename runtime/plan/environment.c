/* What expressions see: the request, the device, and derived names evaluated when first used. */
#include <string.h>

#include "planning.h"

const quire_plan_tensor *quire_planning_tensor(const quire_planning *p, int32_t key) {
  const quire_manifest_key *record = &p->manifest->keys[key];
  return record->input >= 0 ? &p->inputs[record->input] : &p->outputs[record->output];
}

/* The request gives the output side of an in-place key a buffer of its own. */
static bool is_bound(const quire_planning *p, int32_t key) {
  const quire_manifest_key *record = &p->manifest->keys[key];
  return record->input >= 0 && record->output >= 0 && p->outputs[record->output].given &&
         p->outputs[record->output].alias < 0;
}

/* The record in force for strides: an in-place tensor's output side if it has a buffer of its own.
 */
static const quire_plan_tensor *working_tensor(const quire_planning *p, int32_t key) {
  if (is_bound(p, key)) {
    return &p->outputs[p->manifest->keys[key].output];
  }
  return quire_planning_tensor(p, key);
}

bool quire_planning_is_dense(const quire_planning *p, int32_t key) {
  return quire_planning_tensor(p, key)->dense && working_tensor(p, key)->dense;
}

/* ---- tensors ---- */

/* Makes sure that a key's shape is known. ndim stays -1 if nothing says it. */
static quire_expr_code need_shape(quire_planning *p, int32_t key, quire_expr_fault *fault) {
  const quire_manifest_key *record = &p->manifest->keys[key];
  if (record->input >= 0 || p->outputs[record->output].ndim >= 0) {
    return QUIRE_EXPR_OK;
  }
  return quire_planning_infer(p, record->output, fault);
}

static quire_expr_code make_list(quire_planning *p, const int64_t *items, int32_t count,
                                 quire_value *value) {
  quire_value *list = quire_arena_alloc(p->scratch, (size_t)count * sizeof *list);
  if (list == NULL) {
    return QUIRE_EXPR_MEMORY;
  }
  for (int32_t i = 0; i < count; i++) {
    list[i] = quire_value_integer(items[i]);
  }
  *value = quire_value_list(list, (size_t)count);
  return QUIRE_EXPR_OK;
}

static quire_expr_code load_shape(quire_planning *p, const quire_ref *ref, quire_value *value,
                                  quire_expr_fault *fault) {
  const quire_plan_tensor *tensor = quire_planning_tensor(p, ref->index);
  *value = quire_value_undefined();
  if (!tensor->present) {
    return QUIRE_EXPR_OK;
  }
  quire_expr_code code = need_shape(p, ref->index, fault);
  if (code != QUIRE_EXPR_OK || tensor->ndim < 0) {
    return code;
  }
  if (ref->kind == QUIRE_REF_RANK) {
    *value = quire_value_integer(tensor->ndim);
    return QUIRE_EXPR_OK;
  }
  if (ref->kind == QUIRE_REF_STRIDES) {
    const quire_plan_tensor *working = working_tensor(p, ref->index);
    int64_t strides[QUIRE_MAX_RANK];
    if (working->ndim >= 0) {
      return make_list(p, working->strides, working->ndim, value);
    }
    /* A buffer of its own whose form the request leaves to the operator is dense. */
    quire_strides_fill(tensor->shape, tensor->ndim, strides);
    return make_list(p, strides, tensor->ndim, value);
  }
  const quire_value **shape = &p->shapes[ref->index];
  if (*shape == NULL) {
    code = make_list(p, tensor->shape, tensor->ndim, value);
    *shape = value->as.list;
    return code;
  }
  *value = quire_value_list(*shape, (size_t)tensor->ndim);
  return QUIRE_EXPR_OK;
}

static quire_value tensor_dtype(const quire_planning *p, int32_t key) {
  const quire_plan_tensor *tensor = quire_planning_tensor(p, key);
  if (!tensor->present || tensor->dtype == QUIRE_DTYPE_NONE) {
    return quire_value_undefined();
  }
  return quire_value_text(quire_dtype_name(tensor->dtype));
}

static bool is_aliased(const quire_planning *p, const quire_ref *ref) {
  int32_t output = p->manifest->keys[ref->index].output;
  return output >= 0 && p->outputs[output].alias == ref->second;
}

/* ---- the device ---- */

static quire_value load_limit(quire_planning *p, int32_t index) {
  quire_memo *memo = &p->limits[index];
  if (memo->state == QUIRE_MEMO_NEW) {
    const char *name = p->manifest->limits[index];
    int64_t limit = 0;
    bool known = quire_target_limit(p->target, name, strlen(name), &limit);
    memo->value = known ? quire_value_integer(limit) : quire_value_undefined();
    memo->state = QUIRE_MEMO_DONE;
  }
  return memo->value;
}

/* ---- scalars and names ---- */

static quire_value load_tunable(const quire_planning *p, const quire_ref *ref) {
  if (p->tunables[ref->index].kind != QUIRE_VALUE_UNDEFINED) {
    return p->tunables[ref->index];
  }
  if (ref->layer != QUIRE_LAYER_KERNEL && p->variant >= 0) {
    return p->manifest->variants[p->variant].tunables[ref->index];
  }
  return p->manifest->tunables[ref->index].value;
}

static quire_expr_code load_derived(quire_planning *p, const quire_ref *ref, quire_value *value,
                                    quire_expr_fault *fault) {
  quire_memo *memo = &p->memos[ref->layer][ref->index];
  if (memo->state == QUIRE_MEMO_NEW) {
    if (p->depth >= QUIRE_PLAN_DEPTH) {
      return QUIRE_EXPR_LIMIT;
    }
    memo->state = QUIRE_MEMO_BUSY;
    p->depth++;
    const quire_expr *expr = p->layers[ref->layer].names[ref->index].expr;
    memo->code = quire_expr_evaluate(expr, &p->env, &memo->value, &memo->fault);
    p->depth--;
    memo->state = QUIRE_MEMO_DONE;
  } else if (memo->state == QUIRE_MEMO_BUSY) {
    return QUIRE_EXPR_CYCLE;
  }
  if (memo->code != QUIRE_EXPR_OK) {
    *fault = memo->fault;
    return memo->code;
  }
  *value = memo->value;
  return QUIRE_EXPR_OK;
}

static quire_value load_plain(quire_planning *p, const quire_ref *ref) {
  switch (ref->kind) {
    case QUIRE_REF_ATTRIBUTE:
      return ref->index >= 0 ? p->attributes[ref->index] : quire_value_undefined();
    case QUIRE_REF_TUNABLE:
      return load_tunable(p, ref);
    case QUIRE_REF_PRESENT:
      return quire_value_boolean(quire_planning_tensor(p, ref->index)->present);
    case QUIRE_REF_TENSOR_DTYPE:
      return tensor_dtype(p, ref->index);
    case QUIRE_REF_SYMBOL:
      return quire_value_text(quire_wgsl_scalar(p->symbols[ref->index]));
    case QUIRE_REF_LIMIT:
      return load_limit(p, ref->index);
    case QUIRE_REF_ADAPTER: {
      const char *key = p->manifest->adapter_keys[ref->index];
      return quire_target_adapter(p->target, key, strlen(key));
    }
    case QUIRE_REF_FOLD_WIDTH:
      return quire_value_integer(QUIRE_FOLD_WIDTH);
    case QUIRE_REF_BACKEND:
      return quire_value_text(quire_target_backend(p->target));
    case QUIRE_REF_PRECISION:
      return quire_value_text(p->request->precision == QUIRE_PRECISION_FAST ? "fast" : "exact");
    case QUIRE_REF_BOUND:
      return quire_value_boolean(is_bound(p, ref->index));
    case QUIRE_REF_DENSE:
      return quire_value_boolean(quire_planning_is_dense(p, ref->index));
    case QUIRE_REF_ALIASED:
      return quire_value_boolean(is_aliased(p, ref));
    default:
      return quire_value_undefined();
  }
}

static quire_expr_code environment_load(quire_expr_env *env, const quire_ref *ref,
                                        quire_value *value, quire_expr_fault *fault) {
  quire_planning *p = env->user;
  switch (ref->kind) {
    case QUIRE_REF_DERIVED:
      return load_derived(p, ref, value, fault);
    case QUIRE_REF_SHAPE:
    case QUIRE_REF_RANK:
    case QUIRE_REF_STRIDES:
      return load_shape(p, ref, value, fault);
    default:
      *value = load_plain(p, ref);
      return QUIRE_EXPR_OK;
  }
}

static bool environment_has(quire_expr_env *env, quire_space space, const char *key,
                            size_t length) {
  const quire_planning *p = env->user;
  int64_t limit = 0;
  switch (space) {
    case QUIRE_SPACE_ATTRS:
      for (size_t i = 0; i < p->manifest->attribute_count; i++) {
        const char *name = p->manifest->attributes[i].name;
        if (strlen(name) == length && memcmp(name, key, length) == 0) {
          return p->attributes[i].kind != QUIRE_VALUE_UNDEFINED;
        }
      }
      return false;
    case QUIRE_SPACE_LIMITS:
      return quire_target_limit(p->target, key, length, &limit);
    case QUIRE_SPACE_ADAPTER:
      return quire_target_adapter(p->target, key, length).kind != QUIRE_VALUE_UNDEFINED;
  }
  return false;
}

static bool environment_feature(quire_expr_env *env, const char *name, size_t length) {
  const quire_planning *p = env->user;
  return quire_target_feature(p->target, name, length);
}

static const quire_expr *environment_definition(quire_expr_env *env, const quire_ref *ref) {
  const quire_planning *p = env->user;
  if (ref->kind != QUIRE_REF_DERIVED) {
    return NULL;
  }
  return p->layers[ref->layer].names[ref->index].expr;
}

void quire_environment_init(quire_planning *p) {
  p->env.user = p;
  p->env.load = environment_load;
  p->env.has = environment_has;
  p->env.feature = environment_feature;
  p->env.definition = environment_definition;
  p->env.arena = p->scratch;
  p->env.steps_left = QUIRE_PLAN_STEPS;
}
