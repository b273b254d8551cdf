/*
 * A place where one thread sleeps until another wakes it, without a lock on the waker's side while
 * nobody sleeps. The order that loses no wake-up:
 *
 *   sleeper   announce; look once more for what it waits for; sleep if it is not there, else cancel
 *   waker     make it true; wake
 *
 * Both sides need sequentially consistent accesses to what is waited for. A wake-up may also come
 * for nothing: the sleeper looks again.
 *
 * Linux sleeps on a futex; elsewhere (and with QUIRE_SLEEPER_PORTABLE) on a condition variable.
 */
#ifndef QUIRE_DEVICE_SLEEPER_H
#define QUIRE_DEVICE_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>

#if !defined(__linux__) && !defined(QUIRE_SLEEPER_PORTABLE)
#define QUIRE_SLEEPER_PORTABLE
#endif
#if defined(QUIRE_SLEEPER_PORTABLE)
#include <pthread.h>
#endif

typedef struct quire_sleeper {
  atomic_uint asleep; /* 1: announced */
#if defined(QUIRE_SLEEPER_PORTABLE)
  pthread_mutex_t lock;
  pthread_cond_t woken;
#endif
} quire_sleeper;

/* False: the system has no room for it. */
bool quire_sleeper_init(quire_sleeper *sleeper);
void quire_sleeper_destroy(quire_sleeper *sleeper);
/* Of the thread that sleeps. */
void quire_sleeper_announce(quire_sleeper *sleeper);
void quire_sleeper_cancel(quire_sleeper *sleeper);
void quire_sleeper_sleep(quire_sleeper *sleeper);
/* Of any thread. Costs one load while nobody has announced to sleep. */
void quire_sleeper_wake(quire_sleeper *sleeper);

#endif
