#include "spin.h"

#include <time.h>

#include "portability.h"

enum {
  SPIN_LEAST = 5000,    /* nanoseconds: what sleeping and waking costs at best */
  DISTURBED = 250000,   /* between two looks at the clock: somebody else had the processor */
  PENALTY_MOST = 1024,  /* waits */
  PAUSES_PER_LOOK = 32, /* a microsecond or two */
  PAUSES_UNSEEN = 8,    /* before the first look: most waits of a busy pool are over by then */
};

static uint64_t clock_now(void) {
  struct timespec now = {0};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void quire_spin_init(quire_spin *spin, uint64_t most, bool never) {
  *spin = (quire_spin){.never = never, .budget = most / 2, .most = most, .penalty = 1};
}

void quire_spin_begin(quire_spin *spin) {
  spin->began = 0;
  spin->turn = 0;
}

static void note_disturbance(quire_spin *spin) {
  spin->penalty = spin->penalty < PENALTY_MOST ? spin->penalty * 2 : PENALTY_MOST;
  spin->rest = spin->penalty;
}

/* Looks at the clock; false: long enough. */
static bool look(quire_spin *spin) {
  uint64_t now = clock_now();
  if (spin->began == 0) {
    spin->began = now;
    spin->seen = now;
    return !spin->never && spin->rest == 0;
  }
  bool disturbed = now - spin->seen > DISTURBED;
  spin->seen = now;
  if (disturbed) {
    note_disturbance(spin);
    return false;
  }
  return now - spin->began < spin->budget;
}

bool quire_spin_pause(quire_spin *spin) {
  QUIRE_PAUSE();
  spin->turn++;
  if (spin->turn == PAUSES_UNSEEN || spin->turn % PAUSES_PER_LOOK == 0) {
    return look(spin);
  }
  return true;
}

static uint64_t next_budget(const quire_spin *spin, uint64_t waited) {
  if (waited >= spin->most) {
    return SPIN_LEAST;
  }
  uint64_t twice = waited * 2 > SPIN_LEAST ? waited * 2 : SPIN_LEAST;
  return twice < spin->most ? twice : spin->most;
}

void quire_spin_end(quire_spin *spin, bool slept) {
  if (spin->began == 0) {
    return; /* over before the first look */
  }
  if (spin->rest > 0) {
    spin->rest--;
  } else if (spin->penalty > 1) {
    spin->penalty--;
  }
  if (slept) {
    spin->seen = clock_now();
  }
  spin->budget = next_budget(spin, spin->seen - spin->began);
}
