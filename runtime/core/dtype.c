#include <string.h>

#include "quire/tensor.h"

static const struct {
  const char *name;
  size_t size;
} dtypes[QUIRE_DTYPE_COUNT] = {
    [QUIRE_DTYPE_NONE] = {"none", 0}, [QUIRE_FLOAT32] = {"float32", 4},
    [QUIRE_FLOAT16] = {"float16", 2}, [QUIRE_BFLOAT16] = {"bfloat16", 2},
    [QUIRE_FLOAT64] = {"float64", 8}, [QUIRE_INT8] = {"int8", 1},
    [QUIRE_INT16] = {"int16", 2},     [QUIRE_INT32] = {"int32", 4},
    [QUIRE_INT64] = {"int64", 8},     [QUIRE_UINT8] = {"uint8", 1},
    [QUIRE_UINT16] = {"uint16", 2},   [QUIRE_UINT32] = {"uint32", 4},
    [QUIRE_UINT64] = {"uint64", 8},   [QUIRE_BOOL] = {"bool", 1},
};

static size_t dtype_index(quire_dtype dtype) {
  size_t index = (size_t)dtype;
  return index < QUIRE_DTYPE_COUNT ? index : QUIRE_DTYPE_NONE;
}

size_t quire_dtype_size(quire_dtype dtype) {
  return dtypes[dtype_index(dtype)].size;
}

const char *quire_dtype_name(quire_dtype dtype) {
  return dtypes[dtype_index(dtype)].name;
}

quire_dtype quire_dtype_from_name(const char *name) {
  for (size_t i = QUIRE_DTYPE_NONE + 1; name != NULL && i < QUIRE_DTYPE_COUNT; i++) {
    if (strcmp(dtypes[i].name, name) == 0) {
      return (quire_dtype)i;
    }
  }
  return QUIRE_DTYPE_NONE;
}
