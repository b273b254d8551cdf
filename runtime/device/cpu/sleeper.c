#include "sleeper.h"

#if !defined(QUIRE_SLEEPER_PORTABLE)
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

void quire_sleeper_announce(quire_sleeper *sleeper) {
  atomic_store(&sleeper->asleep, 1);
}

void quire_sleeper_cancel(quire_sleeper *sleeper) {
  atomic_store(&sleeper->asleep, 0);
}

#if defined(QUIRE_SLEEPER_PORTABLE)

bool quire_sleeper_init(quire_sleeper *sleeper) {
  atomic_init(&sleeper->asleep, 0);
  if (pthread_mutex_init(&sleeper->lock, NULL) != 0) {
    return false;
  }
  if (pthread_cond_init(&sleeper->woken, NULL) != 0) {
    pthread_mutex_destroy(&sleeper->lock);
    return false;
  }
  return true;
}

void quire_sleeper_destroy(quire_sleeper *sleeper) {
  pthread_cond_destroy(&sleeper->woken);
  pthread_mutex_destroy(&sleeper->lock);
}

void quire_sleeper_sleep(quire_sleeper *sleeper) {
  pthread_mutex_lock(&sleeper->lock);
  while (atomic_load(&sleeper->asleep) == 1) {
    pthread_cond_wait(&sleeper->woken, &sleeper->lock);
  }
  pthread_mutex_unlock(&sleeper->lock);
}

void quire_sleeper_wake(quire_sleeper *sleeper) {
  if (atomic_load(&sleeper->asleep) == 0) {
    return;
  }
  pthread_mutex_lock(&sleeper->lock);
  atomic_store(&sleeper->asleep, 0);
  pthread_cond_signal(&sleeper->woken);
  pthread_mutex_unlock(&sleeper->lock);
}

#else

_Static_assert(sizeof(atomic_uint) == 4, "a futex is a word of 32 bits");

bool quire_sleeper_init(quire_sleeper *sleeper) {
  atomic_init(&sleeper->asleep, 0);
  return true;
}

void quire_sleeper_destroy(quire_sleeper *sleeper) {
  (void)sleeper;
}

void quire_sleeper_sleep(quire_sleeper *sleeper) {
  /* Returns at once where the word has changed, and at signals. */
  while (atomic_load(&sleeper->asleep) == 1) {
    (void)syscall(SYS_futex, &sleeper->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
  }
}

void quire_sleeper_wake(quire_sleeper *sleeper) {
  if (atomic_load(&sleeper->asleep) == 1 && atomic_exchange(&sleeper->asleep, 0) == 1) {
    (void)syscall(SYS_futex, &sleeper->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  }
}

#endif
