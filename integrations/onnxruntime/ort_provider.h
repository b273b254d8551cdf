/* The execution provider of one session: which nodes are ours, and what becomes of them. */
#ifndef QUIRE_ORT_PROVIDER_H
#define QUIRE_ORT_PROVIDER_H

#include "ort_node.h"

/* The name that applications choose us by; options have it in lower case. */
#define QUIRE_ORT_PROVIDER_NAME "QuireExecutionProvider"
#define QUIRE_ORT_OPTION_PREFIX "ep.quireexecutionprovider."

/* What a session may choose. */
typedef struct quire_ort_options {
  bool kinds[QUIRE_ORT_KINDS]; /* operators to take */
  size_t thread_limit;         /* threads that share a run; 0: unknown */
} quire_ort_options;

/* Borrows the bindings of its factory, and takes the device over on success. */
OrtStatus *quire_ort_provider_create(const quire_ort_runtime *runtime,
                                     const quire_ort_binding *bindings, quire_device *device,
                                     const quire_ort_options *options, const OrtLogger *logger,
                                     OrtEp **ep);

void quire_ort_provider_destroy(OrtEp *ep);

#endif
