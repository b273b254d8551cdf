/* Shapes compared with what the manifest says (step 5), and sizes of intermediates (step 6). */
#include <string.h>

#include "checked.h"
#include "planning.h"

static bool same_shape(const int64_t *a, int32_t a_ndim, const int64_t *b, int32_t b_ndim) {
  return a_ndim == b_ndim && memcmp(a, b, (size_t)a_ndim * sizeof *a) == 0;
}

/* "dim 2 is 6, 8 is expected: [1, 2, 6], not [1, 2, 8]". */
static const char *difference(quire_planning *p, const int64_t *got, int32_t got_ndim,
                              const int64_t *want, int32_t want_ndim) {
  const char *got_text = quire_planning_shape_text(p, got, got_ndim);
  const char *want_text = quire_planning_shape_text(p, want, want_ndim);
  if (got_text == NULL || want_text == NULL) {
    return NULL;
  }
  if (got_ndim != want_ndim) {
    return quire_planning_format(p, "shape is %s, %s is expected", got_text, want_text);
  }
  int32_t dim = 0;
  while (dim < got_ndim - 1 && got[dim] == want[dim]) {
    dim++;
  }
  return quire_planning_format(p, "dim %d is %lld, %lld is expected (shape %s, not %s)", (int)dim,
                               (long long)got[dim], (long long)want[dim], got_text, want_text);
}

static quire_status refuse(quire_planning *p, const char *side, const quire_manifest_tensor *tensor,
                           const char *reason, quire_status status, quire_rule_kind rule,
                           const char *detail) {
  return quire_refuse_by(p, side, quire_planning_format(p, "%s.%s.%s", side, tensor->key, reason),
                         reason, status, rule, tensor->onnx, detail);
}

/* Elements and bytes must fit in 63 bits, and so must the span that strides reach over. */
static quire_status check_size(quire_planning *p, const char *side,
                               const quire_manifest_tensor *manifest,
                               const quire_plan_tensor *tensor) {
  static const char elements_text[] = "element count";
  static const char bytes_text[] = "byte count";
  const char *at = NULL;
  int64_t elements = 0;
  int64_t bytes = 0;
  if (!quire_count_elements(tensor->shape, (size_t)tensor->ndim, &elements)) {
    at = elements_text;
  } else if (!quire_wgsl_bytes(tensor->dtype, manifest->packed8, elements, &bytes) ||
             !quire_wgsl_bytes(manifest->storage, false, elements, &bytes)) {
    at = bytes_text;
  }
  int64_t span = 0;
  for (int32_t i = 0; at == NULL && elements > 0 && !tensor->dense && i < tensor->ndim; i++) {
    int64_t stride = tensor->strides[i];
    int64_t reach = 0;
    if (stride == INT64_MIN ||
        !quire_mul_i64(tensor->shape[i] - 1, stride < 0 ? -stride : stride, &reach) ||
        !quire_add_i64(span, reach, &span) || span > INT64_MAX / 8 - 1) {
      at = bytes_text;
    }
  }
  if (at == NULL) {
    return QUIRE_OK;
  }
  quire_expr_fault fault = {QUIRE_EXPR_OVERFLOW, at, strlen(at)};
  return quire_refuse_fault(p, quire_planning_format(p, "%s.%s", side, manifest->key),
                            manifest->onnx, QUIRE_EXPR_OVERFLOW, &fault);
}

static quire_status check_input(quire_planning *p, size_t index) {
  const quire_manifest_tensor *manifest = &p->manifest->inputs[index];
  const quire_plan_tensor *tensor = &p->inputs[index];
  if (manifest->shape.given) {
    int64_t want[QUIRE_MAX_RANK];
    int32_t ndim = 0;
    quire_expr_fault fault = {0};
    quire_expr_code code = quire_shape_evaluate(p, &manifest->shape, false, want, &ndim, &fault);
    if (code != QUIRE_EXPR_OK) {
      return quire_refuse_fault(p, quire_planning_format(p, "inputs.%s.shape", manifest->key),
                                manifest->onnx, code, &fault);
    }
    if (!same_shape(tensor->shape, tensor->ndim, want, ndim)) {
      return refuse(p, "inputs", manifest, "shape", QUIRE_BAD_SHAPE, QUIRE_RULE_SHAPE,
                    difference(p, tensor->shape, tensor->ndim, want, ndim));
    }
  }
  return check_size(p, "inputs", manifest, tensor);
}

/* Compares what the request gives (or the input's shape, in place) with the inferred shape. */
static quire_status check_inferred(quire_planning *p, size_t index,
                                   const quire_manifest_tensor *manifest,
                                   const quire_plan_tensor *given) {
  int64_t want[QUIRE_MAX_RANK];
  int32_t ndim = 0;
  quire_expr_fault fault = {0};
  quire_expr_code code = QUIRE_EXPR_OK;
  bool inferred = p->inferred[index].state == QUIRE_MEMO_DONE || given == NULL;
  if (inferred) {
    code = quire_planning_infer(p, (int32_t)index, &fault);
  } else {
    code = quire_shape_evaluate(p, &manifest->shape, false, want, &ndim, &fault);
  }
  if (code != QUIRE_EXPR_OK) {
    return quire_refuse_fault(p, quire_planning_format(p, "outputs.%s.shape", manifest->key),
                              manifest->onnx, code, &fault);
  }
  quire_status status = quire_planning_check_rank(p, "outputs", manifest, "its inferred shape has",
                                                  inferred ? p->outputs[index].ndim : ndim);
  if (status != QUIRE_OK || inferred) {
    return status;
  }
  if (!same_shape(given->shape, given->ndim, want, ndim)) {
    return refuse(p, "outputs", manifest, "shape", QUIRE_BAD_SHAPE, QUIRE_RULE_SHAPE,
                  difference(p, given->shape, given->ndim, want, ndim));
  }
  return QUIRE_OK;
}

/* Form of the output side of an in-place tensor: the input's, unless the request gives its own. */
static quire_status settle_in_place(quire_planning *p, const quire_manifest_tensor *manifest,
                                    const quire_plan_tensor *input, quire_plan_tensor *output) {
  if (output->ndim >= 0 && !same_shape(output->shape, output->ndim, input->shape, input->ndim)) {
    return refuse(p, "outputs", manifest, "shape", QUIRE_BAD_SHAPE, QUIRE_RULE_SHAPE,
                  difference(p, output->shape, output->ndim, input->shape, input->ndim));
  }
  if (output->ndim >= 0) {
    return QUIRE_OK;
  }
  bool own_buffer = output->given && output->alias < 0;
  output->ndim = input->ndim;
  memcpy(output->shape, input->shape, sizeof input->shape);
  memcpy(output->strides, input->strides, sizeof input->strides);
  output->dense = input->dense;
  if (own_buffer) {
    quire_strides_fill(output->shape, output->ndim, output->strides);
    output->dense = true;
  }
  return QUIRE_OK;
}

/* An output that is said to be an input's buffer must have that input's form. */
static quire_status check_alias_form(quire_planning *p, const quire_manifest_tensor *manifest,
                                     const quire_plan_tensor *output) {
  if (output->alias < 0) {
    return QUIRE_OK;
  }
  const quire_plan_tensor *input = quire_planning_tensor(p, output->alias);
  bool same = input->dtype == output->dtype &&
              same_shape(input->shape, input->ndim, output->shape, output->ndim) &&
              ((input->dense && output->dense) ||
               same_shape(input->strides, input->ndim, output->strides, output->ndim));
  if (same) {
    return QUIRE_OK;
  }
  return refuse(
      p, "outputs", manifest, "alias", QUIRE_BAD_ALIAS, QUIRE_RULE_ALIAS,
      quire_planning_format(p, "is given as the buffer of %s, but type, shape or strides differ",
                            p->manifest->keys[output->alias].name));
}

static quire_status check_output(quire_planning *p, size_t index) {
  const quire_manifest_tensor *manifest = &p->manifest->outputs[index];
  int32_t input = p->manifest->keys[manifest->key_index].input;
  quire_plan_tensor *output = &p->outputs[index];
  const quire_plan_tensor *given = input >= 0 ? &p->inputs[input] : output;
  quire_status status = QUIRE_OK;
  if (manifest->shape.given) {
    status = check_inferred(p, index, manifest, given->ndim >= 0 ? given : NULL);
  }
  if (status == QUIRE_OK && input >= 0) {
    status = settle_in_place(p, manifest, given, output);
  }
  if (status == QUIRE_OK) {
    status = check_alias_form(p, manifest, output);
  }
  return status == QUIRE_OK ? check_size(p, "outputs", manifest, output) : status;
}

quire_status quire_planning_check_shapes(quire_planning *p) {
  quire_status status = QUIRE_OK;
  for (size_t i = 0; status == QUIRE_OK && i < p->manifest->input_count; i++) {
    status = p->inputs[i].present ? check_input(p, i) : QUIRE_OK;
  }
  for (size_t i = 0; status == QUIRE_OK && i < p->manifest->output_count; i++) {
    if (p->outputs[i].present) {
      status = check_output(p, i);
    } else {
      p->outputs[i].ndim = 0;
    }
  }
  return status;
}

/* ---- step 6 ---- */

static quire_status refuse_intermediate(quire_planning *p, const char *failing, const char *id,
                                        int64_t bytes, int64_t limit) {
  return quire_refuse_by(
      p, "limits", failing, "limit", QUIRE_LIMIT, QUIRE_RULE_LIMIT, id,
      quire_planning_format(p, "scratch of %lld bytes exceeds the device's %lld for one buffer",
                            (long long)bytes, (long long)limit));
}

static quire_status size_intermediate(quire_planning *p, const quire_manifest_variant *variant,
                                      size_t index, int64_t limit) {
  const quire_manifest_intermediate *manifest = &variant->intermediates[index];
  quire_plan_intermediate *scratch = &p->intermediates[index];
  quire_expr_fault fault = {0};
  scratch->id = manifest->id;
  scratch->dtype = manifest->dtype;
  scratch->zero_init = manifest->zero_init;
  scratch->step = manifest->step;
  quire_expr_code code =
      quire_shape_evaluate(p, &manifest->shape, true, scratch->shape, &scratch->ndim, &fault);
  bool natural = strcmp(variant->backend, "webgpu") != 0;
  if (code == QUIRE_EXPR_OK &&
      !quire_count_elements(scratch->shape, (size_t)scratch->ndim, &scratch->elements)) {
    fault = (quire_expr_fault){QUIRE_EXPR_OVERFLOW, "element count", strlen("element count")};
    code = QUIRE_EXPR_OVERFLOW;
  } else if (code == QUIRE_EXPR_OK &&
             !(natural
                   ? quire_natural_bytes(scratch->dtype, scratch->elements, &scratch->bytes)
                   : quire_wgsl_bytes(scratch->dtype, false, scratch->elements, &scratch->bytes))) {
    fault = (quire_expr_fault){QUIRE_EXPR_OVERFLOW, "byte count", strlen("byte count")};
    code = QUIRE_EXPR_OVERFLOW;
  }
  if (code == QUIRE_EXPR_OK && scratch->bytes <= limit) {
    return QUIRE_OK;
  }
  const char *failing =
      quire_planning_format(p, "variants.%s.intermediates.%s", variant->id, manifest->id);
  return code != QUIRE_EXPR_OK
             ? quire_refuse_fault(p, failing, manifest->id, code, &fault)
             : refuse_intermediate(p, failing, manifest->id, scratch->bytes, limit);
}

quire_status quire_planning_size_intermediates(quire_planning *p) {
  const quire_manifest_variant *variant = &p->manifest->variants[p->variant];
  int64_t buffer = quire_target_limit_or_most(p->target, "maxBufferSize");
  int64_t binding = quire_target_limit_or_most(p->target, "maxStorageBufferBindingSize");
  int64_t limit = buffer < binding ? buffer : binding;
  quire_status status = QUIRE_OK;
  for (size_t i = 0; status == QUIRE_OK && i < variant->intermediate_count; i++) {
    status = size_intermediate(p, variant, i, limit);
  }
  return status;
}
