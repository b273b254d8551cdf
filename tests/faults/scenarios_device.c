/* Devices, their memory, and what only WebGPU has. */
#include <string.h>

#include "fault_forms.h"
#include "quire/webgpu.h"

/* ---- devices ---- */

static quire_status open_device(fault_world *world, quire_error *error) {
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = 3;
  const quire_status status =
      quire_device_open(world->context, world->device_name, &options, &world->own_device, error);
  assert_true((status == QUIRE_OK) == (world->own_device != NULL));
  return status;
}

static quire_status open_tuned(fault_world *world, quire_error *error) {
  static const char text[] =
      "{\"format\": \"quire-tuning\", \"version\": 1, \"entries\": [{\"operator\": \"a.B\","
      " \"manifest\": \"1-0\", \"variant\": \"v\", \"adapter\": \"x\", \"class\": \"c\","
      " \"tunables\": {\"wg\": 64}}]}";
  quire_device_options options;
  quire_device_options_init(&options);
  options.tuning = text;
  options.tuning_length = sizeof text - 1;
  return quire_device_open(world->context, world->device_name, &options, &world->own_device, error);
}

/* With the C library's allocator, which the caller does not see. */
static void make_plain(fault_world *world) {
  quire_error error;
  fault_must(quire_context_create(NULL, &world->own_context, &error), &error);
}

static quire_status open_plain(fault_world *world, quire_error *error) {
  return quire_device_open(world->own_context, "cpu", NULL, &world->own_device, error);
}

static quire_status look_at_device(fault_world *world, quire_error *error) {
  (void)error;
  quire_device_facts facts;
  quire_device_get_facts(world->device, &facts);
  fault_show(world, facts.model, strlen(facts.model));
  const quire_device_description *description = quire_device_describe(world->device);
  fault_show(world, &description->limit_count, sizeof description->limit_count);
  fault_show(world, quire_device_name(0), 3);
  const bool is_webgpu = strcmp(world->device_name, "webgpu") == 0;
  assert_true((quire_webgpu_instance(world->device) != NULL) == is_webgpu);
  assert_true((quire_webgpu_device(world->device) != NULL) == is_webgpu);
  assert_true((quire_webgpu_queue(world->device) != NULL) == is_webgpu);
  return QUIRE_OK;
}

/* ---- memory ---- */

static const int64_t buffer_shape[] = {64};

static quire_status create_buffer(fault_world *world, quire_error *error) {
  void *made = NULL;
  const quire_status status = quire_buffer_create(world->device, 100, &made, error);
  assert_true((status == QUIRE_OK) == (made != NULL));
  quire_buffer_destroy(world->device, made);
  return status;
}

static void make_buffers(fault_world *world) {
  (void)fault_floats(world, 1, buffer_shape);
  (void)fault_floats(world, 1, buffer_shape);
}

static quire_status transfer(fault_world *world, quire_error *error) {
  static const unsigned char data[7] = {1, 2, 3, 4, 5, 6, 7};
  unsigned char back[7] = {0};
  const quire_status status =
      quire_buffer_write(world->device, world->buffers[0].buffer, 3, data, sizeof data, error);
  return status != QUIRE_OK ? status
                            : quire_buffer_read(world->device, world->buffers[0].buffer, 5, back,
                                                sizeof back, error);
}

/* Bytes that are no words, words within one buffer, and between two. */
static quire_status copy(fault_world *world, quire_error *error) {
  void *one = world->buffers[0].buffer;
  void *two = world->buffers[1].buffer;
  const quire_buffer_copy_range ranges[] = {
      {one, 3, two, 9, 5}, {one, 0, one, 64, 32}, {one, 16, two, 32, 8}};
  return quire_buffer_copy(world->device, ranges, sizeof ranges / sizeof *ranges, error);
}

/* ---- WebGPU ---- */

static quire_status open_webgpu(fault_world *world, quire_error *error) {
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.kept_bindings = 3;
  const quire_status status =
      quire_webgpu_device_open(world->context, NULL, &options, &world->own_device, error);
  assert_true((status == QUIRE_OK) == (world->own_device != NULL));
  return status;
}

static void see(void *user, const quire_webgpu_adapter *adapter) {
  fault_show(user, adapter->name, strlen(adapter->name));
}

static quire_status list_adapters(fault_world *world, quire_error *error) {
  return quire_webgpu_list_adapters(NULL, see, world, error);
}

/* What was tried is a text; without memory for it the status is the same. */
static quire_status list_nothing(fault_world *world, quire_error *error) {
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.library = "/no/such/library.so";
  return quire_webgpu_list_adapters(&options, see, world, error);
}

static void make_measured(fault_world *world) {
  fault_make_plan(world, &fault_paged_form);
}

static quire_status measure(fault_world *world, quire_error *error) {
  quire_webgpu_times times;
  const quire_webgpu_call one = {world->plan, world->tensors, world->tensor_count,
                                 world->workspace};
  return quire_webgpu_measure(world->device, &one, 1, 1, &times, error);
}

static quire_status measure_read(fault_world *world, quire_error *error) {
  double nanoseconds = 0;
  return quire_webgpu_measure_read(world->device, world->buffers[0].buffer, 256, 1, &nanoseconds,
                                   error);
}

/* A device that keeps bindings. */
static void make_keeping(fault_world *world) {
  quire_error error;
  fault_must(open_webgpu(world, &error), &error);
  quire_device *shared = world->device;
  world->device = world->own_device;
  fault_make_plan(world, &fault_paged_form);
  world->device = shared;
}

static quire_status run_keeping(fault_world *world, quire_error *error) {
  return quire_plan_run(world->plan, world->tensors, world->tensor_count, world->workspace, NULL,
                        error);
}

/* The list of the libraries that were no use, which is shown if none is. */
enum { LIBRARIES_TRIED = 4 };

static const fault_scenario items[] = {
    {.name = "device",
     .functions = "quire_device_open quire_device_options_init quire_device_options_init_sized "
                  "quire_device_release",
     .call = open_device,
     .plain_on_webgpu = true,
     .survived = LIBRARIES_TRIED,
     .system = true},
    {.name = "device with tuned values",
     .functions = "quire_device_open",
     .call = open_tuned,
     .plain_on_webgpu = true,
     .survived = LIBRARIES_TRIED},
    {.name = "device with the C library's memory",
     .functions = "quire_device_open",
     .make = make_plain,
     .call = open_plain,
     .plain = true},
    {.name = "what a device tells",
     .functions = "quire_device_get_facts quire_device_describe quire_device_name "
                  "quire_webgpu_instance quire_webgpu_device quire_webgpu_queue",
     .call = look_at_device,
     .silent = true},
    {.name = "buffer",
     .functions = "quire_buffer_create quire_buffer_destroy",
     .call = create_buffer},
    {.name = "write and read a buffer",
     .functions = "quire_buffer_write quire_buffer_read",
     .make = make_buffers,
     .call = transfer,
     .silent = true},
    {.name = "copy buffers",
     .functions = "quire_buffer_copy",
     .make = make_buffers,
     .call = copy,
     .silent_on_cpu = true},
    {.name = "WebGPU device",
     .functions = "quire_webgpu_device_open quire_webgpu_options_init",
     .call = open_webgpu,
     .plain_on_webgpu = true,
     .survived = LIBRARIES_TRIED,
     .needs_webgpu = true},
    {.name = "adapters",
     .functions = "quire_webgpu_list_adapters",
     .call = list_adapters,
     .needs_webgpu = true,
     .partial = true,
     .plain = true,
     .survived = LIBRARIES_TRIED},
    {.name = "adapters without a library",
     .functions = "quire_webgpu_list_adapters",
     .call = list_nothing,
     .expected = QUIRE_NOT_FOUND,
     .needs_webgpu = true,
     .plain = true,
     .survived = LIBRARIES_TRIED},
    {.name = "measure",
     .functions = "quire_webgpu_measure",
     .make = make_measured,
     .call = measure,
     .needs_webgpu = true},
    {.name = "measure reading",
     .functions = "quire_webgpu_measure_read",
     .make = make_buffers,
     .call = measure_read,
     .needs_webgpu = true},
    {.name = "run on a device that keeps bindings",
     .functions = "quire_plan_run",
     .make = make_keeping,
     .call = run_keeping,
     .needs_webgpu = true,
     .survived = 4}, /* bindings that cannot be kept */
};

const fault_scenarios fault_device_scenarios = {items, sizeof items / sizeof *items};
