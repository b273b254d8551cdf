/* Adapters: finding them, listing them, choosing one. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "webgpu_device.h"

enum { MOST_ADAPTERS = 32 };

typedef struct adapter_list {
  WGPUAdapter items[MOST_ADAPTERS];
  WGPUAdapterInfo infos[MOST_ADAPTERS];
  size_t count;
  char reason[QUIRE_WEBGPU_TEXT]; /* why a request brought none; "" if unknown */
} adapter_list;

const char *quire_webgpu_type_name(WGPUAdapterType type) {
  switch (type) {
    case WGPUAdapterType_DiscreteGPU:
      return "discrete GPU";
    case WGPUAdapterType_IntegratedGPU:
      return "integrated GPU";
    case WGPUAdapterType_CPU:
      return "CPU";
    default:
      return "unknown";
  }
}

const char *quire_webgpu_backend_name(WGPUBackendType type) {
  switch (type) {
    case WGPUBackendType_Vulkan:
      return "Vulkan";
    case WGPUBackendType_Metal:
      return "Metal";
    case WGPUBackendType_D3D12:
      return "D3D12";
    case WGPUBackendType_D3D11:
      return "D3D11";
    case WGPUBackendType_OpenGL:
      return "OpenGL";
    case WGPUBackendType_OpenGLES:
      return "OpenGL ES";
    default:
      return "unknown";
  }
}

/* ---- finding ---- */

/* *adapter is NULL if there is none; list->reason then says why, as far as the library does. */
static quire_status request(const quire_webgpu_procs *procs, WGPUInstance instance,
                            WGPUPowerPreference preference, bool fallback, adapter_list *list,
                            WGPUAdapter *adapter, quire_error *error) {
  WGPURequestAdapterOptions options;
  memset(&options, 0, sizeof options);
  options.featureLevel = WGPUFeatureLevel_Core;
  options.powerPreference = preference;
  options.forceFallbackAdapter = fallback ? 1 : 0;
#if defined(__linux__)
  /* Otherwise OpenGL may come instead, which has neither f16 nor subgroups. */
  options.backendType = WGPUBackendType_Vulkan;
#endif
  *adapter = NULL;
  quire_webgpu_answer *answer = quire_webgpu_answer_create(procs, NULL);
  if (answer == NULL) {
    return quire_fail_memory(error);
  }
  quire_webgpu_answer_ask(answer);
  const WGPURequestAdapterCallbackInfo info = {NULL, WGPUCallbackMode_AllowSpontaneous,
                                               quire_webgpu_on_adapter, answer, NULL};
  (void)procs->InstanceRequestAdapter(instance, &options, info);
  if (!quire_webgpu_answer_wait(answer, procs, instance, NULL, NULL) &&
      quire_webgpu_answer_abandon(answer)) {
    (void)snprintf(list->reason, sizeof list->reason, "it never answered");
    return QUIRE_OK;
  }
  *adapter = answer->adapter;
  if (*adapter == NULL) {
    (void)snprintf(list->reason, sizeof list->reason, "%.*s", QUIRE_WEBGPU_TEXT - 1,
                   answer->message);
  }
  quire_webgpu_answer_destroy(answer);
  return QUIRE_OK;
}

static bool same_text(WGPUStringView a, WGPUStringView b) {
  char left[QUIRE_WEBGPU_TEXT];
  char right[QUIRE_WEBGPU_TEXT];
  quire_webgpu_copy_text(left, sizeof left, a);
  quire_webgpu_copy_text(right, sizeof right, b);
  return strcmp(left, right) == 0;
}

static bool is_known(const adapter_list *list, const WGPUAdapterInfo *info) {
  for (size_t i = 0; i < list->count; i++) {
    const WGPUAdapterInfo *other = &list->infos[i];
    if (other->vendorID == info->vendorID && other->deviceID == info->deviceID &&
        other->backendType == info->backendType && same_text(other->device, info->device)) {
      return true;
    }
  }
  return false;
}

static void add(const quire_webgpu_procs *procs, adapter_list *list, WGPUAdapter adapter,
                bool distinct) {
  if (adapter == NULL) {
    return;
  }
  WGPUAdapterInfo info;
  memset(&info, 0, sizeof info);
  if (list->count == MOST_ADAPTERS || procs->AdapterGetInfo(adapter, &info) != WGPUStatus_Success) {
    procs->AdapterRelease(adapter);
    return;
  }
  if (distinct && is_known(list, &info)) {
    procs->AdapterInfoFreeMembers(info);
    procs->AdapterRelease(adapter);
    return;
  }
  list->items[list->count] = adapter;
  list->infos[list->count++] = info;
}

static int rank(WGPUAdapterType type) {
  switch (type) {
    case WGPUAdapterType_DiscreteGPU:
      return 0;
    case WGPUAdapterType_IntegratedGPU:
      return 1;
    case WGPUAdapterType_CPU:
      return 3;
    default:
      return 2;
  }
}

/* Stable, best first. */
static void sort(adapter_list *list) {
  for (size_t i = 1; i < list->count; i++) {
    WGPUAdapter adapter = list->items[i];
    const WGPUAdapterInfo info = list->infos[i];
    size_t at = i;
    for (; at > 0 && rank(list->infos[at - 1].adapterType) > rank(info.adapterType); at--) {
      list->items[at] = list->items[at - 1];
      list->infos[at] = list->infos[at - 1];
    }
    list->items[at] = adapter;
    list->infos[at] = info;
  }
}

static void release_all(const quire_webgpu_procs *procs, adapter_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    procs->AdapterInfoFreeMembers(list->infos[i]);
    procs->AdapterRelease(list->items[i]);
  }
  list->count = 0;
}

/* What wgpu-native lists. False: nothing of use, or more than fits. */
static bool enumerate(const quire_webgpu_procs *procs, WGPUInstance instance, adapter_list *list) {
  enum { VULKAN_METAL_D3D12_BROWSER = 1 | 4 | 8 | 32 };
  const quire_webgpu_enumerate_options options = {NULL, VULKAN_METAL_D3D12_BROWSER};
  WGPUAdapter found[MOST_ADAPTERS];
  if (!quire_webgpu_is_native(procs) || procs->InstanceEnumerateAdapters == NULL) {
    return false;
  }
  const size_t count = procs->InstanceEnumerateAdapters(instance, &options, NULL);
  if (count == 0 || count > MOST_ADAPTERS) {
    return false;
  }
  const size_t filled = procs->InstanceEnumerateAdapters(instance, &options, found);
  for (size_t i = 0; i < filled && i < count; i++) {
    add(procs, list, found[i], false);
  }
  return list->count > 0;
}

/* On failure the list is empty. */
static quire_status find_all(const quire_webgpu_procs *procs, WGPUInstance instance,
                             adapter_list *list, quire_error *error) {
  static const struct {
    WGPUPowerPreference preference;
    bool fallback;
  } requests[] = {{WGPUPowerPreference_HighPerformance, false},
                  {WGPUPowerPreference_LowPower, false},
                  {WGPUPowerPreference_Undefined, true}};
  list->count = 0;
  list->reason[0] = '\0';
  const bool is_complete = enumerate(procs, instance, list);
  for (size_t i = 0; i < sizeof requests / sizeof *requests && !is_complete; i++) {
    WGPUAdapter adapter = NULL;
    const quire_status status = request(procs, instance, requests[i].preference,
                                        requests[i].fallback, list, &adapter, error);
    if (status != QUIRE_OK) {
      release_all(procs, list);
      return status;
    }
    add(procs, list, adapter, true);
  }
  sort(list);
  return QUIRE_OK;
}

/* ---- choosing ---- */

static bool contains(const char *text, const char *part) {
  const size_t length = strlen(part);
  for (; *text != '\0'; text++) {
    size_t i = 0;
    while (i < length && text[i] != '\0' &&
           tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) {
      i++;
    }
    if (i == length) {
      return true;
    }
  }
  return length == 0;
}

static bool matches(const WGPUAdapterInfo *info, const char *name) {
  char text[QUIRE_WEBGPU_TEXT];
  if (name == NULL) {
    return true;
  }
  quire_webgpu_copy_text(text, sizeof text, info->device);
  if (contains(text, name)) {
    return true;
  }
  quire_webgpu_copy_text(text, sizeof text, info->description);
  return contains(text, name);
}

static quire_status no_adapter(const adapter_list *list, const quire_webgpu_options *options,
                               quire_error *error) {
  if (list->count == 0) {
    return quire_fail(
        error, QUIRE_NOT_FOUND, NULL, "webgpu",
        "the library works, but offers no adapter (is a graphics driver installed?)%s%s",
        list->reason[0] == '\0' ? "" : ": ", list->reason);
  }
  char first[QUIRE_WEBGPU_TEXT];
  quire_webgpu_copy_text(first, sizeof first, list->infos[0].device);
  return quire_fail(error, QUIRE_NOT_FOUND, NULL, "adapter",
                    "none of %zu is number %d of those named \"%.64s\"; the first is \"%s\"",
                    list->count, (int)options->adapter_index,
                    options->adapter_name == NULL ? "" : options->adapter_name, first);
}

quire_status quire_webgpu_choose_adapter(const quire_webgpu_options *options,
                                         const quire_webgpu_procs *procs, WGPUInstance instance,
                                         WGPUAdapter *adapter, quire_error *error) {
  adapter_list list;
  *adapter = NULL;
  QUIRE_TRY(find_all(procs, instance, &list, error));
  int32_t left = options->adapter_index < 0 ? 0 : options->adapter_index;
  for (size_t i = 0; i < list.count; i++) {
    if (matches(&list.infos[i], options->adapter_name) && left-- == 0) {
      *adapter = list.items[i];
      procs->AdapterAddRef(*adapter);
      break;
    }
  }
  quire_status status = *adapter == NULL ? no_adapter(&list, options, error) : QUIRE_OK;
  release_all(procs, &list);
  return status;
}

/* ---- listing ---- */

static quire_status check_list(const quire_webgpu_options *options,
                               quire_webgpu_adapter_function *report, quire_webgpu_options *own,
                               quire_error *error) {
  quire_webgpu_options_init(own);
  if (report == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "report", "is NULL");
  }
  if (options == NULL) {
    return QUIRE_OK;
  }
  if (options->struct_size < sizeof *own) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "struct_size is %zu, quire_webgpu_options has %zu bytes",
                      options->struct_size, sizeof *own);
  }
  *own = *options;
  return QUIRE_OK;
}

quire_status quire_webgpu_list_adapters(const quire_webgpu_options *options,
                                        quire_webgpu_adapter_function *report, void *user,
                                        quire_error *error) {
  quire_webgpu_options own;
  QUIRE_TRY(check_list(options, report, &own, error));
  quire_webgpu_procs procs;
  QUIRE_TRY(quire_webgpu_procs_load(&own, &quire_default_allocator, &procs, error));
  WGPUInstance instance = own.instance;
  if (instance == NULL) {
    instance = procs.CreateInstance(NULL);
  } else {
    procs.InstanceAddRef(instance);
  }
  if (instance == NULL) {
    return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "no instance can be made");
  }
  adapter_list list;
  const quire_status status = find_all(&procs, instance, &list, error);
  for (size_t i = 0; status == QUIRE_OK && i < list.count; i++) {
    char name[QUIRE_WEBGPU_TEXT];
    char driver[QUIRE_WEBGPU_TEXT];
    quire_webgpu_copy_text(name, sizeof name, list.infos[i].device);
    quire_webgpu_copy_text(driver, sizeof driver, list.infos[i].description);
    const quire_webgpu_adapter shown = {(int32_t)i, name, driver,
                                        quire_webgpu_type_name(list.infos[i].adapterType),
                                        quire_webgpu_backend_name(list.infos[i].backendType)};
    report(user, &shown);
  }
  release_all(&procs, &list);
  procs.InstanceRelease(instance);
  return status;
}
