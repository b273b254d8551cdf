/* The scenarios, one after the other, and what is done with each. */
#include "fault_world.h"

static fault_scenarios lint_scenarios;
static const fault_scenarios *const tables[] = {
    &lint_scenarios,          &fault_explain_scenarios, &fault_operator_scenarios,
    &fault_plan_scenarios,    &fault_device_scenarios,  &fault_manifest_scenarios,
#ifdef QUIRE_WITH_SERVING
    &fault_serving_scenarios,
#endif
};

size_t fault_list_count(void) {
  return sizeof tables / sizeof *tables;
}

const fault_scenarios *fault_list(size_t number) {
  if (lint_scenarios.items == NULL) {
    lint_scenarios = fault_lint_scenarios();
  }
  return tables[number];
}

void fault_make(fault_world *world, const fault_scenario *scenario) {
  world->scenario = scenario;
  world->seen = 0;
  world->look = NULL;
  if (scenario->make != NULL) {
    scenario->make(world);
  }
}

void fault_drop(fault_world *world, const fault_scenario *scenario) {
  if (scenario->drop != NULL) {
    scenario->drop(world);
  }
  quire_plan_release(world->plan);
  quire_workspace_release(world->workspace);
  quire_operator_release(world->op);
  while (world->buffer_count > 0) {
    quire_buffer_destroy(world->own_device != NULL ? world->own_device : world->device,
                         world->buffers[--world->buffer_count].buffer);
  }
  quire_device_release(world->own_device);
  quire_context_release(world->own_context);
  world->plan = NULL;
  world->workspace = NULL;
  world->op = NULL;
  world->own_device = NULL;
  world->own_context = NULL;
  world->tensor_count = 0;
}

uint64_t fault_look(fault_world *world) {
  static unsigned char bytes[1 << 20];
  quire_error error;
  uint64_t hash = world->look != NULL ? world->look(world) : 0;
  for (size_t i = 0; i < world->buffer_count; i++) {
    assert_true(world->buffers[i].bytes <= sizeof bytes);
    fault_must(
        quire_buffer_read(world->own_device != NULL ? world->own_device : world->device,
                          world->buffers[i].buffer, 0, bytes, world->buffers[i].bytes, &error),
        &error);
    hash = fault_hash(hash, bytes, (size_t)world->buffers[i].bytes);
  }
  return fault_hash(hash, &world->seen, sizeof world->seen);
}

fault_reference fault_measure(fault_world *world, const fault_scenario *scenario, fault_kind kind) {
  fault_reference want = {.status = scenario->expected};
  quire_error error = {QUIRE_OK, "", "", ""};
  fault_make(world, scenario);
  want.before = fault_look(world);
  fault_arm(kind, 0, true);
  const quire_status status = scenario->call(world, &error);
  want.calls = fault_disarm();
  if (scenario->expected == FAULT_ANY_STATUS) {
    want.status = status;
  } else if (status != scenario->expected) {
    fail_msg("%s: %s: %s", scenario->name, quire_status_name(status), error.message);
  }
  want.after = fault_look(world);
  fault_drop(world, scenario);
  return want;
}
