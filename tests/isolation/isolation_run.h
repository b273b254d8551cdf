/* Runs calls in every world, on every device at hand, and compares. */
#ifndef QUIRE_TESTS_ISOLATION_RUN_H
#define QUIRE_TESTS_ISOLATION_RUN_H

#include "isolation_call.h"
#include "isolation_memory.h"

enum { ISO_DEVICES = 4 };

/* One device, and what a form of a call keeps there. */
typedef struct iso_device {
  const char *name;
  quire_device *device;
  quire_plan *plan;
  quire_workspace *workspace;
  iso_arena scratch; /* of a CPU's workspace */
} iso_device;

typedef struct iso_bench {
  quire_context *context;
  iso_device devices[ISO_DEVICES];
  int device_count;
  bool is_gpu;
  iso_arena arenas[ISO_TENSORS];         /* a CPU's tensors */
  void *buffers[ISO_TENSORS], *transfer; /* a GPU's; all of them, on their way */
  unsigned char *sent, *got;             /* what is on the way */
  unsigned char *expected[ISO_TENSORS];  /* elements that are ISO_SAME, as the first run had them */
  uint64_t calls, refused, spoiled, left_out;
} iso_bench;

/* Every instruction set at hand; or a GPU. False: there is none. Fails the test if it can't. */
bool iso_bench_open(iso_bench *bench, bool is_gpu);
void iso_bench_close(iso_bench *bench);

/* Drops the plans: a call of another form follows. */
void iso_bench_forget(iso_bench *bench);
/*
 * Plans the call where that was not done. False: no device can plan it (a GPU, or an operator that
 * this build leaves out); the call is not to be run.
 */
bool iso_bench_plan(iso_bench *bench, const iso_call *call);
/* Runs it everywhere, twice; fails the test with the call's seed if it does what it must not. */
void iso_bench_run(iso_bench *bench, iso_call *call);

/* What is running, for whoever catches the signal of a forbidden page. */
extern volatile const char *iso_running;

#endif
