/* Devices, and executors that lend them threads. */
#ifndef QUIRE_DEVICE_H
#define QUIRE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "quire/context.h"
#include "quire/export.h"
#include "quire/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One piece of work: must be safe to call from any thread. */
typedef void quire_task_function(void *task_user, size_t index);

/*
 * Lends the caller's threads. parallel_for calls task(task_user, i) once for every i in [0, count),
 * in any order, on any threads, and returns when all calls have returned; what the tasks wrote must
 * be visible to the caller then. Results never depend on the executor.
 */
typedef struct quire_executor {
  void (*parallel_for)(void *user, quire_task_function *task, void *task_user, size_t count);
  void *user;
  size_t thread_limit; /* most threads that work at once; 0: unknown */
} quire_executor;

/* Highest instruction set that a CPU device may choose. The bits of a result never depend on it. */
typedef enum quire_isa {
  QUIRE_ISA_BEST = 0, /* whatever the machine has */
  QUIRE_ISA_SCALAR = 1,
  QUIRE_ISA_AVX2 = 2, /* with FMA and F16C */
  QUIRE_ISA_AVX512 = 3,
  QUIRE_ISA_NEON = 4
} quire_isa;

struct quire_webgpu_options; /* quire/webgpu.h */

typedef struct quire_device_options {
  size_t struct_size;
  size_t threads; /* size of the device's own pool; 0: one per processor in use */
  const quire_executor
      *executor;          /* copied; used instead of a pool of the device's own; may be NULL */
  quire_isa isa;          /* CPU: BAD_REQUEST if this build or machine does not have it */
  size_t plan_cache_size; /* plans kept by typed calls, least recently used; 0: 256 */
  const struct quire_webgpu_options *webgpu; /* WebGPU: more options; NULL: their defaults */
  /* A tuning file's text (`quire tune` writes such files; docs/webgpu.md): plans take its values
     where an entry is for the very manifest, variant, adapter and class of call, and where they
     pass the checks of the manifest's own. Read while the device opens. NULL: none. */
  const char *tuning;
  size_t tuning_length;
} quire_device_options;

/*
 * Sets every member to its default. Programs that were built before the struct grew call the
 * function, which fills the members up to `webgpu`; all others call the sized one, through the
 * macro.
 */
QUIRE_API void quire_device_options_init(quire_device_options *options);
QUIRE_API void quire_device_options_init_sized(quire_device_options *options, size_t struct_size);
#define quire_device_options_init(out) quire_device_options_init_sized(out, sizeof *(out))

/*
 * A device runs plans. Thread-safe; runs from several threads at once take turns on the device's
 * own pool, and overlap when each brings an executor of its own.
 */
typedef struct quire_device quire_device;

/*
 * Opens a device: "cpu", or "webgpu" in builds that have it. options may be NULL. On success
 * *device is the caller's, to be released with quire_device_release(); on failure it is NULL.
 * Statuses: NOT_FOUND (no such device in this build, no library or adapter for it), BAD_REQUEST
 * (options, a damaged tuning file or one of another version), LIMIT (one that is too large), DEVICE
 * (it does not start), OUT_OF_MEMORY.
 */
QUIRE_API quire_status quire_device_open(quire_context *context, const char *name,
                                         const quire_device_options *options, quire_device **device,
                                         quire_error *error);

/* Gives up the caller's reference; NULL is allowed. Plans and workspaces keep the device alive. */
QUIRE_API void quire_device_release(quire_device *device);

/*
 * What plans may know about a device: any may be planned for, present or not. Arrays belong to
 * whoever filled them. Features of a CPU are instruction sets ("avx2", "avx512f", "neon"); of
 * WebGPU its feature names. Limits are named as WebGPU names them; a CPU has none.
 */
typedef struct quire_device_description {
  size_t struct_size;
  const char *backend; /* "cpu", "webgpu"; NULL: "webgpu" */
  const char *const *features;
  size_t feature_count;
  const quire_named_value *limits; /* type INT, not negative, laid over the backend's defaults */
  size_t limit_count;
  const quire_named_value *adapter; /* adapter properties */
  size_t adapter_count;
} quire_device_description;

/* The description of an open device; valid as long as the device. */
QUIRE_API const quire_device_description *quire_device_describe(const quire_device *device);

/* Facts for people, of `quire devices`. 0 or "" where unknown. */
typedef struct quire_device_facts {
  const char *name;                    /* "cpu" */
  const char *model;                   /* "AMD EPYC ..." */
  size_t threads;                      /* threads of the device's own pool */
  size_t l1_bytes, l2_bytes, l3_bytes; /* data caches, as one core sees them */
  const char *isa; /* instruction set in use: "scalar", "avx2", "avx512", "neon" */
} quire_device_facts;

QUIRE_API void quire_device_get_facts(const quire_device *device, quire_device_facts *facts);

/* Names of the devices that this build knows, in a fixed order; NULL out of range. */
QUIRE_API const char *quire_device_name(size_t index);

#ifdef __cplusplus
}
#endif

#endif
