/* How args structs are described, so that one function serves every typed call. */
#ifndef QUIRE_LIBRARY_TYPED_CALL_H
#define QUIRE_LIBRARY_TYPED_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quire/context.h"
#include "quire/device.h"
#include "quire/operators.h"

typedef enum quire_call_kind {
  QUIRE_CALL_PAGED_ATTENTION,
  QUIRE_CALL_LINEAR_ATTENTION,
  QUIRE_CALL_ONNX_LINEAR_ATTENTION,
  QUIRE_CALL_PAGED_DECODE,
  QUIRE_CALL_MERGE_ATTENTION_STATES,
  QUIRE_CALL_CAUSAL_CONV_WITH_STATE,
  QUIRE_CALL_ONNX_CAUSAL_CONV_WITH_STATE,
  QUIRE_CALL_LINEAR_ATTENTION_REPLAY,
  QUIRE_CALL_KIND_COUNT
} quire_call_kind;

enum { QUIRE_CALL_MOST_TENSORS = 24, QUIRE_CALL_MOST_ATTRIBUTES = 12, QUIRE_CALL_TEXT_SIZE = 64 };

/* A quire_tensor member. */
typedef struct quire_call_tensor {
  const char *name; /* the operator's */
  size_t offset;
  bool is_output;
  int alias; /* outputs: index of the input whose buffer it may be, or -1 */
} quire_call_tensor;

/* An attribute member: int64_t, float or const char *. */
typedef struct quire_call_attribute {
  const char *name;
  size_t offset;
  quire_value_type type;
  bool required;    /* always passed on; others only if they are not at their default */
  double number;    /* default of INT and FLOAT */
  const char *text; /* default of STRING */
} quire_call_attribute;

typedef struct quire_call_description {
  const char *op; /* qualified name */
  size_t args_size;
  size_t workspace_offset;
  size_t executor_offset;
  const quire_call_tensor *tensors;
  size_t tensor_count;
  const quire_call_attribute *attributes;
  size_t attribute_count;
} quire_call_description;

/* By quire_call_kind; each is defined next to its args' functions. */
extern const quire_call_description quire_call_paged_attention;
extern const quire_call_description quire_call_linear_attention;
extern const quire_call_description quire_call_onnx_linear_attention;
extern const quire_call_description quire_call_paged_decode;
extern const quire_call_description quire_call_merge_attention_states;
extern const quire_call_description quire_call_causal_conv_with_state;
extern const quire_call_description quire_call_onnx_causal_conv_with_state;
extern const quire_call_description quire_call_linear_attention_replay;
const quire_call_description *quire_call_describe(quire_call_kind kind);

/* A description with an operator's slots looked up. */
typedef struct quire_call_binding {
  const quire_operator *op;                /* NULL: the context has none */
  int32_t slots[QUIRE_CALL_MOST_TENSORS];  /* -1: the operator has no such tensor */
  bool bucket[QUIRE_CALL_MOST_ATTRIBUTES]; /* rounded up to a power of two in plans */
} quire_call_binding;

/* False: the operator has more slots than a call has room for. */
bool quire_call_bind(quire_call_kind kind, const quire_operator *op, quire_call_binding *binding);

/* Sets struct_size, absent tensors, and the attributes' defaults. */
void quire_call_init(quire_call_kind kind, void *args);

quire_status quire_call(quire_call_kind kind, quire_device *device, const void *args,
                        quire_error *error);

#endif
