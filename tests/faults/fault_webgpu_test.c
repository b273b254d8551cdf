/*
 * Every call of the WebGPU library fails in turn, in every way that webgpu.h allows: no handle, an
 * error in a scope, a callback that refuses, comes late or never, a lost device. After each the
 * status says so, nothing is changed that was not submitted, no handle is left, and the same call
 * with nothing failing works, or says that the device is lost.
 *
 *   fault_webgpu_test LIBRARY    one of webgpu_ordered.h's; QUIRE_FAULT_EVERY=1: not only calls
 * that come by a way of their own
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault_world.h"
#include "webgpu_ordered.h"

enum { MOST_SCENARIOS = 512, MOST_CALLS = 1 << 17 };

extern const fault_scenarios fault_webgpu_scenarios;

static fault_world world;

static struct {
  void (*start)(ordered_function *function);
  void (*flush)(void);
  size_t (*live)(void);
  size_t (*submits)(void);
  const char *(*way_name)(unsigned way);
} library;

/* The failure that is ordered, and what became of it. */
static struct {
  size_t at;
  unsigned way;
  bool once;
  char name[64];
  bool is_lost; /* the call said so */
} order;
#define PLACE \
  order.at, order.name, library.way_name(order.way), order.once ? "" : " (and all after it)"
#define PLACE_FORMAT "call %zu, %s, fails by %s%s: "

static unsigned short ways_of[MOST_CALLS];
static bool is_counting;
static struct { size_t scenarios, calls, failures, survived; } total;

/* Rests are skipped: what never comes is given up at once. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names. */
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left) {
  (void)pause, (void)left;
  return 0;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- the order ---- */

/* The library asks at each call. */
static unsigned decide(const char *name, unsigned ways) {
  if (is_counting) {
    const size_t before = fault_count();
    (void)fault_point(FAULT_WEBGPU);
    const size_t at = fault_count();
    assert_true(at < MOST_CALLS);
    if (at > before) {
      ways_of[at] = (unsigned short)ways;
    }
    return 0;
  }
  if (!fault_point(FAULT_WEBGPU) || (order.way & ways) == 0) {
    return 0;
  }
  if (order.name[0] == '\0') {
    (void)snprintf(order.name, sizeof order.name, "%s", name);
  }
  return order.way;
}

/* ---- one call ---- */

static void open_shared(void) {
  quire_error error;
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = 2;
  options.plan_cache_size = 1;
  fault_must(quire_device_open(world.context, "webgpu", &options, &world.device, &error), &error);
}

static void close_shared(void) {
  quire_device_release(world.device);
  world.device = NULL;
  library.flush();
}

static fault_reference measure(const fault_scenario *scenario) {
  const size_t live = library.live();
  open_shared();
  order.at = 0;
  is_counting = true;
  const fault_reference want = fault_measure(&world, scenario, FAULT_WEBGPU);
  is_counting = false;
  close_shared();
  assert_int_equal(library.live(), live);
  return want;
}

/* ---- failures ---- */

/* What the library does without, or asks for again in another manner. */
static bool may_survive(const fault_scenario *scenario) {
  static const char *const names[] = {"AdapterGetInfo", "InstanceRequestAdapter",
                                      "InstanceEnumerateAdapters"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(order.name, names[i]) == 0) {
      return true;
    }
  }
  const bool is_untold = scenario->foreign && order.way == ORDERED_INTERNAL;
  return is_untold || order.way == ORDERED_LATE ||
         (order.way & (ORDERED_LOST | ORDERED_SILENT)) != 0;
}

static void check_failure(const fault_scenario *scenario, quire_status status,
                          const quire_error *error, const fault_reference *want, bool submitted) {
  const bool is_memory =
      status == QUIRE_OUT_OF_MEMORY && (order.way & (ORDERED_MEMORY | ORDERED_NULL)) != 0;
  const bool is_right = is_memory || status == QUIRE_NOT_FOUND ||
                        (status == QUIRE_DEVICE && order.way != ORDERED_MEMORY);
  if (!is_right || error->status != status || error->message[0] == '\0') {
    fail_msg(PLACE_FORMAT "it is %s: %s", PLACE, quire_status_name(status), error->message);
  }
  if (order.way == ORDERED_LATE) {
    fail_msg(PLACE_FORMAT "a late answer is none: %s", PLACE, error->message);
  }
  const bool is_lost = order.is_lost;
  if (scenario->partial) {
    world.seen = 0;
  }
  const bool is_changed = !is_lost && fault_look(&world) != want->before;
  if (is_changed && !submitted) {
    fail_msg(PLACE_FORMAT "something has changed; %s: %s", PLACE, quire_status_name(status),
             error->message);
  }
  quire_error again = {QUIRE_OK, "", "", ""};
  const quire_status second = scenario->call(&world, &again);
  const bool says_lost = is_lost && second == QUIRE_DEVICE &&
                         (scenario->foreign || strstr(again.message, "is lost") != NULL);
  if (second != want->status && !says_lost) {
    fail_msg(PLACE_FORMAT "the call after it: %s: %s", PLACE, quire_status_name(second),
             again.message);
  }
  if (!is_lost && !is_changed && fault_look(&world) != want->after) {
    fail_msg(PLACE_FORMAT "the call after it has another result", PLACE);
  }
}

/* True if the call did without. */
static bool fail_at(const fault_scenario *scenario, const fault_reference *want) {
  quire_error error = {QUIRE_OK, "", "", ""};
  const size_t live = fault_live();
  const size_t handles = library.live();
  open_shared();
  fault_make(&world, scenario);
  (void)fault_look(&world); /* as when the calls were counted */
  order.name[0] = '\0';
  const size_t submits = library.submits();
  fault_arm(FAULT_WEBGPU, order.at, order.once);
  const quire_status status = scenario->call(&world, &error);
  (void)fault_disarm();
  if (!fault_fired()) {
    fail_msg(PLACE_FORMAT "it is not made a second time", PLACE);
  }
  order.is_lost = (order.way & (ORDERED_LOST | ORDERED_SILENT)) != 0 ||
                  (status == QUIRE_DEVICE && strstr(error.message, "is lost") != NULL);
  if (status != want->status) {
    check_failure(scenario, status, &error, want, library.submits() > submits);
  } else if (!may_survive(scenario)) {
    fail_msg(PLACE_FORMAT "it is swallowed", PLACE);
  } else if (!order.is_lost && !scenario->partial && fault_look(&world) != want->after) {
    fail_msg(PLACE_FORMAT "the result is another one", PLACE);
  }
  fault_drop(&world, scenario);
  close_shared();
  if (fault_live() != live) {
    fail_msg(PLACE_FORMAT "%zu allocations were outstanding, now %zu", PLACE, live, fault_live());
  }
  if (library.live() != handles) {
    fail_msg(PLACE_FORMAT "%zu handles, texts or callbacks are left", PLACE,
             library.live() - handles);
  }
  return status == want->status;
}

static void run_scenario(void **state) {
  const fault_scenario *scenario = *state;
  static bool chosen[MOST_CALLS];
  const fault_reference want = measure(scenario);
  const bool is_every = getenv("QUIRE_FAULT_EVERY") != NULL;
  size_t failures = 0;
  size_t survived = 0;
  for (size_t at = 1; at <= want.calls; at++) {
    chosen[at] = is_every || fault_is_new(at);
  }
  for (size_t at = 1; at <= want.calls; at++) {
    for (unsigned way = 1; chosen[at] && way < 1u << ORDERED_WAYS; way *= 2) {
      if ((ways_of[at] & way) == 0) {
        continue;
      }
      /* What makes every call after it fail too: what a full memory does. */
      const bool may_last = (way & (ORDERED_NULL | ORDERED_MEMORY | ORDERED_REFUSED)) != 0;
      for (int once = 1; once >= (may_last ? 0 : 1); once--) {
        order.at = at;
        order.way = way;
        order.once = once != 0;
        survived += fail_at(scenario, &want);
        failures++;
      }
    }
  }
  print_message("%-44s %6zu calls %6zu failures %4zu done without\n", scenario->name, want.calls,
                failures, survived);
  total.scenarios++;
  total.calls += want.calls;
  total.failures += failures;
  total.survived += survived;
}

/* ---- all ---- */

static int open_world(void **state) {
  (void)state;
  quire_error error;
  quire_context_options options;
  quire_context_options_init(&options);
  options.allocator = &fault_allocator;
  fault_must(quire_context_create(&options, &world.context, &error), &error);
  return 0;
}

static int close_world(void **state) {
  (void)state;
  quire_context_release(world.context);
  print_message("%zu scenarios, %zu calls, %zu failures, %zu of them done without\n",
                total.scenarios, total.calls, total.failures, total.survived);
  print_message("%zu call stacks\n", fault_stack_count());
  assert_int_equal(fault_live(), 0);
  fault_write_stacks();
  return 0;
}

static void find(void *handle, const char *name, void *place) {
  void *found = dlsym(handle, name);
  assert_non_null(found);
  memcpy(place, &found, sizeof found);
}

static size_t list_scenarios(struct CMUnitTest *tests) {
  const char *only = getenv("QUIRE_FAULT_SCENARIO");
  size_t count = 0;
  for (size_t t = FAULT_DEVICELESS - 1; t < fault_list_count(); t++) {
    const fault_scenarios *table = t < FAULT_DEVICELESS ? &fault_webgpu_scenarios : fault_list(t);
    for (size_t i = 0; i < table->count; i++) {
      const fault_scenario *scenario = &table->items[i];
      if (only == NULL || strstr(scenario->name, only) != NULL) {
        assert_true(count < MOST_SCENARIOS);
        tests[count++] = (struct CMUnitTest){scenario->name, run_scenario, NULL, NULL,
                                             (void *)(uintptr_t)scenario};
      }
    }
  }
  return count;
}

int main(int argc, char **argv) {
  static struct CMUnitTest tests[MOST_SCENARIOS];
  void *handle = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (handle == NULL || setenv("QUIRE_WEBGPU_LIBRARY", argv[1], 1) != 0) {
    (void)fprintf(stderr, "usage: fault_webgpu_test LIBRARY\n");
    return 2;
  }
  find(handle, "ordered_start", &library.start);
  find(handle, "ordered_flush", &library.flush);
  find(handle, "ordered_live", &library.live);
  find(handle, "ordered_submits", &library.submits);
  find(handle, "ordered_way_name", &library.way_name);
  library.start(decide);
  world.device_name = "webgpu";
  fault_hook_jansson();
  return _cmocka_run_group_tests("WebGPU faults", tests, list_scenarios(tests), open_world,
                                 close_world);
}
