/* What a device reports, and waiting for it: by functions of our own that report whatever the test
   wants. Needs no library. */
#include <time.h>

#include "webgpu_device.h"
#include "webgpu_harness.h"

/* Nobody rests here. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left) {
  (void)pause, (void)left;
  return 0;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static WGPUStringView view(const char *text) {
  return (WGPUStringView){text, strlen(text)};
}

/* One answer for each pop: validation first, then memory, then (not wgpu-native) internal errors.
 */
static struct {
  WGPUErrorType types[3];
  unsigned scopes;
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
  const WGPUErrorType type = fake.types[fake.pops++ % fake.scopes];
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

static uint32_t version(void) {
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
  fake.types[0] = fake.types[1] = fake.types[2] = WGPUErrorType_NoError;
  fake.scopes = native ? 2 : 3;
  fake.status = WGPUPopErrorScopeStatus_Success;
  fake.work = WGPUQueueWorkDoneStatus_Success;
  gpu->native = native;
  gpu->news = quire_webgpu_news_create();
  assert_non_null(gpu->news);
  gpu->procs.DevicePushErrorScope = push;
  gpu->procs.DevicePopErrorScope = pop;
  gpu->procs.InstanceProcessEvents = process;
  gpu->procs.DevicePoll = native ? poll : NULL;
  gpu->procs.GetVersion = native ? version : NULL;
  gpu->procs.QueueSubmit = submit;
  gpu->procs.CommandBufferRelease = release;
  gpu->procs.QueueOnSubmittedWorkDone = work_done;
  gpu->device = (WGPUDevice)(void *)&fake; /* not looked into */
  gpu->answer = quire_webgpu_answer_create(&gpu->procs, gpu->news);
  assert_non_null(gpu->answer);
}

static void drop_device(quire_webgpu *gpu) {
  quire_webgpu_answer_destroy(gpu->answer);
  quire_webgpu_news_drop(gpu->news);
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
       WGPUPopErrorScopeStatus_Error, QUIRE_DEVICE,
       "pass: the error scope failed: an error without a message"},
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
      assert_int_equal(fake.pushes, fake.scopes);
      fake.late = way < 2 ? 0 : 100;
      check(cases[i].what, quire_webgpu_scope_end(&gpu, "pass", &error), &error, cases[i].want,
            cases[i].message);
      assert_int_equal(fake.pops, fake.scopes);
      drop_device(&gpu);
    }
  }
}

/* wgpu-native has no scope for internal errors, others have. */
static void test_internal(void **state) {
  (void)state;
  for (int native = 0; native < 2; native++) {
    quire_webgpu gpu;
    quire_error error = {QUIRE_OK, "", "", ""};
    make_device(&gpu, native != 0);
    quire_webgpu_on_error(NULL, WGPUErrorType_Internal, view("before"), gpu.news, NULL);
    quire_webgpu_scope_begin(&gpu);
    check("none", quire_webgpu_scope_end(&gpu, "pass", &error), &error, QUIRE_OK, "");
    quire_webgpu_scope_begin(&gpu);
    quire_webgpu_on_error(NULL, WGPUErrorType_Validation, view("the caller's"), gpu.news, NULL);
    check("another", quire_webgpu_scope_end(&gpu, "pass", &error), &error, QUIRE_OK, "");
    quire_webgpu_scope_begin(&gpu);
    if (native != 0) {
      quire_webgpu_on_error(NULL, WGPUErrorType_Internal, view("bad thing"), gpu.news, NULL);
      quire_webgpu_on_error(NULL, WGPUErrorType_Internal, view("second"), gpu.news, NULL);
    } else {
      fake.types[2] = WGPUErrorType_Internal;
    }
    check("one", quire_webgpu_scope_end(&gpu, "pass", &error), &error, QUIRE_DEVICE,
          "pass: bad thing");
    drop_device(&gpu);
  }
}

/* The first reason is kept; a creation that failed is no loss. */
static void test_loss(void **state) {
  (void)state;
  quire_webgpu gpu;
  quire_error error = {QUIRE_OK, "", "", ""};
  make_device(&gpu, false);
  quire_webgpu_news_hold(gpu.news); /* each callback of loss stands for one */
  quire_webgpu_on_lost(NULL, WGPUDeviceLostReason_FailedCreation, view("no"), gpu.news, NULL);
  check("a failed creation", quire_webgpu_check_lost(&gpu, &error), &error, QUIRE_OK, "");
  quire_webgpu_news_hold(gpu.news);
  quire_webgpu_on_lost(NULL, WGPUDeviceLostReason_Unknown, view("unplugged"), gpu.news, NULL);
  quire_webgpu_on_lost_native(NULL, WGPUDeviceLostReason_Destroyed, view("released"), gpu.news,
                              NULL);
  static const char lost[] = "webgpu: the device is lost: unplugged";
  check("a loss", quire_webgpu_check_lost(&gpu, &error), &error, QUIRE_DEVICE, lost);
  check("a scope", quire_webgpu_scope_end(&gpu, "pass", &error), &error, QUIRE_DEVICE, lost);
  assert_int_equal(fake.pops, fake.scopes); /* closed all the same */
  drop_device(&gpu);
}

/* What is given up is the callback's from then on, and the device counts as lost. */
static void test_silence(void **state) {
  (void)state;
  quire_webgpu gpu;
  quire_error error = {QUIRE_OK, "", "", ""};
  make_device(&gpu, true);
  static const char silent[] = "webgpu: the device is lost: it never answered";
  fake.late = UINT32_MAX;
  quire_webgpu_scope_begin(&gpu);
  check("a scope", quire_webgpu_scope_end(&gpu, "pass", &error), &error, QUIRE_DEVICE, silent);
  check("the next", quire_webgpu_check_lost(&gpu, &error), &error, QUIRE_DEVICE, silent);
  assert_null(gpu.answer);
  quire_webgpu_answer *answer = quire_webgpu_answer_create(&gpu.procs, gpu.news);
  quire_webgpu_answer_ask(answer);
  const atomic_bool lost = true; /* a lost device may never answer */
  gpu.procs.DevicePoll = NULL;
  assert_false(quire_webgpu_answer_wait(answer, &gpu.procs, NULL, gpu.device, &lost));
  assert_true(quire_webgpu_answer_abandon(answer));
  drop_device(&gpu);
  quire_webgpu_on_work(WGPUQueueWorkDoneStatus_Success, view("late"), answer, NULL);
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
  quire_webgpu_on_lost_native(NULL, WGPUDeviceLostReason_Unknown, view(""), gpu.news, NULL);
  check("lost", quire_webgpu_submit(&gpu, NULL, false, &error), &error, QUIRE_DEVICE,
        "webgpu: the device is lost: no reason given");
  assert_int_equal(fake.submits, 4);
  assert_int_equal(fake.releases, 4);
  drop_device(&gpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scopes), cmocka_unit_test(test_loss),
                                     cmocka_unit_test(test_internal),
                                     cmocka_unit_test(test_silence), cmocka_unit_test(test_submit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
