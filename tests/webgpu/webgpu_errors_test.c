/* What a device reports, and waiting for it: by functions of our own that report whatever the test
   wants. Needs no library. */
#include "webgpu_device.h"
#include "webgpu_harness.h"

static WGPUStringView view(const char *text) {
  return (WGPUStringView){text, strlen(text)};
}

/* One answer for each pop: validation first, then memory. */
static struct {
  WGPUErrorType types[2];
  WGPUPopErrorScopeStatus status;
  WGPUQueueWorkDoneStatus work;
  unsigned pops, pushes, submits, releases;
  unsigned late; /* answers come after so many rounds */
  WGPUPopErrorScopeCallbackInfo waiting;
} fake;

static void push(WGPUDevice device, WGPUErrorFilter filter) {
  (void)device, (void)filter;
  fake.pushes++;
}

static void answer(void) {
  const WGPUErrorType type = fake.types[fake.pops++ % 2];
  const WGPUPopErrorScopeCallbackInfo info = fake.waiting;
  memset(&fake.waiting, 0, sizeof fake.waiting);
  info.callback(fake.status, type, view(type == WGPUErrorType_NoError ? "" : "bad\n  thing"),
                info.userdata1, NULL);
}

static WGPUFuture pop(WGPUDevice device, WGPUPopErrorScopeCallbackInfo info) {
  (void)device;
  fake.waiting = info;
  if (fake.late == 0) {
    answer();
  }
  return (WGPUFuture){1};
}

static void process(WGPUInstance instance) {
  (void)instance;
  if (fake.waiting.callback != NULL && --fake.late == 0) {
    answer();
  }
}

static WGPUBool poll(WGPUDevice device, WGPUBool wait, const uint64_t *submission) {
  (void)device, (void)wait, (void)submission;
  process(NULL);
  return 1;
}

static void submit(WGPUQueue queue, size_t count, const WGPUCommandBuffer *commands) {
  (void)queue, (void)count, (void)commands;
  fake.submits++;
}

static void release(WGPUCommandBuffer commands) {
  (void)commands;
  fake.releases++;
}

static WGPUFuture work_done(WGPUQueue queue, WGPUQueueWorkDoneCallbackInfo info) {
  (void)queue;
  info.callback(fake.work, view("stopped"), info.userdata1, NULL);
  return (WGPUFuture){1};
}

static void make_device(quire_webgpu *gpu, bool native) {
  memset(&fake, 0, sizeof fake);
  memset(gpu, 0, sizeof *gpu);
  fake.types[0] = fake.types[1] = WGPUErrorType_NoError;
  fake.status = WGPUPopErrorScopeStatus_Success;
  fake.work = WGPUQueueWorkDoneStatus_Success;
  gpu->native = native;
  atomic_init(&gpu->lost, false);
  gpu->procs.DevicePushErrorScope = push;
  gpu->procs.DevicePopErrorScope = pop;
  gpu->procs.InstanceProcessEvents = process;
  gpu->procs.DevicePoll = poll;
  gpu->procs.QueueSubmit = submit;
  gpu->procs.CommandBufferRelease = release;
  gpu->procs.QueueOnSubmittedWorkDone = work_done;
}

static void check(const char *what, quire_status got, const quire_error *error, quire_status want,
                  const char *message) {
  if (got != want || (want != QUIRE_OK && strcmp(error->message, message) != 0)) {
    fail_msg("%s: %s: %s", what, quire_status_name(got), got == QUIRE_OK ? "" : error->message);
  }
}

static void test_scopes(void **state) {
  (void)state;
  static const struct {
    const char *what;
    WGPUErrorType validation, memory;
    WGPUPopErrorScopeStatus status;
    quire_status want;
    const char *message;
  } cases[] = {
      {"nothing", WGPUErrorType_NoError, WGPUErrorType_NoError, WGPUPopErrorScopeStatus_Success,
       QUIRE_OK, ""},
      {"memory", WGPUErrorType_NoError, WGPUErrorType_OutOfMemory, WGPUPopErrorScopeStatus_Success,
       QUIRE_OUT_OF_MEMORY, "pass: bad thing"},
      {"validation", WGPUErrorType_Validation, WGPUErrorType_NoError,
       WGPUPopErrorScopeStatus_Success, QUIRE_DEVICE, "pass: bad thing"},
      {"memory by the other scope", WGPUErrorType_OutOfMemory, WGPUErrorType_NoError,
       WGPUPopErrorScopeStatus_Success, QUIRE_OUT_OF_MEMORY, "pass: bad thing"},
      {"the scope itself", WGPUErrorType_NoError, WGPUErrorType_NoError,
       WGPUPopErrorScopeStatus_Error, QUIRE_DEVICE, "pass: the error scope failed: "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int way = 0; way < 4; way++) { /* at once or late, wgpu-native or not */
      quire_webgpu gpu;
      quire_error error = {QUIRE_OK, "", "", ""};
      make_device(&gpu, way % 2 == 1);
      fake.types[0] = cases[i].validation;
      fake.types[1] = cases[i].memory;
      fake.status = cases[i].status;
      quire_webgpu_scope_begin(&gpu);
      assert_int_equal(fake.pushes, 2);
      fake.late = way < 2 ? 0 : 100;
      check(cases[i].what, quire_webgpu_scope_end(&gpu, "pass", &error), &error, cases[i].want,
            cases[i].message);
      assert_int_equal(fake.pops, 2);
    }
  }
}

/* The first reason is kept; a creation that failed is no loss. */
static void test_loss(void **state) {
  (void)state;
  quire_webgpu gpu;
  quire_error error = {QUIRE_OK, "", "", ""};
  make_device(&gpu, false);
  quire_webgpu_on_lost(NULL, WGPUDeviceLostReason_FailedCreation, view("no"), &gpu, NULL);
  check("a failed creation", quire_webgpu_check_lost(&gpu, &error), &error, QUIRE_OK, "");
  quire_webgpu_on_lost(NULL, WGPUDeviceLostReason_Unknown, view("unplugged"), &gpu, NULL);
  quire_webgpu_on_lost(NULL, WGPUDeviceLostReason_Destroyed, view("released"), &gpu, NULL);
  static const char lost[] = "webgpu: the device is lost: unplugged";
  check("a loss", quire_webgpu_check_lost(&gpu, &error), &error, QUIRE_DEVICE, lost);
  check("a scope", quire_webgpu_scope_end(&gpu, "pass", &error), &error, QUIRE_DEVICE, lost);
  fake.late = UINT32_MAX; /* a lost device may never answer */
  const bool never = false;
  check("a wait", quire_webgpu_wait_for(&gpu, &never, &error), &error, QUIRE_DEVICE, lost);
  make_device(&gpu, true);
  fake.late = UINT32_MAX;
  check("wgpu-native that does not answer", quire_webgpu_wait_for(&gpu, &never, &error), &error,
        QUIRE_DEVICE, "webgpu: the device never answered");
}

static void test_uncaptured(void **state) {
  (void)state;
  quire_webgpu gpu;
  make_device(&gpu, false);
  quire_webgpu_on_error(NULL, WGPUErrorType_Validation, view("first"), &gpu, NULL);
  quire_webgpu_on_error(NULL, WGPUErrorType_Validation, view("second"), &gpu, NULL);
  assert_string_equal(gpu.uncaptured, "first");
}

static void test_submit(void **state) {
  (void)state;
  quire_webgpu gpu;
  quire_error error = {QUIRE_OK, "", "", ""};
  make_device(&gpu, false);
  check("done", quire_webgpu_submit(&gpu, NULL, true, &error), &error, QUIRE_OK, "");
  check("not waited for", quire_webgpu_submit(&gpu, NULL, false, &error), &error, QUIRE_OK, "");
  fake.work = WGPUQueueWorkDoneStatus_Error;
  check("failed", quire_webgpu_submit(&gpu, NULL, true, &error), &error, QUIRE_DEVICE,
        "webgpu: the work did not finish: stopped");
  quire_webgpu_on_lost(NULL, WGPUDeviceLostReason_Unknown, view(""), &gpu, NULL);
  check("lost", quire_webgpu_submit(&gpu, NULL, false, &error), &error, QUIRE_DEVICE,
        "webgpu: the device is lost: no reason given");
  assert_int_equal(fake.submits, 4);
  assert_int_equal(fake.releases, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scopes), cmocka_unit_test(test_loss),
                                     cmocka_unit_test(test_uncaptured),
                                     cmocka_unit_test(test_submit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
