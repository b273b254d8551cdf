/*
 * Random calls of operators, each tensor in memory of its own that ends where a page begins that
 * nobody may touch, and filled with NaN where nothing may be read.
 */
#ifndef QUIRE_TESTS_DIFFERENTIAL_CALL_H
#define QUIRE_TESTS_DIFFERENTIAL_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "quire/quire.h"

enum { DIFF_MOST_TENSORS = 24, DIFF_MOST_ATTRIBUTES = 16, DIFF_MOST_EXTENTS = 4 };

typedef struct diff_random {
  uint64_t state;
  const uint8_t *choices; /* what decides first, of a fuzzer */
  size_t choices_left;
} diff_random;

/* Lets these bytes decide in the calls to come, as long as they last; values stay random. */
void diff_choose_by(const uint8_t *choices, size_t count);

uint64_t diff_next(diff_random *random);
/* In [low, high]. */
int64_t diff_between(diff_random *random, int64_t low, int64_t high);
/* True once in `n` times. */
bool diff_once_in(diff_random *random, int64_t n);
/* One of `count` numbers. */
int64_t diff_pick(diff_random *random, const int64_t *choices, int64_t count);
/* Roughly normal. */
float diff_normal(diff_random *random);

/* Bytes that a call may touch. What lies around them within the mapping is watched, too. */
typedef struct diff_extent {
  unsigned char *start;
  size_t bytes;
  unsigned char *pristine; /* as it was made */
  unsigned char *expected; /* after the scalar run */
} diff_extent;

typedef struct diff_tensor {
  const char *name;
  bool is_output;
  quire_tensor tensor; /* data set */
  int64_t shape[QUIRE_MAX_RANK], strides[QUIRE_MAX_RANK];
  const char *alias; /* no memory of its own */
  unsigned char *mapping;
  size_t mapped;
  diff_extent extents[DIFF_MOST_EXTENTS];
  int extent_count;
} diff_tensor;

typedef struct diff_call {
  const char *op; /* qualified name */
  uint64_t seed;
  diff_random random;
  char text[512]; /* what it is, for people */
  diff_tensor tensors[DIFF_MOST_TENSORS];
  int tensor_count;
  quire_named_value attributes[DIFF_MOST_ATTRIBUTES];
  int attribute_count;
  uint32_t flags;
} diff_call;

/* Fails the test when memory cannot be had. */
void diff_call_begin(diff_call *call, const char *op, uint64_t seed);
void diff_call_release(diff_call *call);
/* Adds to the text. */
void diff_say(diff_call *call, const char *format, ...);

/*
 * Adds a tensor, filled with NaN (integers: a large number). strides NULL: dense. Sparse tensors
 * have their first dimension far apart and no memory between.
 */
diff_tensor *diff_add(diff_call *call, const char *name, bool is_output, quire_dtype dtype,
                      int32_t ndim, const int64_t *shape, const int64_t *strides);
/* An output that is the very buffer of an input. */
void diff_add_alias(diff_call *call, const char *name, const diff_tensor *input);
void diff_integer(diff_call *call, const char *name, int64_t value);
void diff_number(diff_call *call, const char *name, double value);
void diff_word(diff_call *call, const char *name, const char *value);

/* Stores a number at an element (of the data, strides applied by the caller). */
void diff_store(const diff_tensor *one, int64_t element, float value);
/* Fills a dense tensor with normal numbers times `scale`. */
void diff_fill(diff_call *call, const diff_tensor *one, float scale);

/* When all is filled: keeps a copy of everything. */
void diff_call_end(diff_call *call);
/* Puts the copy back. */
void diff_restore(diff_call *call);
/* Keeps what is in memory now as what is expected. */
void diff_expect(diff_call *call);
/* True if memory holds what is expected, all of it; else writes where it does not. NaN is NaN. */
bool diff_compare(const diff_call *call, char *where, size_t size);

/* A pool of states of `ndim` dimensions, with indices to read and write; window 0: none. */
void diff_add_pool(diff_call *call, quire_dtype dtype, int32_t ndim, const int64_t *dims,
                   int64_t sequences, int64_t window);
/* "cu_seqlens" with random lengths that sum up to `tokens`; lengths may be NULL. */
void diff_add_offsets(diff_call *call, int64_t sequences, int64_t tokens, int64_t *lengths);
/* Rows of [batch, tokens, width]; they lie apart now and then, with NaN between. */
diff_tensor *diff_add_rows(diff_call *call, const char *name, quire_dtype dtype,
                           const int64_t shape[3], float scale);

/* The generators. */
typedef void diff_generator(diff_call *call, uint64_t seed);
void diff_make_paged_attention(diff_call *call, uint64_t seed);
void diff_make_paged_decode(diff_call *call, uint64_t seed);
void diff_make_linear_attention(diff_call *call, uint64_t seed);
void diff_make_onnx_linear_attention(diff_call *call, uint64_t seed);
void diff_make_causal_conv(diff_call *call, uint64_t seed);
void diff_make_onnx_causal_conv(diff_call *call, uint64_t seed);
void diff_make_replay(diff_call *call, uint64_t seed);
void diff_make_merge(diff_call *call, uint64_t seed);

#endif
