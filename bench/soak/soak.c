/*
 * Soak: a serving simulation that runs for as long as one likes. Threads share one context, its
 * devices and their plan caches, and one cache of blocks and states, behind a mutex, as serving.h
 * asks for; requests are random, and so is what becomes of them. Every row of every step is
 * compared with the same sequence run alone on the scalar kernels: equal bits on the CPU, a
 * tolerance in worlds that also run on WebGPU. docs/reliability.md has the figures of a long run.
 *
 *     soak [--seconds N] [--warm-up N] [--threads N] [--seed N] [--operations N] [--worlds N]
 *          [--no-webgpu]
 *
 * --warm-up: worlds run for so many seconds more, first, and where there is WebGPU until each form
 * of a world that moves between devices has been there. They are compared as all others; only
 * memory is not looked at, while plan caches fill and a driver compiles its shaders.
 *
 * A world is one random model with one cache; its form follows from the seed alone, and with one
 * thread everything does. Exit status 1: a row differed, memory grew, or books did not balance.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "soak_memory.h"
#include "soak_world.h"

enum { MOST_THREADS = 16, MOST_GROWTH = 16 << 20 };

typedef struct settings {
  double seconds, warm_up;
  uint64_t seed;
  int64_t threads, operations, worlds;
  bool use_webgpu;
} settings;

/* The most at the end of any world, in each quarter of the time after the warm-up, and in that. */
typedef struct memory_record {
  size_t most[4], last, warming;
} memory_record;

static soak_world world; /* large */
static soak_counters counters;
static soak_worker *workers;

static double now(void) {
  struct timespec time;
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- settings ---- */

static int usage(const char *program) {
  (void)fprintf(stderr,
                "usage: %s [--seconds N] [--warm-up N] [--threads N] [--seed N] [--operations N] "
                "[--worlds N] [--no-webgpu]\n",
                program);
  return 2;
}

static bool read_settings(int count, char **arguments, settings *s) {
  *s = (settings){20, 0, 1, 3, 400, 0, true};
  for (int i = 1; i < count; ++i) {
    const char *name = arguments[i];
    if (strcmp(name, "--no-webgpu") == 0) {
      s->use_webgpu = false;
      continue;
    }
    char *end = NULL;
    const double value = i + 1 < count ? strtod(arguments[i + 1], &end) : -1;
    if (end == NULL || *end != 0 || !(value >= 0)) {
      return false;
    }
    i += 1;
    if (strcmp(name, "--seconds") == 0) {
      s->seconds = value;
    } else if (strcmp(name, "--warm-up") == 0) {
      s->warm_up = value;
    } else if (strcmp(name, "--threads") == 0) {
      s->threads = (int64_t)value;
    } else if (strcmp(name, "--seed") == 0) {
      s->seed = strtoull(arguments[i], NULL, 10);
    } else if (strcmp(name, "--operations") == 0) {
      s->operations = (int64_t)value;
    } else if (strcmp(name, "--worlds") == 0) {
      s->worlds = (int64_t)value;
    } else {
      return false;
    }
  }
  return s->threads >= 1 && s->threads <= MOST_THREADS && s->operations >= 1 && s->seconds > 0;
}

/* ---- devices ---- */

static quire_status open_devices(const settings *s, soak_devices *devices, quire_error *error) {
  static const quire_isa sets[] = {QUIRE_ISA_SCALAR, QUIRE_ISA_AVX2, QUIRE_ISA_AVX512,
                                   QUIRE_ISA_NEON};
  quire_context_options context_options;
  quire_device_options options;
  quire_context_options_init(&context_options);
  context_options.allocator = &soak_allocator;
  quire_status status = quire_context_create(&context_options, &devices->context, error);
  quire_device_options_init(&options);
  options.threads = 1;
  options.isa = QUIRE_ISA_SCALAR;
  if (status == QUIRE_OK) {
    status = quire_device_open(devices->context, "cpu", &options, &devices->reference, error);
  }
  options.threads = 2;
  options.plan_cache_size = 48; /* few, so that plans are evicted while they run */
  for (size_t i = 0; i < sizeof sets / sizeof *sets && status == QUIRE_OK; ++i) {
    options.isa = sets[i];
    quire_device **device = &devices->cpus[devices->cpu_count];
    if (quire_device_open(devices->context, "cpu", &options, device, error) == QUIRE_OK) {
      devices->cpu_count += 1;
    }
  }
  quire_device_options_init(&options);
  options.plan_cache_size = 48;
  if (status == QUIRE_OK && s->use_webgpu &&
      quire_device_open(devices->context, "webgpu", &options, &devices->gpu, error) != QUIRE_OK) {
    printf("no WebGPU: %s\n", error->message);
    devices->gpu = NULL;
  }
  return status;
}

static void close_devices(soak_devices *devices) {
  quire_device_release(devices->gpu);
  for (int i = 0; i < devices->cpu_count; ++i) {
    quire_device_release(devices->cpus[i]);
  }
  quire_device_release(devices->reference);
  quire_context_release(devices->context);
}

/* ---- workers ---- */

static bool open_workers(const settings *s, const soak_devices *devices) {
  bool is_good = true;
  workers = calloc((size_t)s->threads, sizeof *workers);
  for (int64_t i = 0; workers != NULL && i < s->threads; ++i) {
    workers[i].world = &world;
    workers[i].number = (int)i;
    for (int k = 0; devices->gpu != NULL && k < SOAK_STAGES; ++k) {
      is_good = is_good && quire_buffer_create(devices->gpu, SOAK_STAGE_BYTES,
                                               &workers[i].stage.buffers[k], NULL) == QUIRE_OK;
    }
  }
  for (int i = 0; i < SOAK_SEQUENCES; ++i) {
    is_good = is_good && soak_reference_open(&world.sequences[i].reference);
  }
  return is_good && workers != NULL;
}

static void close_workers(const settings *s, const soak_devices *devices) {
  for (int64_t i = 0; workers != NULL && i < s->threads; ++i) {
    for (int k = 0; devices->gpu != NULL && k < SOAK_STAGES; ++k) {
      quire_buffer_destroy(devices->gpu, workers[i].stage.buffers[k]);
    }
  }
  free(workers);
  for (int i = 0; i < SOAK_SEQUENCES; ++i) {
    soak_reference_close(&world.sequences[i].reference);
  }
}

/* One world from beginning to end; false: something was wrong. */
static bool run_world(const settings *s, uint64_t seed) {
  pthread_t threads[MOST_THREADS];
  int64_t started = 0;
  if (!soak_world_open(&world, seed)) {
    return false;
  }
  for (int64_t i = 0; i < s->threads; ++i) {
    workers[i].random.state = seed * 31 + (uint64_t)i;
    workers[i].operations = s->operations;
  }
  while (started + 1 < s->threads &&
         pthread_create(&threads[started], NULL, soak_worker_run, &workers[started + 1]) == 0) {
    started += 1;
  }
  (void)soak_worker_run(&workers[0]);
  for (int64_t i = 0; i < started; ++i) {
    (void)pthread_join(threads[i], NULL);
  }
  if (world.is_on_gpu) {
    (void)soak_world_move(&world);
  }
  soak_world_close(&world);
  return !world.failed;
}

/* ---- what is told ---- */

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

/* part: of the time after the warm-up; negative in it. */
static void record(memory_record *memory, size_t bytes, double part) {
  memory->last = bytes;
  if (part < 0) {
    memory->warming = larger(memory->warming, bytes);
    return;
  }
  const size_t quarter = part >= 1 ? 3 : (size_t)(part * 4);
  memory->most[quarter] = larger(memory->most[quarter], bytes);
}

static void tell_progress(double elapsed, const settings *s) {
  if (isatty(STDOUT_FILENO)) {
    printf("\r%6.0f of %.0f s: %llu worlds, %llu steps, %llu rows, %llu mismatches, %.1f MiB ",
           elapsed, s->warm_up + s->seconds, (unsigned long long)counters.worlds,
           (unsigned long long)counters.steps, (unsigned long long)counters.rows,
           (unsigned long long)counters.mismatches, (double)soak_resident_bytes() / (1 << 20));
    (void)fflush(stdout);
  }
}

static void tell_memory(const char *name, const memory_record *memory) {
  printf("%-22s at most, by quarters:", name);
  for (int i = 0; i < 4; ++i) {
    printf(" %.2f", (double)memory->most[i] / (1 << 20));
  }
  printf("; last %.2f MiB, in the warm-up %.2f\n", (double)memory->last / (1 << 20),
         (double)memory->warming / (1 << 20));
}

static void tell_counters(void) {
#define SOAK_COUNTER(name) printf("%-22s %llu\n", #name, (unsigned long long)counters.name);
  SOAK_COUNTERS(SOAK_COUNTER)
#undef SOAK_COUNTER
}

/* Flat: in the second half no more than in the first, but for 16 MiB. Short runs do not warm up,
   and tools that check memory keep what was freed. */
static bool is_flat(const memory_record *memory, double seconds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const double least = INFINITY;
#else
  const double least = 300;
#endif
  return seconds < least || larger(memory->most[2], memory->most[3]) <=
                                larger(memory->most[0], memory->most[1]) + MOST_GROWTH;
}

int main(int count, char **arguments) {
  settings s;
  soak_devices devices = {0};
  memory_record resident = {0}, held = {0};
  quire_error error;
  if (!read_settings(count, arguments, &s)) {
    return usage(arguments[0]);
  }
  (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  if (open_devices(&s, &devices, &error) != QUIRE_OK) {
    (void)fprintf(stderr, "soak: %s\n", error.message);
    return 1;
  }
  printf("soak --seed %llu --threads %lld --operations %lld: %d CPU instruction sets%s\n",
         (unsigned long long)s.seed, (long long)s.threads, (long long)s.operations,
         devices.cpu_count, devices.gpu != NULL ? " and WebGPU" : "");
  world.devices = &devices;
  world.counters = &counters;
  bool is_good = open_workers(&s, &devices);
  unsigned forms = devices.gpu != NULL ? 0 : SOAK_ALL_FORMS; /* that moved so far */
  const double start = now();
  double begin = s.warm_up > 0 ? -1 : start; /* of what counts; -1: not yet */
  for (int64_t i = 0;
       is_good && (s.worlds > 0 ? i < s.worlds : begin < 0 || now() - begin < s.seconds); ++i) {
    is_good = run_world(&s, s.seed + (uint64_t)i);
    forms |= world.may_switch ? 1u << world.form : 0;
    const double time = now();
    const double part = begin < 0 ? -1 : (time - begin) / s.seconds;
    record(&resident, soak_resident_bytes(), part);
    record(&held, soak_live_bytes(), part);
    tell_progress(time - start, &s);
    if (begin < 0 && time - start >= s.warm_up && forms == SOAK_ALL_FORMS) {
      begin = time;
    }
  }
  printf("%s%.0f seconds\n", isatty(STDOUT_FILENO) ? "\n" : "", now() - start);
  close_workers(&s, &devices);
  close_devices(&devices);
  tell_counters();
  tell_memory("resident memory", &resident);
  tell_memory("held by the library", &held);
  printf("%-22s %zu bytes in %zu blocks\n", "held at the end", soak_live_bytes(),
         soak_live_blocks());
  if (!is_flat(&resident, s.seconds) || !is_flat(&held, s.seconds)) {
    (void)fprintf(stderr, "soak: memory grew\n");
    is_good = false;
  }
  if (soak_live_blocks() != 0) {
    (void)fprintf(stderr, "soak: memory was not given back\n");
    is_good = false;
  }
  printf("%s\n", is_good ? "good" : "NOT good");
  return is_good ? 0 : 1;
}
