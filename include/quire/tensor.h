/* Element types and tensors. */
#ifndef QUIRE_TENSOR_H
#define QUIRE_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "quire/export.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { QUIRE_MAX_RANK = 8 };

/* Element types. QUIRE_DTYPE_NONE (0) means "not given". */
typedef enum quire_dtype {
  QUIRE_DTYPE_NONE = 0,
  QUIRE_FLOAT32 = 1,
  QUIRE_FLOAT16 = 2,
  QUIRE_BFLOAT16 = 3,
  QUIRE_FLOAT64 = 4,
  QUIRE_INT8 = 5,
  QUIRE_INT16 = 6,
  QUIRE_INT32 = 7,
  QUIRE_INT64 = 8,
  QUIRE_UINT8 = 9,
  QUIRE_UINT16 = 10,
  QUIRE_UINT32 = 11,
  QUIRE_UINT64 = 12,
  QUIRE_BOOL = 13, /* one byte, 0 or 1 */
  QUIRE_DTYPE_COUNT = 14
} quire_dtype;

/* Bytes of one element in host memory; 0 for QUIRE_DTYPE_NONE and unknown numbers. */
QUIRE_API size_t quire_dtype_size(quire_dtype dtype);

/* Name as ONNX writes it, such as "float16" or "bfloat16"; "none" for unknown numbers. */
QUIRE_API const char *quire_dtype_name(quire_dtype dtype);

/* The type of that name, or QUIRE_DTYPE_NONE. `name` ends with a zero byte, or is NULL. */
QUIRE_API quire_dtype quire_dtype_from_name(const char *name);

/*
 * A tensor, shaped like DLPack's: it borrows the memory it points to, including `shape` and
 * `strides`, and never frees any.
 *
 * Strides count elements and may be NULL for a dense, row-major tensor. Element
 * (i0, i1, ...) lies at byte_offset + (i0*strides[0] + i1*strides[1] + ...) * size bytes from data.
 * On the CPU `data` is a host pointer; on WebGPU it is a WGPUBuffer. NULL data means that the
 * tensor is absent, unless it has no elements.
 */
typedef struct quire_tensor {
  void *data;
  uint64_t byte_offset;
  quire_dtype dtype;
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides;
} quire_tensor;

#ifdef __cplusplus
}
#endif

#endif
