#include "bench_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_program.h"
#include "failure.h"
#include "files.h"
#include "quire/buffer.h"
#include "quire/webgpu.h"

#define BUSY_NANOSECONDS 250e6       /* before anything counts: clocks rise with work */
#define READ_NANOSECONDS 1000000000u /* for the memory's limit */
#define SAMPLE_NANOSECONDS 10e6      /* of one pass */
#define ROTATED_BYTES 512e6          /* of all sets together, above the caches of any GPU */

enum {
  LEAST_SETS = 2,
  MOST_SETS = 16,
  MOST_REPEAT = 1000,
  LEAST_SAMPLES = 5,
  MOST_SAMPLES = 500,
  READ_BYTES = 1 << 30
};

/* ---- buffers ---- */

/* The calls of all sets, with tensors in the device's memory. */
typedef struct gpu_calls {
  quire_device *device;
  quire_webgpu_call *calls;
  quire_tensor *tensors;
  void **buffers;
  size_t buffer_count;
  size_t count, slot_count;
} gpu_calls;

/* The place among the tensors before `index` that has the same host memory, or `index`. */
static size_t find_same(const bench_layers *layers, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    if (layers->tensors[i].data == layers->tensors[index].data) {
      return i;
    }
  }
  return index;
}

static quire_status upload(gpu_calls *gpu, const bench_layers *layers, size_t index,
                           quire_error *error) {
  const quire_tensor *host = &layers->tensors[index];
  const uint64_t bytes = quire_plan_slot_bytes(layers->plan, index % gpu->slot_count);
  gpu->tensors[index] = *host;
  if (!host->data || bytes == 0) {
    gpu->tensors[index].data = NULL;
    return QUIRE_OK;
  }
  const size_t same = find_same(layers, index);
  if (same < index) {
    gpu->tensors[index].data = gpu->tensors[same].data;
    return QUIRE_OK;
  }
  uint64_t held = quire_dtype_size(host->dtype);
  for (int32_t d = 0; d < host->ndim; ++d) {
    held *= (uint64_t)host->shape[d];
  }
  if (bytes - held > 3) {
    return quire_failure_set(error, QUIRE_UNSUPPORTED, "the device stores a tensor wider");
  }
  void **buffer = &gpu->buffers[gpu->buffer_count];
  quire_status status = quire_buffer_create(gpu->device, bytes, buffer, error);
  if (status == QUIRE_OK) {
    gpu->buffer_count += 1;
    gpu->tensors[index].data = *buffer;
    status = quire_buffer_write(gpu->device, *buffer, 0, host->data, held, error);
  }
  return status;
}

static void release_calls(gpu_calls *gpu) {
  for (size_t i = 0; i < gpu->buffer_count; ++i) {
    quire_buffer_destroy(gpu->device, gpu->buffers[i]);
  }
  free(gpu->buffers);
  free(gpu->tensors);
  free(gpu->calls);
}

static quire_status make_calls(const quire_session *session, const bench_layers *layers,
                               gpu_calls *gpu, quire_error *error) {
  const size_t total = layers->set_count * layers->slot_count;
  *gpu = (gpu_calls){
      .device = session->device, .count = layers->set_count, .slot_count = layers->slot_count};
  gpu->calls = calloc(layers->set_count, sizeof *gpu->calls);
  gpu->tensors = calloc(total, sizeof *gpu->tensors);
  gpu->buffers = calloc(total, sizeof *gpu->buffers);
  if (!gpu->calls || !gpu->tensors || !gpu->buffers) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for calls");
  }
  for (size_t i = 0; i < total; ++i) {
    const quire_status status = upload(gpu, layers, i, error);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  for (size_t set = 0; set < layers->set_count; ++set) {
    gpu->calls[set] = (quire_webgpu_call){layers->plan, gpu->tensors + set * layers->slot_count,
                                          layers->slot_count, layers->workspace};
  }
  return QUIRE_OK;
}

/* ---- samples ---- */

static quire_status run(const gpu_calls *gpu, size_t repeat, quire_webgpu_times *times,
                        quire_error *error) {
  return quire_webgpu_measure(gpu->device, gpu->calls, gpu->count, repeat, times, error);
}

/* Keeps the device busy, and finds how many rounds fill a sample. */
static quire_status warm_up(const gpu_calls *gpu, size_t *repeat, quire_error *error) {
  double busy = 0;
  *repeat = 1;
  for (int round = 0; busy < BUSY_NANOSECONDS && round < 100000; ++round) {
    quire_webgpu_times times;
    const quire_status status = run(gpu, *repeat, &times, error);
    if (status != QUIRE_OK) {
      return status;
    }
    busy += times.gpu_nanoseconds;
    const double one = times.gpu_nanoseconds / (double)*repeat;
    const double wanted = one > 0 ? SAMPLE_NANOSECONDS / one : MOST_REPEAT;
    *repeat = wanted < 1 ? 1 : (wanted > MOST_REPEAT ? MOST_REPEAT : (size_t)wanted);
  }
  return QUIRE_OK;
}

static quire_status sample(const gpu_calls *gpu, double seconds, const char *label,
                           bench_gpu_figure *figure, quire_error *error) {
  double device[MOST_SAMPLES];
  double host[MOST_SAMPLES];
  size_t count = 0;
  quire_status status = warm_up(gpu, &figure->repeat, error);
  const uint64_t begin = quire_clock_nanoseconds();
  while (status == QUIRE_OK && count < MOST_SAMPLES) {
    const double passed = (double)(quire_clock_nanoseconds() - begin) * 1e-9;
    if (count >= LEAST_SAMPLES && passed >= seconds) {
      break;
    }
    quire_bench_progress(label, passed / seconds < 1 ? passed / seconds : 1);
    quire_webgpu_times times;
    status = run(gpu, figure->repeat, &times, error);
    const double calls = (double)(figure->repeat * gpu->count) * 1000;
    device[count] = times.gpu_nanoseconds / calls;
    host[count++] = times.record_nanoseconds / calls;
  }
  quire_bench_progress(NULL, 0);
  if (status == QUIRE_OK) {
    bench_times recording;
    quire_bench_summarise(host, count, &recording);
    figure->record = recording.median;
    figure->times = (bench_times){0};
    quire_bench_summarise(device, count, &figure->times);
  }
  return status;
}

/* ---- the memory's limit ---- */

static int64_t limit_of(const quire_device *device, const char *name) {
  const quire_device_description *description = quire_device_describe(device);
  for (size_t i = 0; i < description->limit_count; ++i) {
    if (!strcmp(description->limits[i].name, name)) {
      return description->limits[i].i;
    }
  }
  return INT64_MAX;
}

/* The best of a few passes that read as much as one binding may show, at most 1 GiB; fewer where
   that takes long. */
static quire_status measure_reading(bench_gpu *gpu, quire_error *error) {
  enum { LEAST_PASSES = 3, PASSES = 15, READS = 4 };
  quire_device *device = gpu->session->device;
  uint64_t bytes = READ_BYTES;
  const char *const limits[] = {"maxStorageBufferBindingSize", "maxBufferSize"};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t limit = limit_of(device, limits[i]);
    bytes = (uint64_t)limit < bytes ? (uint64_t)limit : bytes;
  }
  bytes = bytes / 4096 * 4096;
  void *buffer = NULL;
  double best = 0;
  const uint64_t begin = quire_clock_nanoseconds();
  quire_status status = quire_buffer_create(device, bytes, &buffer, error);
  for (int i = 0; i < PASSES && status == QUIRE_OK; ++i) {
    if (i >= LEAST_PASSES && quire_clock_nanoseconds() - begin > READ_NANOSECONDS) {
      break;
    }
    double nanoseconds = 0;
    status = quire_webgpu_measure_read(device, buffer, bytes, READS, &nanoseconds, error);
    best = nanoseconds > 0 && (best == 0 || nanoseconds < best) ? nanoseconds : best;
  }
  quire_buffer_destroy(device, buffer);
  if (status == QUIRE_OK && best > 0) {
    gpu->read_gigabytes = (double)bytes * READS / best;
  }
  return status;
}

/* ---- figures ---- */

static quire_status measure_program(bench_gpu *gpu, bench_program *program,
                                    bench_gpu_figure *figure, quire_error *error) {
  const bench_layers *layers = &program->kinds[program->kinds[0].layer_count > 0 ? 0 : 1];
  char label[160];
  (void)snprintf(label, sizeof label, "%s %s", figure->item->name, figure->dtype);
  (void)snprintf(figure->variant, sizeof figure->variant, "%s", quire_plan_variant(layers->plan));
  figure->bytes = layers->bytes;
  figure->flops = layers->flops;
  gpu_calls calls;
  quire_status status = make_calls(gpu->session, layers, &calls, error);
  if (status == QUIRE_OK) {
    status = sample(&calls, gpu->seconds, label, figure, error);
  }
  release_calls(&calls);
  if (status == QUIRE_OK && gpu->read_gigabytes == 0) {
    status = measure_reading(gpu, error); /* the device is busy by now */
  }
  figure->memory_limit = gpu->read_gigabytes > 0 ? figure->bytes / gpu->read_gigabytes / 1000 : 0;
  return status;
}

quire_status quire_bench_gpu_measure(bench_gpu *gpu, const bench_case *item, const char *dtype,
                                     bench_gpu_figure *figure, quire_error *error) {
  *figure = (bench_gpu_figure){.item = item, .dtype = dtype};
  if (item->linear_layers + item->attention_layers != 1) {
    return quire_failure_set(error, QUIRE_UNSUPPORTED, "%.64s: stacks are measured on the CPU only",
                             item->name);
  }
  const double sets = ROTATED_BYTES / quire_bench_case_set_bytes(item, dtype) + 1;
  figure->sets = sets < LEAST_SETS ? LEAST_SETS : (sets > MOST_SETS ? MOST_SETS : (size_t)sets);
  bench_program program;
  quire_status status =
      quire_bench_program_make(gpu->session, item, dtype, figure->sets, &program, error);
  if (status == QUIRE_OK) {
    status = measure_program(gpu, &program, figure, error);
    quire_bench_program_release(&program);
  }
  return status;
}
