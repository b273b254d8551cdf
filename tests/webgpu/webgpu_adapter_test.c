/* Choosing among adapters, by a library of our own that has whichever the test wants. */
#include "webgpu_device.h"
#include "webgpu_harness.h"

enum { MOST = 40 };

typedef struct fake_adapter {
  const char *name, *driver;
  WGPUAdapterType type;
  bool broken; /* tells nothing about itself */
  int references;
} fake_adapter;

/* What requests are answered with, -1: a failure; or what is listed, by wgpu-native. */
static struct {
  fake_adapter adapters[MOST];
  int fast, slow, fallback;
  size_t listed;
  bool waits; /* answers when events are processed, not before */
  int infos;  /* that were not freed */
  WGPURequestAdapterCallbackInfo waiting;
  int answer;
} fake;

static WGPUAdapter take(int index) {
  fake.adapters[index].references++;
  return (WGPUAdapter)(void *)&fake.adapters[index];
}

static fake_adapter *of(WGPUAdapter adapter) {
  return (fake_adapter *)(void *)adapter;
}

static void answer(const WGPURequestAdapterCallbackInfo *info, int index) {
  const WGPUStringView message = {NULL, 0};
  if (index < 0) {
    info->callback(WGPURequestAdapterStatus_Unavailable, NULL, message, info->userdata1, NULL);
  } else {
    info->callback(WGPURequestAdapterStatus_Success, take(index), message, info->userdata1, NULL);
  }
}

static WGPUFuture request_adapter(WGPUInstance instance, const WGPURequestAdapterOptions *options,
                                  WGPURequestAdapterCallbackInfo info) {
  (void)instance;
  const WGPUFuture future = {1};
  fake.answer = options->forceFallbackAdapter                                     ? fake.fallback
                : options->powerPreference == WGPUPowerPreference_HighPerformance ? fake.fast
                                                                                  : fake.slow;
  if (fake.waits) {
    fake.waiting = info;
  } else {
    answer(&info, fake.answer);
  }
  return future;
}

static void process_events(WGPUInstance instance) {
  (void)instance;
  assert_non_null(fake.waiting.callback);
  answer(&fake.waiting, fake.answer);
  fake.waiting.callback = NULL;
}

static WGPUStatus get_info(WGPUAdapter adapter, WGPUAdapterInfo *info) {
  const fake_adapter *one = of(adapter);
  if (one->broken) {
    return WGPUStatus_Error;
  }
  info->device = (WGPUStringView){one->name, strlen(one->name)};
  info->description = (WGPUStringView){one->driver, strlen(one->driver)};
  info->adapterType = one->type;
  fake.infos++;
  return WGPUStatus_Success;
}

static void free_info(WGPUAdapterInfo info) {
  (void)info;
  fake.infos--;
}

static void add_reference(WGPUAdapter adapter) {
  of(adapter)->references++;
}

static void release(WGPUAdapter adapter) {
  of(adapter)->references--;
}

static uint32_t version(void) {
  return 1;
}

static WGPUBool poll(WGPUDevice device, WGPUBool wait, const uint64_t *submission) {
  (void)device, (void)wait, (void)submission;
  return 1;
}

static size_t enumerate(WGPUInstance instance, const quire_webgpu_enumerate_options *options,
                        WGPUAdapter *adapters) {
  (void)instance, (void)options;
  for (size_t i = 0; adapters != NULL && i < fake.listed; i++) {
    adapters[i] = take((int)i);
  }
  return fake.listed;
}

/* The same adapter may come for several requests; a list of wgpu-native's may have equal ones. */
static void reset(int fast, int slow, int fallback) {
  memset(&fake, 0, sizeof fake);
  for (int i = 0; i < MOST; i++) {
    fake.adapters[i] = (fake_adapter){"other", "", WGPUAdapterType_Unknown, false, 0};
  }
  fake.adapters[0] = (fake_adapter){"llvmpipe", "Mesa 22", WGPUAdapterType_CPU, false, 0};
  fake.adapters[1] = (fake_adapter){"Iris", "Mesa 22", WGPUAdapterType_IntegratedGPU, false, 0};
  fake.adapters[2] = (fake_adapter){"Radeon", "RADV", WGPUAdapterType_DiscreteGPU, false, 0};
  fake.fast = fast;
  fake.slow = slow;
  fake.fallback = fallback;
}

/* Fails the test unless it is adapter `want`, or unless it is refused in words that contain `part`.
 */
static void check(const char *what, const char *name, int32_t index, bool native, int want,
                  const char *part) {
  quire_webgpu_procs procs;
  memset(&procs, 0, sizeof procs);
  procs.InstanceRequestAdapter = request_adapter;
  procs.InstanceProcessEvents = process_events;
  procs.AdapterGetInfo = get_info;
  procs.AdapterInfoFreeMembers = free_info;
  procs.AdapterAddRef = add_reference;
  procs.AdapterRelease = release;
  if (native) {
    procs.GetVersion = version;
    procs.DevicePoll = poll;
    procs.InstanceEnumerateAdapters = enumerate;
  }
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.adapter_name = name;
  options.adapter_index = index;
  quire_error error = {QUIRE_OK, "", "", ""};
  WGPUAdapter adapter = NULL;
  const quire_status status = quire_webgpu_choose_adapter(&options, &procs, NULL, &adapter, &error);
  const int got = adapter == NULL ? -1 : (int)(of(adapter) - fake.adapters);
  if (status != (want < 0 ? QUIRE_NOT_FOUND : QUIRE_OK) || got != want ||
      strstr(error.message, part) == NULL) {
    fail_msg("%s: %s, adapter %d: %s", what, quire_status_name(status), got, error.message);
  }
  for (int i = 0; i < MOST; i++) { /* what was found and not chosen is given back */
    assert_int_equal(fake.adapters[i].references, i == want ? 1 : 0);
    fake.adapters[i].references = 0;
  }
  assert_int_equal(fake.infos, 0);
}

static void test_requests(void **state) {
  (void)state;
  reset(0, 1, 2);
  check("the best comes first", NULL, -1, false, 2, "");
  check("then the next", NULL, 1, false, 1, "");
  check("the worst comes last", NULL, 2, false, 0, "");
  check("too far", NULL, 3, false, -1,
        "none of 3 is number 3 of those named \"\"; the first is \"Radeon\"");
  check("part of a name", "pipe", 0, false, 0, "");
  check("in other letters", "IRIS", 0, false, 1, "");
  check("the driver's name", "mesa", 1, false, 0, "");
  check("no such name", "GeForce", 0, false, -1, "named \"GeForce\"");
  fake.waits = true;
  check("answers come later", NULL, 0, false, 2, "");
  reset(1, 1, 1);
  check("one for every request", NULL, 0, false, 1, "");
  check("it counts once", NULL, 1, false, -1, "none of 1 is number 1");
  reset(3, -1, 0);
  check("an unknown one before a CPU", NULL, 0, false, 3, "");
  reset(-1, -1, -1);
  check("none", NULL, 0, false, -1, "offers no adapter");
  reset(2, 1, 0);
  fake.adapters[2].broken = true;
  check("one that tells nothing", NULL, 0, false, 1, "");
}

static void test_lists(void **state) {
  (void)state;
  reset(1, 1, 1);
  fake.listed = 5;
  check("the best of the list", NULL, 0, true, 2, "");
  check("equal ones keep their order", NULL, 3, true, 4, "");
  check("the CPU is last", NULL, 4, true, 0, "");
  fake.listed = 0;
  check("an empty list: requests", NULL, 0, true, 1, "");
  fake.listed = 33;
  check("a list that is too long: requests", NULL, 0, true, 1, "");
}

static void test_names(void **state) {
  (void)state;
  static const struct {
    WGPUAdapterType type;
    const char *name;
  } types[] = {{WGPUAdapterType_DiscreteGPU, "discrete GPU"},
               {WGPUAdapterType_IntegratedGPU, "integrated GPU"},
               {WGPUAdapterType_CPU, "CPU"},
               {WGPUAdapterType_Unknown, "unknown"}};
  static const struct {
    WGPUBackendType type;
    const char *name;
  } backends[] = {{WGPUBackendType_Vulkan, "Vulkan"},    {WGPUBackendType_Metal, "Metal"},
                  {WGPUBackendType_D3D12, "D3D12"},      {WGPUBackendType_D3D11, "D3D11"},
                  {WGPUBackendType_OpenGL, "OpenGL"},    {WGPUBackendType_OpenGLES, "OpenGL ES"},
                  {WGPUBackendType_Undefined, "unknown"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    assert_string_equal(quire_webgpu_type_name(types[i].type), types[i].name);
  }
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
    assert_string_equal(quire_webgpu_backend_name(backends[i].type), backends[i].name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests), cmocka_unit_test(test_lists),
                                     cmocka_unit_test(test_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
