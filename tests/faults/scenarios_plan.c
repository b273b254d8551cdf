/* Plans, workspaces, steps and runs. */
#include <string.h>

#include "fault_forms.h"

static quire_status create_plan(fault_world *world, quire_error *error) {
  const quire_request request = fault_request(world->scenario->argument);
  const quire_status status =
      quire_plan_create(world->device, fault_operator(world, world->scenario->argument), &request,
                        &world->plan, error);
  assert_true((status == QUIRE_OK) == (world->plan != NULL));
  return status;
}

static quire_status create_workspace(fault_world *world, quire_error *error) {
  quire_workspace_options options;
  quire_workspace_options_init(&options);
  const quire_status status =
      quire_workspace_create(world->device, &options, &world->workspace, error);
  assert_true((status == QUIRE_OK) == (world->workspace != NULL));
  return status;
}

static uint64_t look_at_counters(const fault_world *world) {
  quire_workspace_counters counters;
  quire_workspace_get_counters(world->workspace, &counters);
  return counters.bytes; /* memory may have grown where a later step failed; see check below */
}

static void make(fault_world *world) {
  fault_make_plan(world, world->scenario->argument);
}

static quire_status prepare(fault_world *world, quire_error *error) {
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_STRICT | QUIRE_RUN_CHECK_VALUES;
  return quire_plan_prepare(world->plan, world->tensors, world->tensor_count, world->workspace,
                            &options, error);
}

static quire_status run(fault_world *world, quire_error *error) {
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_CHECK_VALUES;
  return quire_plan_run(world->plan, world->tensors, world->tensor_count, world->workspace,
                        &options, error);
}

static void make_prepared(fault_world *world) {
  quire_error error;
  make(world);
  fault_must(prepare(world, &error), &error);
}

/* "Nothing is allocated while a prepared plan runs." */
static quire_status run_prepared(fault_world *world, quire_error *error) {
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_PREPARED;
  return quire_plan_run(world->plan, world->tensors, world->tensor_count, world->workspace,
                        &options, error);
}

static quire_status run_items(fault_world *world, quire_error *error) {
  if (strcmp(world->device_name, "cpu") != 0) { /* items are the CPU's */
    return QUIRE_OK;
  }
  for (size_t pass = 0; pass < quire_plan_passes(world->plan); pass++) {
    const size_t count = quire_plan_items(world->plan, world->workspace, pass);
    const quire_status status = quire_plan_run_items(world->plan, pass, 0, count, world->tensors,
                                                     world->tensor_count, world->workspace, error);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  return QUIRE_OK;
}

static quire_status look_at_plan(fault_world *world, quire_error *error) {
  (void)error;
  quire_workspace_need need;
  quire_plan_workspace(world->plan, &need);
  fault_show(world, quire_plan_variant(world->plan), 3);
  const uint64_t counted = look_at_counters(world);
  fault_show(world, &counted, sizeof counted);
  for (size_t i = 0; i < world->tensor_count; i++) {
    quire_tensor form;
    assert_int_equal(quire_plan_slot(world->plan, i, &form), QUIRE_OK);
    const uint64_t bytes = quire_plan_slot_bytes(world->plan, i);
    fault_show(world, &bytes, sizeof bytes);
  }
  return QUIRE_OK;
}

static quire_status write_tuning_key(fault_world *world, quire_error *error) {
  return quire_plan_tuning_key(world->plan, fault_write, world, error);
}

static const fault_scenario items[] = {
    {.name = "plan paged_attention",
     .functions = "quire_plan_create quire_request_init quire_plan_release",
     .call = create_plan,
     .argument = &fault_paged_form},
    {.name = "plan strided paged_attention",
     .functions = "quire_plan_create",
     .call = create_plan,
     .argument = &fault_strided_form,
     .expected = FAULT_ANY_STATUS}, /* WebGPU has no variant for it */
    {.name = "plan what is refused",
     .functions = "quire_plan_create",
     .call = create_plan,
     .argument = &fault_refused_form,
     .expected = QUIRE_BAD_ATTRIBUTE},
    {.name = "plan linear_attention",
     .functions = "quire_plan_create",
     .call = create_plan,
     .argument = &fault_linear_form},
    {.name = "plan paged_decode",
     .functions = "quire_plan_create",
     .call = create_plan,
     .argument = &fault_decode_form},
    {.name = "workspace",
     .functions = "quire_workspace_create quire_workspace_options_init quire_workspace_release",
     .call = create_workspace},
    {.name = "prepare",
     .functions = "quire_plan_prepare quire_run_options_init",
     .make = make,
     .call = prepare,
     .argument = &fault_paged_form},
    {.name = "run",
     .functions = "quire_plan_run",
     .make = make,
     .call = run,
     .argument = &fault_paged_form},
    {.name = "run linear_attention",
     .functions = "quire_plan_run",
     .make = make,
     .call = run,
     .argument = &fault_linear_form},
    {.name = "run paged_decode",
     .functions = "quire_plan_run",
     .make = make,
     .call = run,
     .argument = &fault_decode_form},
    {.name = "run what is prepared",
     .functions = "quire_plan_run",
     .make = make_prepared,
     .call = run_prepared,
     .argument = &fault_paged_form,
     .silent = true},
    {.name = "run item by item",
     .functions = "quire_plan_passes quire_plan_items quire_plan_run_items",
     .make = make_prepared,
     .call = run_items,
     .argument = &fault_linear_form,
     .silent = true},
    {.name = "tuning key",
     .functions = "quire_plan_tuning_key",
     .make = make,
     .call = write_tuning_key,
     .argument = &fault_paged_form,
     .expected = FAULT_ANY_STATUS, /* shaders only */
     .silent_on_cpu = true},
    {.name = "what a plan tells",
     .functions = "quire_plan_variant quire_plan_slot quire_plan_slot_bytes quire_plan_workspace "
                  "quire_workspace_get_counters",
     .make = make,
     .call = look_at_plan,
     .argument = &fault_paged_form,
     .silent = true},
};

const fault_scenarios fault_plan_scenarios = {items, sizeof items / sizeof *items};
