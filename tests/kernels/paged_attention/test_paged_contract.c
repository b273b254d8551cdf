/*
 * The contracts of PagedAttention, PagedDecode and MergeAttentionStates through the public headers:
 * every row of their validation tables, one change of a legal request at a time.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quire/quire.h"

enum { MAX_TENSORS = 20, MAX_ATTRIBUTES = 8 };

typedef struct form {
  const char *name;
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[4];
} form;

typedef struct change {
  const char
      *what; /* "drop", "type", "dim", "rank", "stride", "add", "int", "float", "text", "out" */
  const char *name;
  int64_t axis; /* dim, stride: the axis; type: the type; add, out: a row of `extras` */
  int64_t value;
  double number;
  const char *text;
  quire_status status;
  const char *rule;
  const char *subject; /* NULL: name */
} change;

typedef struct legal {
  const char *op;
  const form *inputs;
  size_t input_count;
  const quire_named_value *attributes;
  size_t attribute_count;
  const form *extras;
} legal;

typedef struct request {
  quire_request request;
  quire_request_tensor inputs[MAX_TENSORS], outputs[6];
  int64_t shapes[MAX_TENSORS + 6][4], strides[MAX_TENSORS][4];
  quire_named_value attributes[MAX_ATTRIBUTES];
} request;

static void put_tensor(quire_request_tensor *tensor, int64_t shape[4], const form *f) {
  for (size_t i = 0; i < 4; ++i) {
    shape[i] = f->shape[i];
  }
  tensor->name = f->name;
  tensor->dtype = f->dtype;
  tensor->ndim = f->ndim;
  tensor->shape = shape;
}

static void request_init(const legal *l, request *r) {
  memset(r, 0, sizeof *r);
  quire_request_init(&r->request);
  for (size_t i = 0; i < l->input_count; ++i) {
    put_tensor(&r->inputs[i], r->shapes[i], &l->inputs[i]);
  }
  for (size_t i = 0; i < l->attribute_count; ++i) {
    r->attributes[i] = l->attributes[i];
  }
  r->request.inputs = r->inputs;
  r->request.input_count = l->input_count;
  r->request.outputs = r->outputs;
  r->request.attributes = r->attributes;
  r->request.attribute_count = l->attribute_count;
}

static size_t find_input(const request *r, const char *name) {
  for (size_t i = 0; i < r->request.input_count; ++i) {
    if (strcmp(r->inputs[i].name, name) == 0) {
      return i;
    }
  }
  fail_msg("no input %s", name);
  return 0;
}

static void set_attribute(request *r, const change *c) {
  size_t i = 0;
  while (i < r->request.attribute_count && strcmp(r->attributes[i].name, c->name) != 0) {
    ++i;
  }
  r->request.attribute_count += i == r->request.attribute_count;
  assert_true(i < MAX_ATTRIBUTES);
  quire_named_value *attribute = &r->attributes[i];
  attribute->name = c->name;
  attribute->i = c->value;
  attribute->f = c->number;
  attribute->s = c->text;
  attribute->type = strcmp(c->what, "int") == 0     ? QUIRE_VALUE_TYPE_INT
                    : strcmp(c->what, "float") == 0 ? QUIRE_VALUE_TYPE_FLOAT
                                                    : QUIRE_VALUE_TYPE_STRING;
}

static void drop_attribute(request *r, const char *name) {
  for (size_t i = 0; i < r->request.attribute_count; ++i) {
    if (strcmp(r->attributes[i].name, name) == 0) {
      r->attributes[i] = r->attributes[--r->request.attribute_count];
      return;
    }
  }
  fail_msg("no attribute %s", name);
}

static void change_input(request *r, const change *c) {
  const size_t i = find_input(r, c->name);
  quire_request_tensor *tensor = &r->inputs[i];
  if (strcmp(c->what, "drop") == 0) {
    *tensor = r->inputs[--r->request.input_count];
  } else if (strcmp(c->what, "type") == 0) {
    tensor->dtype = (quire_dtype)c->axis;
  } else if (strcmp(c->what, "dim") == 0) {
    r->shapes[i][c->axis] = c->value;
  } else if (strcmp(c->what, "rank") == 0) {
    tensor->ndim = (int32_t)c->value;
  } else if (strcmp(c->what, "stride") == 0) {
    int64_t stride = 1;
    for (int32_t axis = tensor->ndim; axis-- > 0;) {
      r->strides[i][axis] = stride;
      stride *= r->shapes[i][axis];
    }
    r->strides[i][c->axis] = c->value;
    tensor->strides = r->strides[i];
  } else {
    fail_msg("no change %s", c->what);
  }
}

static void apply(const legal *l, request *r, const change *c) {
  if (strcmp(c->what, "int") == 0 || strcmp(c->what, "float") == 0 ||
      strcmp(c->what, "text") == 0) {
    set_attribute(r, c);
  } else if (strcmp(c->what, "without") == 0) {
    drop_attribute(r, c->name);
  } else if (strcmp(c->what, "add") == 0) {
    const size_t i = r->request.input_count++;
    put_tensor(&r->inputs[i], r->shapes[i], &l->extras[c->axis]);
  } else if (strcmp(c->what, "out") == 0) {
    const size_t i = r->request.output_count++;
    put_tensor(&r->outputs[i], r->shapes[MAX_TENSORS + i], &l->extras[c->axis]);
  } else {
    change_input(r, c);
  }
}

static void check_changes(const legal *l, const change *changes, size_t count) {
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_error error;
  assert_int_equal(quire_context_create(NULL, &context, &error), QUIRE_OK);
  assert_int_equal(quire_device_open(context, "cpu", NULL, &device, &error), QUIRE_OK);
  const quire_operator *op = quire_context_find_operator(context, l->op);
  assert_non_null(op);
  for (size_t i = 0; i < count; ++i) {
    const change *c = &changes[i];
    request r;
    request_init(l, &r);
    /* Rows without a status belong to the next one that has a status. */
    while (c->status == QUIRE_OK && c->rule != NULL) {
      apply(l, &r, c);
      c = &changes[++i];
    }
    if (c->what != NULL) {
      apply(l, &r, c);
    }
    quire_plan *plan = NULL;
    memset(&error, 0, sizeof error);
    const quire_status status = quire_plan_create(device, op, &r.request, &plan, &error);
    if (status != c->status) {
      fail_msg("row %zu, %s %s: %s (%s), not %s", i, c->what != NULL ? c->what : "legal",
               c->name != NULL ? c->name : "", quire_status_name(status), error.message,
               quire_status_name(c->status));
    }
    if (status != QUIRE_OK) {
      const char *subject = c->subject != NULL ? c->subject : c->name;
      if (strcmp(error.rule, c->rule) != 0 || strcmp(error.subject, subject) != 0) {
        fail_msg("row %zu, %s %s: rule '%s' subject '%s', not '%s', '%s': %s", i, c->what, c->name,
                 error.rule, error.subject, c->rule, subject, error.message);
      }
    }
    quire_plan_release(plan);
  }
  quire_device_release(device);
  quire_context_release(context);
}

#define F16 QUIRE_FLOAT16
#define F32 QUIRE_FLOAT32
#define I32 QUIRE_INT32
#define I8 QUIRE_INT8
#define COUNT(list) (sizeof(list) / sizeof *(list))
/* A change that the next row completes. */
#define WITH QUIRE_OK, "", NULL

/* ---- PagedAttention: T 3, Hq 4, Hkv 2, D 8, NB 4, P 2, B 2, MB 2 ---- */

static const form paged_inputs[] = {
    {"query", F16, 2, {3, 32}},
    {"key", F16, 2, {3, 16}},
    {"value", F16, 2, {3, 16}},
    {"key_cache", F16, 4, {4, 2, 2, 8}},
    {"value_cache", F16, 4, {4, 2, 2, 8}},
    {"cumulative_sequence_length", I32, 1, {3}},
    {"past_seqlens", I32, 1, {2}},
    {"block_table", I32, 2, {2, 2}},
};

static const form paged_extras[] = {
    {"slot_mapping", I32, 1, {3}},             /* 0 */
    {"slot_mapping", I32, 1, {4}},             /* 1 */
    {"cos_cache", F16, 2, {9, 4}},             /* 2 */
    {"sin_cache", F16, 2, {9, 4}},             /* 3 */
    {"q_norm_weight", F16, 1, {8}},            /* 4 */
    {"k_norm_weight", F16, 1, {8}},            /* 5 */
    {"head_sink", F16, 1, {4}},                /* 6 */
    {"head_sink", F16, 1, {2}},                /* 7 */
    {"k_scale", F32, 1, {1}},                  /* 8 */
    {"v_scale", F32, 1, {1}},                  /* 9 */
    {"k_scale", F32, 3, {2, 1, 8}},            /* 10 */
    {"attention_metadata", I32, 1, {2}},       /* 11 */
    {"attention_metadata", I32, 1, {3}},       /* 12 */
    {"attention_metadata", I32, 1, {4}},       /* 13 */
    {"no_such", F16, 1, {1}},                  /* 14 */
    {"output", F16, 2, {3, 31}},               /* 15 */
    {"key_cache_out", F16, 4, {4, 2, 2, 8}},   /* 16 */
    {"value_cache_out", F16, 4, {4, 2, 2, 8}}, /* 17 */
    {"value_cache_out", F16, 4, {4, 2, 1, 8}}, /* 18 */
    {"softmax_lse", F32, 2, {3, 4}},           /* 19 */
    {"softmax_lse", F32, 2, {3, 2}},           /* 20 */
    {"softmax_lse", F16, 2, {3, 4}},           /* 21 */
    {"cos_cache", F32, 2, {9, 4}},             /* 22 */
    {"k_norm_weight", F32, 1, {8}},            /* 23 */
    {"k_scale_cache", F32, 3, {4, 2, 2}},      /* 24 */
    {"v_scale_cache", F32, 3, {4, 2, 2}},      /* 25 */
    {"k_scale_cache", F16, 3, {4, 2, 2}},      /* 26 */
    {"k_scale_cache", F32, 2, {4, 4}},         /* 27 */
    {"v_scale_cache", F32, 3, {4, 2, 1}},      /* 28 */
    {"k_scale_cache_out", F32, 3, {4, 2, 2}},  /* 29 */
    {"v_scale_cache_out", F32, 3, {4, 2, 2}},  /* 30 */
    {"key_cache_out", I8, 4, {4, 2, 2, 8}},    /* 31 */
    {"value_cache_out", I8, 4, {4, 2, 2, 8}},  /* 32 */
    {"k_scale_cache_out", F32, 3, {4, 2, 1}},  /* 33 */
};

static const quire_named_value paged_attributes[] = {
    {"num_heads", QUIRE_VALUE_TYPE_INT, 4, 0, NULL},
    {"kv_num_heads", QUIRE_VALUE_TYPE_INT, 2, 0, NULL},
};

static const change paged_changes[] = {
    {NULL, NULL, 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"without", "num_heads", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", NULL},
    {"without", "kv_num_heads", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", NULL},
    {"int", "num_heads", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", NULL},
    {"int", "kv_num_heads", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", NULL},
    {"int", "kv_num_heads", 0, 3, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", "num_heads"},
    {"float", "scale", 0, 0, (double)INFINITY, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V2", NULL},
    {"float", "scale", 0, 0, (double)NAN, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V2", NULL},
    {"float", "scale", 0, 0, 1e300, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V2", NULL},
    {"float", "scale", 0, 0, -1, NULL, QUIRE_OK, NULL, NULL},
    {"int", "is_causal", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"int", "is_causal", 0, 2, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V3", NULL},
    {"int", "do_rotary", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"int", "do_rotary", 0, 1, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"int", "rotary_interleaved", 0, 1, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"int", "rotary_offset", 0, 1, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"int", "v_head_size", 0, 4, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"float", "qk_norm_epsilon", 0, 0, 0.5, NULL, QUIRE_OK, NULL, NULL},
    {"text", "kv_cache_layout", 0, 0, 0, "LATENT", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"text", "k_cache_dtype", 0, 0, 0, "", QUIRE_OK, NULL, NULL},
    {"text", "k_cache_dtype", 0, 0, 0, "int4", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"text", "v_cache_dtype", 0, 0, 0, "int4", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_ROW", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"text", "v_quant_type", 0, 0, 0, "PER_ROW", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "cos_cache", 2, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "sin_cache", 3, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "q_norm_weight", 4, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "k_norm_weight", 5, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "cos_cache", 22, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "k_norm_weight", 23, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"int", "local_window_size", 0, INT64_MAX, 0, NULL, QUIRE_OK, NULL, NULL},
    {"int", "local_window_size", 0, INT64_MIN, 0, NULL, QUIRE_OK, NULL, NULL},
    {"float", "softcap", 0, 0, -1, NULL, QUIRE_BAD_ATTRIBUTE, "X3", NULL},
    {"float", "softcap", 0, 0, (double)INFINITY, NULL, QUIRE_BAD_ATTRIBUTE, "X3", NULL},
    {"drop", "query", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "key_cache", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "value_cache", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "cumulative_sequence_length", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "past_seqlens", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "block_table", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "key", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", "value"},
    {"drop", "value", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"out", "key_cache_out", 16, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", "value_cache"},
    {"out", "key_cache_out", 16, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 17, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"rank", "query", 0, 3, 0, NULL, QUIRE_BAD_RANK, "PA-V5", NULL},
    {"rank", "key_cache", 0, 3, 0, NULL, QUIRE_BAD_RANK, "PA-V5", NULL},
    {"rank", "past_seqlens", 0, 2, 0, NULL, QUIRE_BAD_RANK, "PA-V5", NULL},
    {"type", "key", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    {"type", "value_cache", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    {"type", "block_table", QUIRE_INT64, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    {"type", "query", I8, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", "key_cache"},
    {"dim", "key_cache", 0, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "key_cache", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "key_cache", 2, 3, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "key_cache", 3, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "value_cache", 0, 5, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "query", 1, 31, 0, NULL, QUIRE_BAD_SHAPE, "PA-V8", NULL},
    {"dim", "key", 1, 8, 0, NULL, QUIRE_BAD_SHAPE, "PA-V8", NULL},
    {"dim", "value", 0, 4, 0, NULL, QUIRE_BAD_SHAPE, "PA-V8", NULL},
    {"drop", "key", 0, 0, 0, NULL, WITH},
    {"drop", "value", 0, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V8", "query"},
    {"drop", "key", 0, 0, 0, NULL, WITH},
    {"drop", "value", 0, 0, 0, NULL, WITH},
    {"dim", "query", 1, 64, 0, NULL, QUIRE_OK, NULL, NULL},
    {"dim", "cumulative_sequence_length", 0, 1, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"dim", "past_seqlens", 0, 3, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"dim", "block_table", 0, 1, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"dim", "block_table", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"add", "slot_mapping", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"add", "slot_mapping", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"out", "output", 15, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V10", NULL},
    {"out", "key_cache_out", 16, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 18, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V10", NULL},
    {"int", "num_heads", 0, INT64_C(1) << 32, 0, NULL, QUIRE_LIMIT, "PA-V11", NULL},
    /* Without tokens no size is too large: PA-V11 is a rule of its own. */
    {"int", "num_heads", 0, INT64_C(1) << 33, 0, NULL, WITH},
    {"dim", "query", 0, 0, 0, NULL, WITH},
    {"dim", "query", 1, INT64_C(1) << 36, 0, NULL, WITH},
    {"dim", "key", 0, 0, 0, NULL, WITH},
    {"dim", "value", 0, 0, 0, NULL, QUIRE_LIMIT, "PA-V11", "num_heads"},
    {"dim", "key_cache", 0, INT64_MAX, 0, NULL, WITH},
    {"dim", "value_cache", 0, INT64_MAX, 0, NULL, QUIRE_LIMIT, "PA-V11", "key_cache"},
    {"stride", "key_cache", 0, INT64_MAX / 4, 0, NULL, QUIRE_LIMIT, "PA-V11", NULL},
    {"stride", "key_cache", 0, 1000, 0, NULL, QUIRE_OK, NULL, NULL},
    {"stride", "query", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"stride", "key_cache", 3, 2, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"stride", "value_cache", 1, -16, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"stride", "query", 0, 99, 0, NULL, QUIRE_OK, NULL, NULL},
    {"stride", "query", 1, 2, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"stride", "key", 0, -16, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"stride", "block_table", 0, 3, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"add", "head_sink", 6, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"add", "head_sink", 7, 0, 0, NULL, QUIRE_BAD_SHAPE, "X4", NULL},
    {"add", "attention_metadata", 11, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"add", "attention_metadata", 12, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"add", "attention_metadata", 13, 0, 0, NULL, QUIRE_BAD_SHAPE, "X10", NULL},
    {"out", "softmax_lse", 19, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"out", "softmax_lse", 20, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V10", NULL},
    {"out", "softmax_lse", 21, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    /* X6 */
    {"text", "k_quant_type", 0, 0, 0, "PER_TENSOR", QUIRE_UNSUPPORTED, "X6", "v_quant_type"},
    {"add", "k_scale", 8, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X6", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TENSOR", QUIRE_BAD_PRESENCE, "X6", "k_scale"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"add", "k_scale", 8, 0, 0, NULL, WITH},
    {"add", "v_scale", 9, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", "key_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale", 10, 0, 0, NULL, WITH},
    {"add", "v_scale", 9, 0, 0, NULL, QUIRE_BAD_SHAPE, "X6", "k_scale"},
    {"text", "k_quant_type", 0, 0, 0, "PER_CHANNEL", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale", 10, 0, 0, NULL, WITH},
    {"add", "v_scale", 9, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    /* X7 */
    {"add", "k_scale_cache", 24, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", NULL},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", QUIRE_UNSUPPORTED, "X6", "v_quant_type"},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", QUIRE_UNSUPPORTED, "X6", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", "k_scale_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", "v_scale_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", "key_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale", 8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X6", "k_scale"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 26, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", "k_scale_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 27, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_RANK, "PA-V5", "k_scale_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 28, 0, 0, NULL, QUIRE_BAD_SHAPE, "X7", "v_scale_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"dim", "k_scale_cache", 1, 3, 0, NULL, QUIRE_BAD_SHAPE, "X7", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"stride", "k_scale_cache", 0, -4, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"stride", "v_scale_cache", 2, -1, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"stride", "v_scale_cache", 0, INT64_MAX / 4, 0, NULL, QUIRE_LIMIT, "PA-V11", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"stride", "k_scale_cache", 0, 99, 0, NULL, QUIRE_OK, NULL, NULL},
    /* X7, caches with buffers of their own: scales go where their rows go. */
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"out", "key_cache_out", 31, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 32, 0, 0, NULL, WITH},
    {"out", "k_scale_cache_out", 29, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", "v_scale_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"out", "k_scale_cache_out", 29, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", "k_scale_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"out", "key_cache_out", 31, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 32, 0, 0, NULL, WITH},
    {"out", "v_scale_cache_out", 30, 0, 0, NULL, WITH},
    {"out", "k_scale_cache_out", 33, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V10", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, WITH},
    {"out", "key_cache_out", 31, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 32, 0, 0, NULL, WITH},
    {"out", "v_scale_cache_out", 30, 0, 0, NULL, WITH},
    {"out", "k_scale_cache_out", 29, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    /* Keys and values each in their own way. */
    {"text", "k_quant_type", 0, 0, 0, "PER_CHANNEL", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, WITH},
    {"add", "k_scale", 10, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_OK, NULL, NULL},
};

static void test_paged_attention(void **state) {
  (void)state;
  const legal l = {
      "com.microsoft.PagedAttention", paged_inputs, COUNT(paged_inputs), paged_attributes,
      COUNT(paged_attributes),        paged_extras};
  check_changes(&l, paged_changes, COUNT(paged_changes));
}

/* ---- PagedDecode: B 2, Hq 4, Hkv 2, D 8, C 3, P 2, MP 2 ---- */

static const form decode_inputs[] = {
    {"query", F16, 3, {2, 4, 8}},          {"key_pages", F16, 4, {2, 3, 2, 8}},
    {"value_pages", F16, 4, {2, 3, 2, 8}}, {"page_table", I32, 2, {2, 2}},
    {"context_lengths", I32, 1, {2}},
};

static const form decode_extras[] = {
    {"head_sink", F16, 1, {4}},        {"head_sink", F16, 1, {3}},
    {"key_scales", F32, 3, {2, 3, 2}}, {"value_scales", F32, 3, {2, 3, 2}},
    {"output", F16, 3, {2, 4, 7}},     {"softmax_lse", F32, 2, {2, 4}},
    {"key_scales", F32, 3, {2, 3, 3}}, {"value_scales", F32, 3, {1, 3, 2}},
    {"key_scales", F16, 3, {2, 3, 2}}, {"value_scales", F32, 2, {2, 6}},
};

static const quire_named_value decode_attributes[] = {
    {"scale", QUIRE_VALUE_TYPE_FLOAT, 0, 0.5, NULL},
};

static const change decode_changes[] = {
    {NULL, NULL, 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"without", "scale", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, -1, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, 1e-300, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, (double)NAN, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, (double)INFINITY, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"int", "partial_blocks", 0, -1, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V2", NULL},
    {"int", "partial_blocks", 0, 1025, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V2", NULL},
    {"int", "partial_blocks", 0, 1024, 0, NULL, QUIRE_OK, NULL, NULL},
    {"int", "context_bound", 0, -1, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V13", NULL},
    {"int", "context_bound", 0, 1000, 0, NULL, QUIRE_OK, NULL, NULL},
    {"drop", "query", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PD-V3", NULL},
    {"drop", "value_pages", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PD-V3", NULL},
    {"drop", "context_lengths", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PD-V3", NULL},
    {"rank", "query", 0, 2, 0, NULL, QUIRE_BAD_RANK, "PD-V4", NULL},
    {"rank", "page_table", 0, 1, 0, NULL, QUIRE_BAD_RANK, "PD-V4", NULL},
    {"type", "value_pages", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "PD-V5", NULL},
    {"type", "key_pages", F32, 0, 0, NULL, WITH},
    {"type", "value_pages", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "PD-V5", "key_pages"},
    {"type", "page_table", QUIRE_UINT32, 0, 0, NULL, QUIRE_BAD_TYPE, "PD-V5", NULL},
    {"dim", "query", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "query", 2, 513, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "key_pages", 0, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "key_pages", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "key_pages", 2, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "page_table", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "value_pages", 1, 4, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", NULL},
    {"dim", "query", 2, 7, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", "key_pages"},
    {"dim", "query", 1, 3, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", NULL},
    {"dim", "page_table", 0, 1, 0, NULL, QUIRE_BAD_SHAPE, "PD-V8", NULL},
    {"dim", "context_lengths", 0, 3, 0, NULL, QUIRE_BAD_SHAPE, "PD-V8", NULL},
    {"out", "output", 4, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V8", NULL},
    {"stride", "key_pages", 0, INT64_MAX / 4, 0, NULL, QUIRE_LIMIT, "PD-V9", NULL},
    {"stride", "key_pages", 1, 99, 0, NULL, QUIRE_OK, NULL, NULL},
    {"stride", "key_pages", 3, 2, 0, NULL, QUIRE_UNSUPPORTED, "PD-S1", NULL},
    {"stride", "query", 0, 99, 0, NULL, QUIRE_UNSUPPORTED, "PD-S1", NULL},
    {"add", "head_sink", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"add", "head_sink", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "X3", NULL},
    {"add", "key_scales", 2, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X2", NULL},
    {"add", "value_scales", 3, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X2", NULL},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X2", "key_scales"},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X2", "value_scales"},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 6, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, QUIRE_BAD_SHAPE, "X2", "key_scales"},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 7, 0, 0, NULL, QUIRE_BAD_SHAPE, "X2", "value_scales"},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 8, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, QUIRE_BAD_TYPE, "PD-V5", "key_scales"},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 9, 0, 0, NULL, QUIRE_BAD_RANK, "PD-V4", "value_scales"},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, WITH},
    {"stride", "key_scales", 1, -2, 0, NULL, QUIRE_UNSUPPORTED, "PD-S1", NULL},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, WITH},
    {"stride", "value_scales", 2, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    /* Int8 pages are padded to whole words: 7 channels in 8, and nothing else. */
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, WITH},
    {"dim", "query", 2, 7, 0, NULL, QUIRE_OK, NULL, NULL},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, WITH},
    {"dim", "query", 2, 9, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", "key_pages"},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, WITH},
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, WITH},
    {"dim", "query", 2, 4, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", "key_pages"},
    {"out", "softmax_lse", 5, 0, 0, NULL, QUIRE_OK, NULL, NULL},
};

static void test_paged_decode(void **state) {
  (void)state;
  const legal l = {"quire.PagedDecode",      decode_inputs, COUNT(decode_inputs), decode_attributes,
                   COUNT(decode_attributes), decode_extras};
  check_changes(&l, decode_changes, COUNT(decode_changes));
}

/* ---- MergeAttentionStates: N 2, H 3, D 4 ---- */

static const form merge_inputs[] = {
    {"output_a", F16, 3, {2, 3, 4}},
    {"softmax_lse_a", F32, 2, {2, 3}},
    {"output_b", F16, 3, {2, 3, 4}},
    {"softmax_lse_b", F32, 2, {2, 3}},
};

static const change merge_changes[] = {
    {NULL, NULL, 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"drop", "output_b", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X8b", NULL},
    {"rank", "output_a", 0, 2, 0, NULL, QUIRE_BAD_RANK, "X8b", NULL},
    {"type", "output_b", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "X8b", NULL},
    {"type", "softmax_lse_a", F16, 0, 0, NULL, QUIRE_BAD_TYPE, "X8b", NULL},
    {"dim", "output_b", 2, 5, 0, NULL, QUIRE_BAD_SHAPE, "X8b", NULL},
    {"dim", "softmax_lse_a", 1, 4, 0, NULL, QUIRE_BAD_SHAPE, "X8b", NULL},
    {"dim", "softmax_lse_b", 0, 4, 0, NULL, QUIRE_BAD_SHAPE, "X8b", NULL},
    {"stride", "output_a", 0, 99, 0, NULL, QUIRE_UNSUPPORTED, "X8b", NULL},
};

static void test_merge(void **state) {
  (void)state;
  const legal l = {
      "quire.MergeAttentionStates", merge_inputs, COUNT(merge_inputs), decode_attributes, 0, NULL};
  check_changes(&l, merge_changes, COUNT(merge_changes));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_paged_attention),
                                     cmocka_unit_test(test_paged_decode),
                                     cmocka_unit_test(test_merge)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
