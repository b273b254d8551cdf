/* The runtime's function tables, and how statuses of Quire become its own. */
#ifndef QUIRE_ORT_RUNTIME_H
#define QUIRE_ORT_RUNTIME_H

#include <onnxruntime_c_api.h>

#include "quire/quire.h"

/* The version whose structs are declared and filled; newer runtimes keep to it. */
enum { QUIRE_ORT_VERSION = 23 };

/* Tables of the process that loaded us; valid as long as it. */
typedef struct quire_ort_runtime {
  const OrtApi *api;
  const OrtEpApi *ep_api;
} quire_ort_runtime;

/* What every message begins with, since fused nodes lose the model's names. */
typedef struct quire_ort_label {
  const char *type; /* operator type */
  const char *name; /* the node's; may be empty */
} quire_ort_label;

/* Returns a status of the runtime from the calling function unless it is success (NULL). */
#define QUIRE_ORT_TRY(expression)                   \
  do {                                              \
    OrtStatus *quire_ort_try_status = (expression); \
    if (quire_ort_try_status != NULL) {             \
      return quire_ort_try_status;                  \
    }                                               \
  } while (0)

/* A new status with a message; the caller's, as all statuses of the runtime. */
OrtStatus *quire_ort_fail(const quire_ort_runtime *runtime, OrtErrorCode code, const char *format,
                          ...);

/* As quire_ort_fail(), with the node in front: `LinearAttention node "layer.0": ...`. */
OrtStatus *quire_ort_refuse(const quire_ort_runtime *runtime, const quire_ort_label *label,
                            OrtErrorCode code, const char *format, ...);

/* What Quire refused: its message, with the node in front and the status behind. */
OrtStatus *quire_ort_pass_on(const quire_ort_runtime *runtime, const quire_ort_label *label,
                             const quire_error *error);

/* Invalid arguments, UNSUPPORTED (NOT_IMPLEMENTED), and all else (FAIL). */
OrtErrorCode quire_ort_code(quire_status status);

/* Element types, both ways; NONE and UNDEFINED for those that the other side lacks. */
quire_dtype quire_ort_dtype(ONNXTensorElementDataType type);

#endif
