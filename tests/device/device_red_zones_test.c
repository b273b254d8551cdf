/* A kernel that writes behind its scratch is found, whoever owns the memory. */
#include "device_harness.h"
#include "red_zones.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS_SANITIZER 1
#endif
#endif

static const append_options good = {.n = 4, .c = 5, .d = 3, .step = 1};
static const append_options overrun = {.n = 4, .c = 5, .d = 3, .step = HARNESS_OVERRUN_STEP};

enum { ROOM = 4096 };
static _Alignas(64) unsigned char room[ROOM];

static quire_status run(append_call *call, quire_workspace *workspace, quire_error *error) {
  return quire_plan_run(call->plan, call->tensors, APPEND_SLOTS, workspace, NULL, error);
}

/* A good call, a bad one, and a good one again on the same workspace; then the bad one by items. */
static void check_overrun(harness *h, const quire_workspace_options *options) {
  append_call a, b;
  append_make(h, &a, &good);
  append_make(h, &b, &overrun);
  quire_workspace *workspace = NULL;
  assert_int_equal(quire_workspace_create(h->device, options, &workspace, NULL), QUIRE_OK);
  quire_error error;
  assert_int_equal(run(&a, workspace, &error), QUIRE_OK);
  append_check(&a, &good);
  assert_int_equal(run(&b, workspace, &error), QUIRE_INTERNAL);
  assert_string_equal(error.message, "hits: a kernel wrote outside its bytes");
  append_reset(&a);
  assert_int_equal(run(&a, workspace, &error), QUIRE_OK);
  append_check(&a, &good);

  assert_int_equal(quire_plan_prepare(b.plan, b.tensors, APPEND_SLOTS, workspace, NULL, &error),
                   QUIRE_OK);
  assert_int_equal(
      quire_plan_run_items(b.plan, 1, 0, 1, b.tensors, APPEND_SLOTS, workspace, &error),
      QUIRE_INTERNAL);
  assert_string_equal(error.subject, "hits");
  quire_workspace_release(workspace);
  append_free(&a);
  append_free(&b);
}

static void test_callers_memory(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  quire_workspace_options options;
  quire_workspace_options_init(&options);
  options.memory = room;
  options.bytes = sizeof room;
  check_overrun(&h, &options);
  harness_close(&h);
}

#ifdef WITH_ADDRESS_SANITIZER

int __asan_address_is_poisoned(const void *address);

/* The sanitizer would end the program: what it would stop at is looked at instead. */
static void test_own_memory(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  append_call call;
  append_make(&h, &call, &good);
  quire_workspace *workspace = make_workspace(&h);
  assert_int_equal(run(&call, workspace, NULL), QUIRE_OK);
  size_t inaccessible = 0, bytes = workspace->bytes;
  for (size_t i = 0; i < bytes; i++) {
    inaccessible += __asan_address_is_poisoned(workspace->memory + i) != 0;
  }
  for (size_t i = 0; i < 3; i++) { /* hits, work, grid: the byte behind each and the one before */
    const unsigned char *begin = workspace->memory + call.plan->offsets[i];
    size_t length = (size_t)call.plan->description.intermediates[i].bytes;
    assert_true(__asan_address_is_poisoned(begin - 1));
    assert_false(__asan_address_is_poisoned(begin));
    assert_false(__asan_address_is_poisoned(begin + length - 1));
    assert_true(__asan_address_is_poisoned(begin + length));
    inaccessible += length;
  }
  assert_int_equal(inaccessible, bytes);
  quire_workspace_release(workspace);
  append_free(&call);
  harness_close(&h);
}

#else

static void test_own_memory(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  check_overrun(&h, NULL);
  harness_close(&h);
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_callers_memory),
      cmocka_unit_test(test_own_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
