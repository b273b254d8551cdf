#include "ort_provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort_claim.h"

typedef struct provider {
  OrtEp ep; /* first: the runtime knows its address only */
  const quire_ort_runtime *runtime;
  const quire_ort_binding *bindings;
  const OrtLogger *logger;
  quire_ort_options options;
  quire_device *device; /* the plans' */
  quire_ort_plans *plans;
  quire_ort_form **forms; /* all different */
  size_t form_count;
  OrtStatus *refusal; /* why a node that nobody else can compute is refused: Compile says it */
} provider;

/* ---- claiming ---- */

static const quire_ort_binding *binding_of(const provider *self, const char *domain,
                                           const char *type, int version) {
  const quire_ort_binding *binding = quire_ort_find(self->bindings, domain, type, version);
  return binding != NULL && self->options.kinds[binding - self->bindings] ? binding : NULL;
}

static OrtStatus *read_identity(const provider *self, const OrtNode *node, quire_ort_label *label,
                                const quire_ort_binding **binding) {
  const OrtApi *api = self->runtime->api;
  const char *domain = NULL;
  int version = 0;
  QUIRE_ORT_TRY(api->Node_GetOperatorType(node, &label->type));
  QUIRE_ORT_TRY(api->Node_GetDomain(node, &domain));
  QUIRE_ORT_TRY(api->Node_GetSinceVersion(node, &version));
  QUIRE_ORT_TRY(api->Node_GetName(node, &label->name));
  *binding = binding_of(self, domain, label->type, version);
  return NULL;
}

/* Says why a node is left to the runtime: the session works, and slower than hoped. */
static void log_left(const provider *self, const OrtStatus *reason) {
  const OrtApi *api = self->runtime->api;
  char text[QUIRE_MESSAGE_SIZE + 512];
  (void)snprintf(text, sizeof text, QUIRE_ORT_PROVIDER_NAME " leaves a node to the runtime: %s",
                 api->GetErrorMessage(reason));
  api->ReleaseStatus(api->Logger_LogMessage(self->logger, ORT_LOGGING_LEVEL_INFO, text, ORT_FILE,
                                            __LINE__, __func__));
}

static OrtStatus *claim_node(provider *self, const OrtNode *node, OrtEpGraphSupportInfo *info) {
  const OrtApi *api = self->runtime->api;
  const quire_ort_binding *binding = NULL;
  quire_ort_label label = {NULL, NULL};
  quire_ort_form form;
  QUIRE_ORT_TRY(read_identity(self, node, &label, &binding));
  if (binding == NULL) {
    return NULL;
  }
  OrtStatus *refusal =
      quire_ort_claim_check(self->runtime, &label, binding, node, self->device, &form);
  if (refusal != NULL && quire_ort_claim_has_fallback(&form)) {
    log_left(self, refusal);
    api->ReleaseStatus(refusal);
    return NULL;
  }
  /* A status of this function is only logged, so a node that nobody can compute is claimed, and the
     session fails in Compile, with the reason. */
  if (refusal != NULL && self->refusal == NULL) {
    self->refusal = refusal;
  } else {
    api->ReleaseStatus(refusal);
  }
  const OrtNodeFusionOptions options = {QUIRE_ORT_VERSION, false};
  return self->runtime->ep_api->EpGraphSupportInfo_AddNodesToFuse(info, &node, 1, &options);
}

static OrtStatus *ORT_API_CALL get_capability(OrtEp *ep, const OrtGraph *graph,
                                              OrtEpGraphSupportInfo *info) {
  provider *self = (provider *)ep;
  const OrtApi *api = self->runtime->api;
  size_t count = 0;
  QUIRE_ORT_TRY(api->Graph_GetNumNodes(graph, &count));
  if (count == 0) {
    return NULL;
  }
  const OrtNode **nodes = calloc(count, sizeof *nodes);
  if (nodes == NULL) {
    return quire_ort_fail(self->runtime, ORT_FAIL, "no memory for a graph of %zu nodes", count);
  }
  OrtStatus *status = api->Graph_GetNodes(graph, nodes, count);
  for (size_t i = 0; status == NULL && i < count; i++) {
    status = claim_node(self, nodes[i], info);
  }
  free(nodes);
  return status;
}

/* ---- compiling ---- */

/* The provider's own form equal to `form`, made if there is none; NULL without memory. */
static const quire_ort_form *keep_form(provider *self, quire_ort_form *form) {
  for (size_t i = 0; i < self->form_count; i++) {
    if (quire_ort_form_equal(self->forms[i], form)) {
      free(form);
      return self->forms[i];
    }
  }
  quire_ort_form **grown = realloc(self->forms, (self->form_count + 1) * sizeof *self->forms);
  if (grown == NULL) {
    free(form);
    return NULL;
  }
  self->forms = grown;
  form->id = self->form_count;
  self->forms[self->form_count++] = form;
  return form;
}

static OrtStatus *no_memory(const provider *self) {
  return quire_ort_fail(self->runtime, ORT_FAIL, "no memory for a node");
}

/* Reads the model's node into a form of the provider. */
static OrtStatus *read_form(provider *self, const quire_ort_label *label,
                            const quire_ort_binding *binding, const OrtNode *node,
                            const quire_ort_values *values, const quire_ort_form **kept) {
  quire_ort_form *form = malloc(sizeof *form);
  if (form == NULL) {
    return no_memory(self);
  }
  OrtStatus *status = quire_ort_form_read(self->runtime, label, binding, node, values, form);
  if (status != NULL) {
    free(form);
    return status;
  }
  *kept = keep_form(self, form);
  return *kept != NULL ? NULL : no_memory(self);
}

static char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  if (copy != NULL) {
    memcpy(copy, text, size);
  }
  return copy;
}

static OrtStatus *fill_node(provider *self, const quire_ort_label *label,
                            const quire_ort_binding *binding, const OrtNode *inner,
                            const OrtNode *fused, quire_ort_node *node) {
  quire_ort_values values;
  quire_ort_node_init(node);
  node->runtime = self->runtime;
  node->plans = self->plans;
  node->thread_limit = self->options.thread_limit;
  node->name = copy_text(label->name);
  if (node->name == NULL) {
    return no_memory(self);
  }
  QUIRE_ORT_TRY(quire_ort_read_values(self->runtime, label, binding, inner, &values));
  QUIRE_ORT_TRY(read_form(self, label, binding, inner, &values, &node->form));
  return quire_ort_node_map(node, &values, fused);
}

static OrtStatus *compile_node(provider *self, const OrtGraph *graph, const OrtNode *fused,
                               OrtNodeComputeInfo **info) {
  const OrtApi *api = self->runtime->api;
  const OrtNode *inner = NULL;
  const quire_ort_binding *binding = NULL;
  quire_ort_label label = {NULL, NULL};
  size_t count = 0;
  QUIRE_ORT_TRY(api->Graph_GetNumNodes(graph, &count));
  if (count != 1) {
    return quire_ort_fail(self->runtime, ORT_FAIL, "a fused graph has %zu nodes, 1 was claimed",
                          count);
  }
  QUIRE_ORT_TRY(api->Graph_GetNodes(graph, &inner, 1));
  QUIRE_ORT_TRY(read_identity(self, inner, &label, &binding));
  if (binding == NULL) {
    return quire_ort_fail(self->runtime, ORT_FAIL, "%s was not claimed", label.type);
  }
  quire_ort_node *node = calloc(1, sizeof *node);
  if (node == NULL) {
    return no_memory(self);
  }
  OrtStatus *status = fill_node(self, &label, binding, inner, fused, node);
  if (status != NULL) {
    quire_ort_node_destroy(node);
    return status;
  }
  *info = &node->info;
  return NULL;
}

static void ORT_API_CALL release_nodes(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
  (void)ep;
  for (size_t i = 0; i < count; i++) {
    quire_ort_node_destroy((quire_ort_node *)infos[i]);
    infos[i] = NULL;
  }
}

static OrtStatus *ORT_API_CALL compile(OrtEp *ep, const OrtGraph **graphs,
                                       const OrtNode **fused_nodes, size_t count,
                                       OrtNodeComputeInfo **infos, OrtNode **context_nodes) {
  provider *self = (provider *)ep;
  (void)context_nodes; /* for models that are saved compiled: there is nothing to save */
  if (self->refusal != NULL) {
    OrtStatus *refusal = self->refusal;
    self->refusal = NULL;
    return refusal;
  }
  for (size_t i = 0; i < count; i++) {
    OrtStatus *status = compile_node(self, graphs[i], fused_nodes[i], &infos[i]);
    if (status != NULL) {
      release_nodes(ep, infos, i);
      return status;
    }
  }
  return NULL;
}

/* ---- life ---- */

static const char *ORT_API_CALL get_name(const OrtEp *ep) {
  (void)ep;
  return QUIRE_ORT_PROVIDER_NAME;
}

OrtStatus *quire_ort_provider_create(const quire_ort_runtime *runtime,
                                     const quire_ort_binding *bindings, quire_device *device,
                                     const quire_ort_options *options, const OrtLogger *logger,
                                     OrtEp **ep) {
  provider *self = calloc(1, sizeof *self);
  quire_ort_plans *plans = self == NULL ? NULL : quire_ort_plans_create(device);
  if (plans == NULL) {
    free(self);
    return quire_ort_fail(runtime, ORT_FAIL, "no memory for an execution provider");
  }
  self->ep.ort_version_supported = QUIRE_ORT_VERSION;
  self->ep.GetName = get_name;
  self->ep.GetCapability = get_capability;
  self->ep.Compile = compile;
  self->ep.ReleaseNodeComputeInfos = release_nodes;
  self->runtime = runtime;
  self->bindings = bindings;
  self->logger = logger;
  self->options = *options;
  self->device = device;
  self->plans = plans;
  *ep = &self->ep;
  return NULL;
}

void quire_ort_provider_destroy(OrtEp *ep) {
  provider *self = (provider *)ep;
  if (self == NULL) {
    return;
  }
  self->runtime->api->ReleaseStatus(self->refusal);
  for (size_t i = 0; i < self->form_count; i++) {
    free(self->forms[i]);
  }
  free(self->forms);
  quire_ort_plans_destroy(self->plans);
  free(self);
}
