#include "cpu_device.h"

#include "cpu_buffer.h"
#include "cpu_features.h"
#include "cpu_host.h"
#include "cpu_run.h"
#include "error.h"

enum { LARGEST_POOL = 1024 };

static const char *const isa_names[] = {"best", "scalar", "avx2", "avx512", "neon"};

static quire_status open_threads(quire_cpu *cpu, const quire_allocator *allocator,
                                 const quire_device_options *options, quire_error *error) {
  if (options->executor != NULL) {
    cpu->executor = *options->executor;
    return QUIRE_OK;
  }
  size_t threads = options->threads;
  if (threads > LARGEST_POOL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options", "threads is %zu, at most %d",
                      threads, (int)LARGEST_POOL);
  }
  if (threads == 0) {
    threads = quire_host_processors();
    threads = threads < LARGEST_POOL ? threads : LARGEST_POOL;
  }
  QUIRE_TRY(quire_pool_create(allocator, threads, &cpu->pool, error));
  cpu->executor.parallel_for = quire_pool_parallel_for;
  cpu->executor.user = cpu->pool;
  cpu->executor.thread_limit = quire_pool_threads(cpu->pool);
  return QUIRE_OK;
}

static void describe(quire_device *device, quire_cpu *cpu) {
  size_t count = 0;
  for (unsigned bit = 0; bit < QUIRE_CPU_FEATURE_COUNT; bit++) {
    if ((cpu->features >> bit & 1u) != 0) {
      cpu->feature_names[count++] = quire_cpu_features[bit];
    }
  }
  device->description.features = cpu->feature_names;
  device->description.feature_count = count;
}

static quire_status cpu_open(quire_device *device, const quire_device_options *options,
                             quire_error *error) {
  const quire_allocator *allocator = device->owner->allocator;
  uint32_t available = quire_cpu_detect();
  if (!quire_cpu_has_level(available, options->isa)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "isa", "%s is not what this machine has (%s)",
                      isa_names[options->isa], quire_cpu_level_name(available));
  }
  quire_cpu *cpu = quire_alloc_array(allocator, 1, sizeof(*cpu));
  if (cpu == NULL) {
    return quire_fail_memory(error);
  }
  quire_status status = open_threads(cpu, allocator, options, error);
  if (status != QUIRE_OK) {
    quire_dealloc(allocator, cpu, sizeof(*cpu), QUIRE_ALLOC_ALIGNMENT);
    return status;
  }
  cpu->features = quire_cpu_cap(available, options->isa);
  quire_host_model(cpu->model, sizeof(cpu->model));
  describe(device, cpu);
  device->backend_data = cpu;
  return QUIRE_OK;
}

static void cpu_close(quire_device *device) {
  quire_cpu *cpu = device->backend_data;
  quire_pool_destroy(cpu->pool);
  quire_dealloc(device->owner->allocator, cpu, sizeof(*cpu), QUIRE_ALLOC_ALIGNMENT);
}

static void cpu_facts(const quire_device *device, quire_device_facts *facts) {
  const quire_cpu *cpu = device->backend_data;
  facts->model = cpu->model;
  facts->threads = cpu->executor.thread_limit;
  facts->l1_bytes = quire_host_cache_bytes(1);
  facts->l2_bytes = quire_host_cache_bytes(2);
  facts->l3_bytes = quire_host_cache_bytes(3);
  facts->isa = quire_cpu_level_name(cpu->features);
}

const quire_backend quire_backend_cpu = {
    .name = "cpu",
    .host_memory = true,
    .open = cpu_open,
    .close = cpu_close,
    .facts = cpu_facts,
    .plan_create = quire_cpu_plan_create,
    .plan_destroy = quire_cpu_plan_destroy,
    .prepare = quire_cpu_prepare,
    .run = quire_cpu_run,
    .passes = quire_cpu_passes,
    .items = quire_cpu_items,
    .run_items = quire_cpu_run_items,
    .buffer_create = quire_cpu_buffer_create,
    .buffer_destroy = quire_cpu_buffer_destroy,
    .buffer_write = quire_cpu_buffer_write,
    .buffer_read = quire_cpu_buffer_read,
    .buffer_copy = quire_cpu_buffer_copy,
};
