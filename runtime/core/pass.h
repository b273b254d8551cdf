/*
 * What a kernel is to the engine: a function that computes one work item of one pass, and the
 * record that registers it. The only header of the engine that kernels include, besides core.
 */
#ifndef QUIRE_CORE_PASS_H
#define QUIRE_CORE_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quire/plan.h"
#include "quire/status.h"
#include "quire/tensor.h"

enum { QUIRE_PASS_MAX_BINDINGS = 24 };

/* A tensor or scratch buffer as a pass sees it. Strides count elements and are always set. */
typedef struct quire_view {
  void *data;        /* NULL: the tensor is absent (or has no elements) */
  quire_dtype dtype; /* NONE: absent */
  int32_t ndim;
  int64_t shape[QUIRE_MAX_RANK];
  int64_t stride[QUIRE_MAX_RANK];
} quire_view;

/* One pass of one call. */
typedef struct quire_pass {
  const quire_view *views; /* in the order of the implementation's `bindings` */
  const void *uniforms;    /* struct whose layout is the implementation's `uniforms` */
  size_t grid[3];          /* item counts: item[i] < grid[i] */
  uint32_t flags;          /* QUIRE_RUN_STRICT */
  uint32_t threads;        /* schedule passes only: threads that will share the items; a hint, which
                              no result depends on; 0: unknown */
  quire_error *error;      /* schedule passes only; may be NULL */
} quire_pass;

/*
 * Computes item (x, y, z) of a pass. Items of a pass are independent and run in any order on any
 * thread. Only a schedule pass may fail, and it writes nothing but scratch of lifetime `step`.
 * A schedule pass sees the data of integer inputs and of that scratch only; its other views have
 * their form (dtype NONE if absent) and no data. Stack use stays below 64 KiB.
 */
typedef quire_status quire_pass_function(const quire_pass *pass, const size_t item[3]);

/* Instruction sets, as bits. The order is that of quire_cpu_features[]. */
enum {
  QUIRE_CPU_AVX2 = 1u << 0,
  QUIRE_CPU_FMA = 1u << 1,
  QUIRE_CPU_F16C = 1u << 2,
  QUIRE_CPU_AVX512F = 1u << 3,
  QUIRE_CPU_AVX512BW = 1u << 4,
  QUIRE_CPU_AVX512VL = 1u << 5,
  QUIRE_CPU_AVX512DQ = 1u << 6,
  QUIRE_CPU_AVX512BF16 = 1u << 7,
  QUIRE_CPU_AVX512VNNI = 1u << 8,
  QUIRE_CPU_AMX_BF16 = 1u << 9,
  QUIRE_CPU_AMX_INT8 = 1u << 10,
  QUIRE_CPU_NEON = 1u << 11,
  QUIRE_CPU_FEATURE_COUNT = 12
};

/* Feature names by bit: "avx2", "fma", "f16c", "avx512f", ..., "amx-bf16", "amx-int8", "neon". */
extern const char *const quire_cpu_features[QUIRE_CPU_FEATURE_COUNT];

#define QUIRE_DTYPE_BIT(dtype) (1u << (unsigned)(dtype))

/* One binding of a native pass: its name in the manifest's pass and the types it takes. */
typedef struct quire_pass_binding {
  const char *name;
  uint32_t dtypes; /* QUIRE_DTYPE_BITs; an absent tensor satisfies any */
} quire_pass_binding;

/*
 * An implementation of a native kernel. All implementations of one kernel name have the same
 * bindings, by name and order, and the same uniforms; a manifest's native pass is compared with
 * them when it is loaded into a context.
 */
typedef struct quire_implementation {
  const char *kernel; /* "paged_attention_attend", what a manifest's `native` says */
  const char *name;   /* "paged_attention_attend_f16__avx2" */
  const quire_pass_binding *bindings;
  size_t binding_count;
  const char *uniforms;      /* "name:type ..." in order, types u32, i32, f32; "" for none */
  uint32_t features;         /* QUIRE_CPU bits it needs */
  quire_isa isa;             /* the --isa level that it belongs to */
  quire_precision precision; /* FAST: only for requests of that precision */
  int priority;              /* the highest that fits is used; scalar references have 0 */
  quire_pass_function *function;
} quire_implementation;

/* A folder of kernels registers itself as an array of these. */
typedef struct quire_implementation_list {
  const quire_implementation *items;
  size_t count;
} quire_implementation_list;

#endif
