/*
 * How long a thread spins before it sleeps. Waking a sleeping thread takes microseconds, on virtual
 * machines tens of them, and a spinning one takes the processor from others; so a thread spins
 * twice as long as its last wait took if that was short, and hardly at all if it was long. A thread
 * that was taken off its processor while it spun is not alone there: it spins less often for a
 * while.
 */
#ifndef QUIRE_DEVICE_SPIN_H
#define QUIRE_DEVICE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* What one thread has seen. Not thread-safe. */
typedef struct quire_spin {
  bool never;       /* more threads than processors: whoever spins keeps another from its work */
  uint32_t rest;    /* waits from now on that do not spin */
  uint32_t penalty; /* waits that will not spin after the next disturbance */
  uint64_t budget;  /* nanoseconds */
  uint64_t most;    /* longer waits are better slept through */
  uint64_t began;   /* of the wait that goes on */
  uint64_t seen;    /* last look at the clock */
  uint32_t turn;    /* pauses of this wait */
} quire_spin;

void quire_spin_init(quire_spin *spin, uint64_t most, bool never);
/* A wait begins. */
void quire_spin_begin(quire_spin *spin);
/* Pauses for a moment; false: spun long enough, time to sleep. */
bool quire_spin_pause(quire_spin *spin);
/* The wait has ended; slept: not spinning. */
void quire_spin_end(quire_spin *spin, bool slept);

#endif
