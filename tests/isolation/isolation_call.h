/*
 * Calls of operators with hostile integers, and a model of what each of them may read and write.
 *
 * A call is made of tensors whose every element is of a kind: what it holds before, and what it may
 * hold after. What is not ISO_FIXED holds a secret, which is another one in every world; the model
 * claims that no secret reaches an element that is ISO_SAME, and that nothing else changes.
 */
#ifndef QUIRE_TESTS_ISOLATION_CALL_H
#define QUIRE_TESTS_ISOLATION_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "differential_call.h"
#include "quire/quire.h"

enum { ISO_TENSORS = 24, ISO_ATTRIBUTES = 16, ISO_MOST_BYTES = 1 << 18 };

/* Kinds of an element. 0: a secret, and kept. */
enum {
  ISO_FIXED = 1, /* before: data that the watched sequence may see, the same in every world */
  ISO_SAME = 2,  /* after: the same bits in every world */
  ISO_ANY = 4    /* after: whatever it likes, being of another sequence */
};

typedef struct iso_tensor {
  const char *name;
  bool is_output;
  const char *alias; /* no memory of its own */
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[QUIRE_MAX_RANK], strides[QUIRE_MAX_RANK];
  bool is_dense;
  int64_t limit;         /* of integers */
  size_t span;           /* elements from the first to the last, gaps counted */
  unsigned char *values; /* what ISO_FIXED elements hold */
  unsigned char *kinds;
  unsigned char *after; /* what ISO_SAME elements must hold, where the call has a function */
} iso_tensor;

/* A call that is no operator's, with its tensors in their order. */
typedef quire_status iso_function(quire_device *device, const quire_tensor *tensors,
                                  quire_error *error);

typedef struct iso_call {
  const char *op;             /* qualified name */
  uint64_t form, seed;        /* of the shape, and of the content */
  bool is_device;             /* a GPU's: dense tensors only */
  diff_random shape, content; /* what a plan depends on; all else */
  iso_tensor tensors[ISO_TENSORS];
  int tensor_count;
  quire_named_value attributes[ISO_ATTRIBUTES];
  int attribute_count;
  bool is_legal;     /* by the rules about values */
  bool is_racy;      /* two writers of one place: on a GPU any may win */
  int64_t own;       /* the watched sequence; -1: all */
  iso_function *run; /* NULL: a plan of the operator */
} iso_call;

/* Memory of a call, to be reused; fails the test if there is none. */
void iso_open(iso_call *call);
void iso_close(iso_call *call);
/* Empties it. Equal shape_seed: an equal plan. */
void iso_begin(iso_call *call, const char *op, uint64_t shape_seed, uint64_t seed);

iso_tensor *iso_input(iso_call *call, const char *name, quire_dtype dtype, int32_t ndim,
                      const int64_t *shape, const int64_t *strides);
iso_tensor *iso_output(iso_call *call, const char *name, quire_dtype dtype, int32_t ndim,
                       const int64_t *shape, const int64_t *strides);
/* An output that is the very buffer of an input. */
void iso_alias(iso_call *call, const char *name, const iso_tensor *input);
/* An int32 input; returns its values, none of them ISO_FIXED yet. limit: the first value that is
   too large, as far as one can say. */
int32_t *iso_integers(iso_call *call, const char *name, int32_t ndim, int64_t first, int64_t second,
                      int64_t limit);

void iso_int(iso_call *call, const char *name, int64_t value);
void iso_number(iso_call *call, const char *name, double value);
void iso_word(iso_call *call, const char *name, const char *value);

iso_tensor *iso_find(iso_call *call, const char *name);
/* Makes elements ISO_FIXED, normal numbers times `scale`. */
void iso_fix(iso_call *call, iso_tensor *tensor, int64_t first, int64_t count, float scale);
/* One element. */
void iso_fix_to(iso_tensor *tensor, int64_t element, float value);
/* Integers that the operator reads. */
void iso_fix_integers(iso_call *call, const char *name, int64_t first, int64_t count);
void iso_mark(iso_tensor *tensor, int64_t first, int64_t count, unsigned kinds);

/* Offsets of `sequences` that sum up to `total`. */
void iso_make_offsets(iso_call *call, int32_t *offsets, int64_t sequences, int64_t total);
/* Now and then: makes one integer of one tensor hostile. */
void iso_spoil(iso_call *call);
/* Offsets begin with 0, do not fall, and end with `total`. */
bool iso_are_offsets(const int32_t *offsets, int64_t sequences, int64_t total);
bool iso_is_own(const iso_call *call, int64_t sequence);

/* The models: each makes the call of its operator that call->shape and call->content say. */
typedef void iso_generator(iso_call *call, uint64_t shape_seed, uint64_t seed);
iso_generator iso_make_paged_attention, iso_make_paged_decode, iso_make_linear_attention,
    iso_make_onnx_linear_attention, iso_make_replay, iso_make_causal_conv,
    iso_make_onnx_causal_conv, iso_make_merge, iso_make_copies;

#endif
