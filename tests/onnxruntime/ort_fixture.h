/*
 * Models of a few nodes, made and run through ONNX Runtime's C interface, without Python and
 * without linking it: the library of any wheel does. Failures end the test with the runtime's
 * message.
 */
#ifndef QUIRE_TEST_ORT_FIXTURE_H
#define QUIRE_TEST_ORT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <onnxruntime_c_api.h>

enum { MOST_RANK = 5, MOST_NODE_VALUES = 17, MOST_MODEL_VALUES = 24, MOST_SET = 6 };

/* A tensor of a model and of a run; data belongs to the test. */
typedef struct ort_tensor {
  const char *name;
  ONNXTensorElementDataType type;
  size_t rank;
  int64_t shape[MOST_RANK]; /* of the run; the model's is the same, or unknown */
  void *data;
} ort_tensor;

typedef struct ort_attribute {
  const char *name;
  OrtOpAttrType type;
  int64_t i;
  float f;
  const char *s;
} ort_attribute;

typedef struct ort_node {
  const char *type, *domain, *name;
  const char *inputs[MOST_NODE_VALUES]; /* "" where absent, NULL ends */
  const char *outputs[MOST_NODE_VALUES];
  ort_attribute attributes[MOST_SET]; /* a NULL name ends */
} ort_node;

typedef struct ort_model {
  const ort_node *nodes;
  size_t node_count;
  const ort_tensor *inputs;
  size_t input_count;
  const ort_tensor *outputs;
  size_t output_count;
  bool symbolic; /* no size is known to the model */
} ort_model;

extern const OrtApi *ort_api;
extern OrtEnv *ort_env;

/* Loads the runtime that QUIRE_TEST_ONNXRUNTIME names; false: there is none to test with. */
bool ort_open(void);
void ort_close(void);

void ort_register(const char *name);
void ort_unregister(const char *name);
/* Devices of our provider. */
size_t ort_device_count(void);

/* Fails the test unless status is success. */
void ort_ok(OrtStatus *status);
/* Fails the test unless status is a failure whose message holds both texts; releases it. */
void ort_refused(OrtStatus *status, OrtErrorCode code, const char *text, const char *more);

/* A session with our provider alone, and options of it: keys and values in turn, NULL ends. */
OrtStatus *ort_try_session(const ort_model *model, int threads, const char *const *options,
                           OrtSession **session);
OrtSession *ort_session(const ort_model *model, int threads);

/*
 * Runs with all inputs and outputs in the test's memory. An output whose data is NULL is left to
 * the runtime, and goes unseen.
 */
OrtStatus *ort_try_run(OrtSession *session, const ort_tensor *inputs, size_t input_count,
                       const ort_tensor *outputs, size_t output_count);

#endif
