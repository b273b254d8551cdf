/*
 * Every allocation of every public call fails in turn: once alone, once with all that follow. After
 * each failure the status says so, nothing has changed and nothing is lost, and the same call with
 * nothing failing gives what it gives without the failure before it.
 *
 *   fault_test [webgpu]    --list: the functions that scenarios call, one a line
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_world.h"

enum { MOST_SCENARIOS = 512 };
#ifdef QUIRE_ARENA_SEPARATE
enum { MOST_EVERY = 0, SAMPLES = 1 };
#else
enum { MOST_EVERY = 150, SAMPLES = 40 };
#endif

static fault_world world;

static struct { size_t scenarios, sites, failures, survived; } total[2];

/* For messages: which call failed. */
static struct {
  size_t at;
  bool once;
} place;
#define PLACE place.at, place.once ? " alone" : ""

/* ---- failures ---- */

static bool is_right(fault_kind kind, quire_status status) {
  return kind == FAULT_MEMORY ? status == QUIRE_OUT_OF_MEMORY
                              : status != QUIRE_INTERNAL && status != QUIRE_BAD_REQUEST;
}

static void check_failure(const fault_scenario *scenario, fault_kind kind, quire_status status,
                          const quire_error *error, const fault_reference *want) {
  if (!is_right(kind, status) || error->status != status || error->message[0] == '\0') {
    fail_msg("call %zu%s: it is %s: %s", PLACE, quire_status_name(status), error->message);
  }
  if (scenario->partial) {
    world.seen = 0;
  }
  if (fault_look(&world) != want->before) {
    fail_msg("call %zu%s: something has changed; %s: %s", PLACE, quire_status_name(status),
             error->message);
  }
  quire_error again = {QUIRE_OK, "", "", ""};
  const quire_status second = scenario->call(&world, &again);
  if (second != want->status) {
    fail_msg("call %zu%s: the call after it: %s: %s", PLACE, quire_status_name(second),
             again.message);
  }
}

/* True if the call swallowed the failure. */
static bool fail_at(const fault_scenario *scenario, fault_kind kind, size_t at, bool once,
                    const fault_reference *want) {
  quire_error error = {QUIRE_OK, "", "", ""};
  const size_t live = fault_live();
  fault_make(&world, scenario);
  fault_arm(kind, at, once);
  const quire_status status = scenario->call(&world, &error);
  (void)fault_disarm();
  if (!fault_fired()) {
    fail_msg("call %zu%s is not made a second time", PLACE);
  }
  if (status != want->status) {
    check_failure(scenario, kind, status, &error, want);
  }
  if (fault_look(&world) != want->after) {
    fail_msg("call %zu%s: the result is another one", PLACE);
  }
  fault_drop(&world, scenario);
  if (status == want->status && getenv("QUIRE_FAULT_TRACE") != NULL) {
    fault_print_failure();
  }
  if (fault_live() != live) {
    fail_msg("call %zu%s: %zu allocations were outstanding, now %zu", PLACE, live, fault_live());
  }
  return status == want->status;
}

/* Few: every one. Many: each that came by a way of its own, and some of the others. */
static bool is_chosen(size_t at, size_t calls) {
  return calls <= MOST_EVERY || fault_is_new(at) || at % (calls / SAMPLES + 1) == 0;
}

static bool is_silent(const fault_scenario *scenario, fault_kind kind) {
  return kind == FAULT_MEMORY &&
         (scenario->silent || (scenario->silent_on_cpu && strcmp(world.device_name, "cpu") == 0));
}

static void sweep(const fault_scenario *scenario, fault_kind kind) {
  world.rereads = kind == FAULT_SYSTEM && scenario->rereads;
  const fault_reference want = fault_measure(&world, scenario, kind);
  const bool is_cpu = strcmp(world.device_name, "cpu") == 0;
  const bool expected = is_silent(scenario, kind) ? want.calls == 0 : want.calls > 0 || !is_cpu;
  if (!expected) {
    fail_msg("%zu calls were counted", want.calls);
  }
  const bool is_plain = scenario->plain || (scenario->plain_on_webgpu && !is_cpu);
  if (!is_plain && fault_plain_count() > 0) {
    fail_msg("%zu allocations go around the caller's allocator", fault_plain_count());
  }
  static bool chosen[1 << 17];
  assert_true(want.calls < sizeof chosen);
  for (size_t at = 1; at <= want.calls; at++) {
    chosen[at] = is_chosen(at, want.calls);
  }
  size_t sites = 0;
  size_t survived[2] = {0, 0};
  for (size_t at = 1; at <= want.calls; at++) {
    for (int once = 0; chosen[at] && once < 2; once++) {
      place.at = at;
      place.once = once != 0;
      survived[once] += fail_at(scenario, kind, at, once != 0, &want);
    }
    sites += chosen[at];
  }
  print_message("%-44s %-7s %6zu calls %6zu failed %4zu survived\n", scenario->name,
                kind == FAULT_MEMORY ? "memory" : "system", want.calls, sites, survived[1]);
  if (survived[0] > scenario->survived || survived[1] > scenario->survived) {
    fail_msg("the failures are swallowed");
  }
  total[kind].scenarios++;
  total[kind].sites += want.calls;
  total[kind].failures += 2 * sites;
  total[kind].survived += survived[0] + survived[1];
}

static void run_scenario(void **state) {
  const fault_scenario *scenario = *state;
  if (scenario->needs_webgpu && strcmp(world.device_name, "webgpu") != 0) {
    skip();
  }
  sweep(scenario, FAULT_MEMORY);
  if (scenario->system) {
    sweep(scenario, FAULT_SYSTEM);
  }
}

/* ---- all ---- */

static int open_world(void **state) {
  (void)state;
  quire_error error;
  quire_context_options options;
  quire_context_options_init(&options);
  options.allocator = &fault_allocator;
  fault_must(quire_context_create(&options, &world.context, &error), &error);
  quire_device_options device_options;
  quire_device_options_init(&device_options);
  device_options.threads = 2;
  device_options.plan_cache_size = 1;
  fault_must(
      quire_device_open(world.context, world.device_name, &device_options, &world.device, &error),
      &error);
  fault_forget_plan(&world);
  return 0;
}

static int close_world(void **state) {
  (void)state;
  quire_device_release(world.device);
  quire_context_release(world.context);
  for (int kind = 0; kind < 2; kind++) {
    print_message("%s: %zu scenarios, %zu calls, %zu failures, %zu of them survived\n",
                  kind == FAULT_MEMORY ? "memory" : "system", total[kind].scenarios,
                  total[kind].sites, total[kind].failures, total[kind].survived);
  }
  print_message("%zu call stacks\n", fault_stack_count());
  assert_int_equal(fault_live(), 0);
  fault_write_stacks();
  return 0;
}

static void list_functions(void) {
  for (size_t t = 0; t < fault_list_count(); t++) {
    for (size_t i = 0; i < fault_list(t)->count; i++) {
      (void)printf("%s ", fault_list(t)->items[i].functions);
    }
  }
  (void)printf("\n");
}

static bool has_device(void) {
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_error error;
  fault_must(quire_context_create(NULL, &context, &error), &error);
  const quire_status status = quire_device_open(context, world.device_name, NULL, &device, &error);
  if (status != QUIRE_OK && status != QUIRE_NOT_FOUND) {
    fail_msg("%s", error.message);
  }
  quire_device_release(device);
  quire_context_release(context);
  return status == QUIRE_OK;
}

int main(int argc, char **argv) {
  static struct CMUnitTest tests[MOST_SCENARIOS];
  size_t count = 0;
  if (argc > 1 && strcmp(argv[1], "--list") == 0) {
    list_functions();
    return 0;
  }
  world.device_name = argc > 1 ? argv[1] : "cpu";
  fault_hook_jansson();
  if (!has_device()) {
    (void)printf("skipped: there is no device of this kind\n");
    return 77;
  }
  const char *only = getenv("QUIRE_FAULT_SCENARIO");
  const bool is_cpu = strcmp(world.device_name, "cpu") == 0;
  for (size_t t = is_cpu ? 0 : FAULT_DEVICELESS; t < fault_list_count(); t++) {
    const fault_scenarios *table = fault_list(t);
    for (size_t i = 0; i < table->count; i++) {
      const fault_scenario *scenario = &table->items[i];
      if (only == NULL || strstr(scenario->name, only) != NULL) {
        assert_true(count < MOST_SCENARIOS);
        tests[count++] = (struct CMUnitTest){scenario->name, run_scenario, NULL, NULL,
                                             (void *)(uintptr_t)scenario};
      }
    }
  }
  return _cmocka_run_group_tests("faults", tests, count, open_world, close_world);
}
