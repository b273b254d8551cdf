#include "ort_runtime.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_SIZE = QUIRE_MESSAGE_SIZE + 512 };

OrtErrorCode quire_ort_code(quire_status status) {
  if (status == QUIRE_OK) {
    return ORT_OK;
  }
  if (quire_status_is_invalid_argument(status)) {
    return ORT_INVALID_ARGUMENT;
  }
  return status == QUIRE_UNSUPPORTED ? ORT_NOT_IMPLEMENTED : ORT_FAIL;
}

OrtStatus *quire_ort_fail(const quire_ort_runtime *runtime, OrtErrorCode code, const char *format,
                          ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return runtime->api->CreateStatus(code, message);
}

OrtStatus *quire_ort_refuse(const quire_ort_runtime *runtime, const quire_ort_label *label,
                            OrtErrorCode code, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return quire_ort_fail(runtime, code, "%s node \"%.256s\": %s", label->type, label->name, message);
}

OrtStatus *quire_ort_pass_on(const quire_ort_runtime *runtime, const quire_ort_label *label,
                             const quire_error *error) {
  return quire_ort_refuse(runtime, label, quire_ort_code(error->status), "%s (%s)", error->message,
                          quire_status_name(error->status));
}

quire_dtype quire_ort_dtype(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return QUIRE_FLOAT32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return QUIRE_FLOAT16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return QUIRE_BFLOAT16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return QUIRE_FLOAT64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
      return QUIRE_INT8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
      return QUIRE_INT16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return QUIRE_INT32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return QUIRE_INT64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return QUIRE_UINT8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
      return QUIRE_UINT16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
      return QUIRE_UINT32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
      return QUIRE_UINT64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return QUIRE_BOOL;
    default:
      return QUIRE_DTYPE_NONE;
  }
}
