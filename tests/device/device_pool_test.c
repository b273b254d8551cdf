/*
 * The CPU device's pool. Compiled twice: as the library has it, and with the portable way to sleep
 * and rounds of a few items (device_pool_portable_test).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "pool.h"
#include "spin.h"

enum { MOST_ITEMS = 5000, CALLERS = 3 };

static quire_pool *make_pool(size_t threads) {
  quire_pool *pool = NULL;
  assert_int_equal(quire_pool_create(&quire_default_allocator, threads, &pool, NULL), QUIRE_OK);
  assert_int_equal(quire_pool_threads(pool), threads);
  return pool;
}

static void nap(long nanoseconds) {
  const struct timespec time = {0, nanoseconds};
  (void)nanosleep(&time, NULL);
}

/* ---- items ---- */

typedef struct tally {
  unsigned char seen[MOST_ITEMS];
  long naps; /* nanoseconds that each item sleeps */
} tally;

static void count_task(void *user, size_t index) {
  tally *all = user;
  if (all->naps > 0) {
    nap(all->naps);
  }
  all->seen[index]++;
}

/* Items that were not run exactly once, if [0, count) should have been. */
static size_t count_wrong(const tally *all, size_t count) {
  size_t wrong = 0;
  for (size_t i = 0; i < MOST_ITEMS; i++) {
    wrong += all->seen[i] != (i < count);
  }
  return wrong;
}

static void test_every_item_once(void **state) {
  (void)state;
  static const size_t threads[] = {1, 2, 3, 7, 40};
  static const size_t counts[] = {0, 1, 2, 3, 64, 101, MOST_ITEMS};
  for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
    quire_pool *pool = make_pool(threads[t]);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
      for (int again = 0; again < 40; again++) {
        tally all = {{0}, 0};
        quire_pool_parallel_for(pool, count_task, &all, counts[c]);
        assert_int_equal(count_wrong(&all, counts[c]), 0);
      }
    }
    quire_pool_destroy(pool);
  }
  quire_pool_destroy(NULL);
}

/* A call returns after its last item, whoever runs it, spinning or asleep. */
static void test_slow_items(void **state) {
  (void)state;
  quire_pool *pool = make_pool(3);
  for (int again = 0; again < 5; again++) {
    tally all = {{0}, 300000};
    quire_pool_parallel_for(pool, count_task, &all, 31);
    assert_int_equal(count_wrong(&all, 31), 0);
  }
  quire_pool_destroy(pool);
}

/* Threads sleep between calls that are far apart, and wake for each. */
static void test_calls_far_apart(void **state) {
  (void)state;
  quire_pool *pool = make_pool(3);
  for (int again = 0; again < 30; again++) {
    tally all = {{0}, again % 3 == 0 ? 100000 : 0};
    nap(again % 5 == 0 ? 4000000 : 300000);
    quire_pool_parallel_for(pool, count_task, &all, 17);
    assert_int_equal(count_wrong(&all, 17), 0);
  }
  quire_pool_destroy(pool);
}

static void test_destroy_at_any_moment(void **state) {
  (void)state;
  for (int again = 0; again < 60; again++) {
    quire_pool *pool = make_pool(4);
    tally all = {{0}, 0};
    if (again % 3 > 0) {
      quire_pool_parallel_for(pool, count_task, &all, 5);
    }
    nap(again % 4 * 20000L);
    quire_pool_destroy(pool);
  }
}

/* ---- callers ---- */

typedef struct caller {
  quire_pool *pool;
  size_t wrong;
} caller;

static void *call_often(void *user) {
  caller *one = user;
  for (size_t again = 0; again < 300; again++) {
    tally all = {{0}, 0};
    size_t count = again * 7 % 97;
    quire_pool_parallel_for(one->pool, count_task, &all, count);
    one->wrong += count_wrong(&all, count);
  }
  return NULL;
}

static void test_callers_take_turns(void **state) {
  (void)state;
  quire_pool *pool = make_pool(3);
  caller callers[CALLERS];
  pthread_t threads[CALLERS];
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){pool, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(callers[i].wrong, 0);
  }
  quire_pool_destroy(pool);
}

/* ---- a thread that does not run ---- */

static atomic_int held, release; /* lock-free: signal handlers may use them */

static void hold(int signal_number) {
  (void)signal_number;
  atomic_store(&held, 1);
  while (atomic_load(&release) == 0) {
  }
  atomic_store(&held, 0);
}

typedef struct search {
  pthread_t caller;
  pthread_t worker;
  atomic_int found; /* 1: being written, 2: there */
} search;

/* Items wait until both threads have one, so one of them is the worker's. */
static void find_worker(void *user, size_t index) {
  search *one = user;
  (void)index;
  int none = 0;
  if (!pthread_equal(pthread_self(), one->caller) &&
      atomic_compare_exchange_strong(&one->found, &none, 1)) {
    one->worker = pthread_self();
    atomic_store(&one->found, 2);
  }
  while (atomic_load(&one->found) != 2) {
    nap(1000);
  }
}

/* The system may leave a thread waiting for milliseconds; its items must not wait with it. Here it
   waits until the call is over, so a pool that waits for it never returns. */
static void test_held_thread_keeps_nobody(void **state) {
  (void)state;
  struct sigaction action, before;
  memset(&action, 0, sizeof(action));
  action.sa_handler = hold;
  assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
  quire_pool *pool = make_pool(2);
  search one = {.caller = pthread_self()};
  quire_pool_parallel_for(pool, find_worker, &one, 2);
  assert_int_equal(pthread_kill(one.worker, SIGUSR1), 0);
  while (atomic_load(&held) == 0) {
    nap(1000);
  }
  (void)alarm(60); /* ends the test if it hangs */
  for (int again = 0; again < 3; again++) {
    tally all = {{0}, 0};
    quire_pool_parallel_for(pool, count_task, &all, 50);
    assert_int_equal(count_wrong(&all, 50), 0);
  }
  (void)alarm(0);
  atomic_store(&release, 1);
  tally all = {{0}, 0};
  quire_pool_parallel_for(pool, count_task, &all, 50);
  assert_int_equal(count_wrong(&all, 50), 0);
  quire_pool_destroy(pool);
  assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* ---- spinning ---- */

static unsigned pauses_until_sleep(quire_spin *spin) {
  unsigned pauses = 1;
  quire_spin_begin(spin);
  while (quire_spin_pause(spin)) {
    pauses++;
  }
  return pauses;
}

/* What a wait of so many nanoseconds teaches. */
static uint64_t budget_after(quire_spin *spin, uint64_t waited) {
  spin->began = 1;
  spin->seen = 1 + waited;
  quire_spin_end(spin, false);
  return spin->budget;
}

static void test_spin(void **state) {
  (void)state;
  quire_spin spin;
  quire_spin_init(&spin, 1000000, true);
  assert_in_range(pauses_until_sleep(&spin), 1, 16);

  quire_spin_init(&spin, 1000000, false);
  assert_true(pauses_until_sleep(&spin) > 16);
  assert_int_equal(budget_after(&spin, 100000), 200000);
  assert_int_equal(budget_after(&spin, 900000), 1000000);
  uint64_t least = budget_after(&spin, 1000000);
  assert_true(least < 20000);
  assert_int_equal(budget_after(&spin, 10), least);

  /* Somebody else had the processor: the next waits go to sleep at once, more each time. */
  uint32_t rest[2] = {0, 0};
  for (int again = 0; again < 2; again++) {
    spin.rest = 0;
    spin.budget = 1000000;
    quire_spin_begin(&spin);
    while (spin.began == 0 && quire_spin_pause(&spin)) {
    }
    nap(1000000);
    while (quire_spin_pause(&spin)) {
    }
    rest[again] = spin.rest;
  }
  assert_true(rest[0] > 0 && rest[1] > rest[0]);
  assert_in_range(pauses_until_sleep(&spin), 1, 16);
  quire_spin_end(&spin, true);
  assert_int_equal(spin.rest, rest[1] - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_item_once),
      cmocka_unit_test(test_slow_items),
      cmocka_unit_test(test_calls_far_apart),
      cmocka_unit_test(test_destroy_at_any_moment),
      cmocka_unit_test(test_callers_take_turns),
      cmocka_unit_test(test_held_thread_keeps_nobody),
      cmocka_unit_test(test_spin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
