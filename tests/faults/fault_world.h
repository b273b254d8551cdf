/* Scenarios: a public call, with what must be there before it and what it shows afterwards. */
#ifndef QUIRE_TESTS_FAULT_WORLD_H
#define QUIRE_TESTS_FAULT_WORLD_H

#include "fault.h"

enum { FAULT_MOST_BUFFERS = 24, FAULT_MOST_RANK = 5 };

struct fault_world;

/* Whatever the call says with nothing failing. */
#define FAULT_ANY_STATUS ((quire_status)99)

typedef struct fault_scenario {
  const char *name;
  /* The public functions that are called while something fails, separated by blanks. */
  const char *functions;
  void (*make)(struct fault_world *world);
  quire_status (*call)(struct fault_world *world, quire_error *error);
  void (*drop)(struct fault_world *world); /* what make and call left; may be NULL */
  const void *argument;                    /* for make and call */
  quire_status expected;                   /* with nothing failing */
  size_t survived; /* failures that the call may swallow: something that is then not kept */
  bool silent;     /* takes no memory at all */
  bool silent_on_cpu;
  bool needs_webgpu;
  bool plain;           /* memory is the C library's, not the caller's */
  bool plain_on_webgpu; /* some of it: what callbacks write to outlives the caller's allocator */
  bool partial;         /* what was handed to a callback before a failure stays handed over */
  bool system;          /* fails by the system too: files, threads */
  bool foreign; /* the device is the caller's, who alone is told of its loss, and by wgpu-native of
                   internal errors */
  bool rereads; /* sets the world's flag of this name while the system fails */
} fault_scenario;

typedef struct fault_scenarios {
  const fault_scenario *items;
  size_t count;
} fault_scenarios;

extern const fault_scenarios fault_manifest_scenarios, fault_explain_scenarios,
    fault_operator_scenarios, fault_plan_scenarios, fault_device_scenarios, fault_serving_scenarios;
/* One for each file of tests/data/lint; called once. */
fault_scenarios fault_lint_scenarios(void);

typedef union fault_args {
  quire_paged_attention_args paged;
  quire_linear_attention_args linear;
  quire_paged_decode_args decode;
  quire_merge_attention_states_args merge;
  quire_linear_attention_replay_args replay;
  quire_causal_conv_with_state_args conv;
  quire_shared_prefix_args shared;
} fault_args;

typedef struct fault_world {
  const fault_scenario *scenario;
  const char *device_name; /* "cpu", "webgpu" */
  /* One for all scenarios, kept: making them takes long. */
  quire_context *context;
  quire_device *device;
  /* Of the scenario. */
  quire_context *own_context;
  quire_device *own_device;
  quire_operator *op;
  quire_plan *plan;
  quire_workspace *workspace;
  void *own;
  fault_args args;
  struct {
    void *buffer;
    uint64_t bytes;
    int64_t shape[FAULT_MOST_RANK];
  } buffers[FAULT_MOST_BUFFERS];
  size_t buffer_count;
  quire_tensor tensors[32];
  size_t tensor_count;
  bool rereads;  /* a file is read twice, and what fails is the second time: see scenarios_serving.c
                  */
  uint64_t seen; /* of all that callbacks were given, and of numbers by fault_show() */
  uint64_t (*look)(const struct fault_world *world); /* what else can be seen; NULL: nothing */
} fault_world;

/* All of them; the first FAULT_DEVICELESS tables are the same for every device. */
enum { FAULT_DEVICELESS = 3 };
size_t fault_list_count(void);
const fault_scenarios *fault_list(size_t number);
/* What must be there before the call, what is left of it, and a hash of all that can be seen. */
void fault_make(fault_world *world, const fault_scenario *scenario);
void fault_drop(fault_world *world, const fault_scenario *scenario);
uint64_t fault_look(fault_world *world);

/* What one scenario showed with nothing failing. */
typedef struct fault_reference {
  uint64_t before, after;
  size_t calls; /* that can fail */
  quire_status status;
} fault_reference;
fault_reference fault_measure(fault_world *world, const fault_scenario *scenario, fault_kind kind);

/* Stops the test, with the message, unless status is QUIRE_OK. */
void fault_must(quire_status status, const quire_error *error);
/* Dense tensors in the device's memory, released with the world. */
quire_tensor fault_floats(fault_world *world, int32_t ndim, const int64_t *shape);
quire_tensor fault_ints(fault_world *world, int32_t ndim, const int64_t *shape,
                        const int32_t *values);
/* Adds to what is seen. */
void fault_show(fault_world *world, const void *data, size_t size);
uint64_t fault_hash(uint64_t hash, const void *data, size_t size);
/* A write function of the library's; user: the world. */
void fault_write(void *user, const char *text, size_t length);
/* Content of a file under the source folder, in memory that stays until the next call. */
const char *fault_file(const char *path, size_t *length);
/* Makes the device forget the plan of the last typed call. */
void fault_forget_plan(fault_world *world);

#endif
