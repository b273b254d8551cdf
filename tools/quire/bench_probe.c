#include "bench_probe.h"

#include <pthread.h>
#include <string.h>

#include "bench_memory.h"
#include "files.h"

enum { ROUNDS = 200000, GRAIN = 128, MOST_THREADS = 256, MOST_ATTEMPTS = 3 };
#define PROBE_NANOSECONDS 100000000u
#define SWEEP_BYTES (UINT64_C(64) << 20)

/* A job that all threads do at once, each on its own part. */
typedef struct team {
  bench_probe *probe;
  pthread_barrier_t start, stop;
  bench_traffic traffic;
  size_t bytes;  /* 0: arithmetic */
  size_t sweeps; /* over the part, in one repetition */
  int is_done;
} team;

typedef struct member {
  team *of;
  size_t index;
  float sum; /* keeps the work from being left out */
} member;

static void work(member *self) {
  team *job = self->of;
  const bench_probe *probe = job->probe;
  if (job->bytes == 0) {
    self->sum += probe->kernels->multiply(0.999f, ROUNDS);
    return;
  }
  const size_t count = job->bytes / sizeof(float) / probe->threads / GRAIN * GRAIN;
  float *part = (float *)(void *)probe->memory + self->index * count;
  for (size_t i = 0; i < job->sweeps; ++i) {
    if (job->traffic == BENCH_READ) {
      self->sum += probe->kernels->read(part, count);
    } else if (job->traffic == BENCH_COPY) {
      memcpy(part + count / 2, part, count / 2 * sizeof *part);
    } else {
      probe->kernels->update(part, count);
    }
  }
}

static void *follow(void *user) {
  member *self = user;
  for (;;) {
    (void)pthread_barrier_wait(&self->of->start);
    if (self->of->is_done) {
      return NULL;
    }
    work(self);
    (void)pthread_barrier_wait(&self->of->stop);
  }
}

/* Best time of one repetition in nanoseconds; the first one warms up. */
static uint64_t lead(team *job, member *self) {
  uint64_t best = 0;
  const uint64_t begin = quire_clock_nanoseconds();
  for (size_t i = 0; i < 4 || quire_clock_nanoseconds() - begin < PROBE_NANOSECONDS; ++i) {
    (void)pthread_barrier_wait(&job->start);
    const uint64_t from = quire_clock_nanoseconds();
    work(self);
    (void)pthread_barrier_wait(&job->stop);
    const uint64_t took = quire_clock_nanoseconds() - from;
    best = i == 1 || (i > 1 && took < best) ? took : best;
  }
  job->is_done = 1;
  (void)pthread_barrier_wait(&job->start);
  return best;
}

/* 0 if a thread cannot be had: then those that wait at the barrier would wait for ever, so they are
   all started before the barrier is known to be complete. */
static uint64_t measure(team *job) {
  const size_t threads = job->probe->threads;
  static const size_t most = MOST_THREADS;
  pthread_t handles[MOST_THREADS];
  member members[MOST_THREADS];
  if (threads == 0 || threads > most ||
      pthread_barrier_init(&job->start, NULL, (unsigned)threads) != 0) {
    return 0;
  }
  if (pthread_barrier_init(&job->stop, NULL, (unsigned)threads) != 0) {
    (void)pthread_barrier_destroy(&job->start);
    return 0;
  }
  size_t started = 1;
  for (size_t i = 0; i < threads; ++i) {
    members[i] = (member){.of = job, .index = i};
  }
  while (started < threads &&
         pthread_create(&handles[started], NULL, follow, &members[started]) == 0) {
    started += 1;
  }
  uint64_t best = 0;
  if (started == threads) {
    best = lead(job, &members[0]);
  }
  for (size_t i = 1; i < started; ++i) {
    if (started < threads) {
      (void)pthread_cancel(handles[i]);
    }
    (void)pthread_join(handles[i], NULL);
  }
  (void)pthread_barrier_destroy(&job->start);
  (void)pthread_barrier_destroy(&job->stop);
  return best;
}

void quire_bench_probe_open(const char *isa, size_t threads, bench_probe *probe) {
  *probe = (bench_probe){.kernels = &quire_bench_kernels_plain, .threads = threads};
#if defined(__x86_64__)
  if (!strcmp(isa, "avx2")) {
    probe->kernels = &quire_bench_kernels_avx2;
  } else if (!strcmp(isa, "avx512")) {
    probe->kernels = &quire_bench_kernels_avx512;
  }
#elif defined(__aarch64__)
  if (!strcmp(isa, "neon")) {
    probe->kernels = &quire_bench_kernels_neon;
  }
#else
  (void)isa;
#endif
}

void quire_bench_probe_close(bench_probe *probe) {
  quire_bench_memory_release(probe->memory, probe->bytes);
  *probe = (bench_probe){0};
}

static int reserve(bench_probe *probe, size_t bytes) {
  if (probe->bytes < bytes) {
    quire_bench_memory_release(probe->memory, probe->bytes);
    probe->memory = quire_bench_memory_new(bytes);
    probe->bytes = probe->memory ? bytes : 0;
    float *data = (float *)(void *)probe->memory;
    for (size_t i = 0; i < probe->bytes / sizeof(float); ++i) {
      data[i] = 1;
    }
  }
  return probe->memory != NULL;
}

/* The place of a size; count of known ones if it is new and there is room. */
static size_t find(const bench_probe *probe, bench_traffic traffic, size_t size) {
  size_t i = 0;
  while (i < probe->known_count &&
         (probe->known[i].traffic != traffic || probe->known[i].bytes != size)) {
    i += 1;
  }
  return i;
}

double quire_bench_probe_bandwidth(bench_probe *probe, bench_traffic traffic, double bytes) {
  size_t size = (size_t)1 << 20;
  while ((double)size < bytes && size < (size_t)1 << 30) {
    size *= 2;
  }
  const size_t place = find(probe, traffic, size);
  if (place == BENCH_PROBE_SIZES || !reserve(probe, size)) {
    return 0;
  }
  if (place == probe->known_count) {
    probe->known[place].traffic = traffic;
    probe->known[place].bytes = size;
    probe->known_count += 1;
  }
  if (probe->known[place].attempts < MOST_ATTEMPTS) {
    team job = {.probe = probe, .traffic = traffic, .bytes = size};
    job.sweeps = size < SWEEP_BYTES / 4 ? (size_t)(SWEEP_BYTES / 4) / size : 1;
    const uint64_t best = measure(&job);
    const double moved = (double)size * (double)job.sweeps * (traffic == BENCH_UPDATE ? 2 : 1);
    const double rate = best > 0 ? moved / (double)best : 0;
    probe->known[place].attempts += 1;
    probe->known[place].gigabytes =
        rate > probe->known[place].gigabytes ? rate : probe->known[place].gigabytes;
  }
  return probe->known[place].gigabytes;
}

double quire_bench_probe_arithmetic(bench_probe *probe) {
  if (probe->gigaflops == 0) {
    team job = {.probe = probe};
    const uint64_t best = measure(&job);
    const double flops = probe->kernels->flops_per_round * ROUNDS * (double)probe->threads;
    probe->gigaflops = best > 0 ? flops / (double)best : 0;
  }
  return probe->gigaflops;
}
