#include "pool.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "checked.h"
#include "cpu_host.h"
#include "error.h"
#include "sleeper.h"
#include "spin.h"

/* Items of one round, whose indices are kept in 32 bits. Tests make it small. */
#if !defined(QUIRE_POOL_ROUND_ITEMS)
#define QUIRE_POOL_ROUND_ITEMS 0x40000000
#endif

enum {
  LINE_BYTES = 64,
  APART_BYTES = 128, /* lines are fetched in pairs */
  ROUND_ITEMS = QUIRE_POOL_ROUND_ITEMS,
  SPIN_BETWEEN =
      1000000,          /* nanoseconds between calls: layers of a model follow each other sooner */
  MOVE_AGAIN = 500000,  /* nanoseconds: moving takes some tens of thousands */
  SPIN_WITHIN = 100000, /* for the last items: whoever runs them may need this processor */
};

/*
 * A thread's items of the round that is under way. `range` holds (first << 32 | end), empty if
 * first >= end. Whoever exchanges it for a smaller one owns the item that is missing, and the round
 * does not end before that item has been counted: until then the other fields stay as they are. A
 * thread that is late may take an item of a later round than it thinks; it reads the fields after
 * it has taken the item, so they are of that round.
 */
typedef struct slot {
  atomic_uint_least64_t range;
  quire_task_function *task;
  void *task_user;
  size_t base; /* index of the round's item 0 */
  quire_sleeper sleeper;
  atomic_bool closing;
  /* Of the slot's thread; not on the line that it watches. */
  _Alignas(LINE_BYTES) quire_spin spin;
  uint64_t moved; /* when it last left the caller's processor */
  quire_pool *pool;
  pthread_t thread;
} slot;

/* Slots lie apart, so that one thread's range is not on the line of another's. */
typedef union slot_room {
  slot one;
  unsigned char room[(sizeof(slot) + APART_BYTES - 1) / APART_BYTES * APART_BYTES];
} slot_room;

struct quire_pool {
  const quire_allocator *allocator;
  size_t threads; /* slots; the first is that of whoever calls */
  size_t started; /* threads of ours */
  slot_room *slots;
  bool crowded;                                        /* more threads than processors */
  atomic_int processor;                                /* the caller's; -1 unknown */
  pthread_mutex_t turn;                                /* held by the caller whose round it is */
  _Alignas(APART_BYTES) atomic_uint_least32_t pending; /* items that nobody has counted yet */
};

/* ---- items ---- */

static uint64_t pack_range(uint32_t first, uint32_t end) {
  return (uint64_t)first << 32 | end;
}

static bool is_empty(uint64_t range) {
  return (uint32_t)(range >> 32) >= (uint32_t)range;
}

/* Takes one item, from the front for the slot's own thread; false: none is left. */
static bool take(slot *from, bool front, uint32_t *item) {
  uint64_t range = atomic_load_explicit(&from->range, memory_order_relaxed);
  while (!is_empty(range)) {
    uint32_t first = (uint32_t)(range >> 32), end = (uint32_t)range;
    uint64_t rest = front ? pack_range(first + 1, end) : pack_range(first, end - 1);
    if (atomic_compare_exchange_weak_explicit(&from->range, &range, rest, memory_order_acquire,
                                              memory_order_relaxed)) {
      *item = front ? first : end - 1;
      return true;
    }
  }
  return false;
}

static uint32_t run_all(slot *from, bool front) {
  uint32_t done = 0;
  for (uint32_t item; take(from, front, &item); done++) {
    from->task(from->task_user, from->base + item);
  }
  return done;
}

/* Runs what is left, own items first, and counts it. */
static void work(quire_pool *pool, size_t self) {
  uint32_t done = run_all(&pool->slots[self].one, true);
  for (size_t i = 1; i < pool->threads; i++) {
    size_t other = self + i < pool->threads ? self + i : self + i - pool->threads;
    done += run_all(&pool->slots[other].one, false);
  }
  if (done > 0 && atomic_fetch_sub(&pool->pending, done) == done && self > 0) {
    quire_sleeper_wake(&pool->slots[0].one.sleeper);
  }
}

/* ---- waiting ---- */

typedef bool ready_function(slot *own);

static bool has_work(slot *own) {
  return !is_empty(atomic_load(&own->range)) || atomic_load(&own->closing);
}

static bool is_done(slot *own) {
  return atomic_load(&own->pool->pending) == 0;
}

/* Returns when it is ready, or, for once, because somebody woke it. True: it has slept. */
static bool wait_until(slot *own, ready_function *ready) {
  if (ready(own)) {
    return false;
  }
  quire_spin_begin(&own->spin);
  bool spins = true;
  while (spins && !ready(own)) {
    spins = quire_spin_pause(&own->spin);
  }
  if (!spins) {
    quire_sleeper_announce(&own->sleeper);
    if (ready(own)) {
      quire_sleeper_cancel(&own->sleeper);
    } else {
      quire_sleeper_sleep(&own->sleeper);
    }
  }
  quire_spin_end(&own->spin, !spins);
  return !spins;
}

/*
 * Systems like to wake a thread on the processor of the one that wakes it. There it would take
 * turns with the caller in place of sharing its work, or spin against it.
 */
static void leave_caller(slot *own) {
  quire_pool *pool = own->pool;
  int at = quire_host_processor();
  if (at >= 0 && at == atomic_load_explicit(&pool->processor, memory_order_relaxed) &&
      !pool->crowded && own->spin.seen - own->moved > MOVE_AGAIN) {
    own->moved = own->spin.seen;
    quire_host_leave_processor(at);
  }
}

static void *thread_main(void *user) {
  slot *own = user;
  quire_pool *pool = own->pool;
  size_t self = (size_t)((slot_room *)own - pool->slots);
  while (!atomic_load(&own->closing)) {
    if (wait_until(own, has_work)) {
      leave_caller(own);
    }
    work(pool, self);
  }
  return NULL;
}

/* ---- calls ---- */

static void run_round(quire_pool *pool, quire_task_function *task, void *task_user, size_t base,
                      uint32_t count) {
  size_t threads = pool->threads < count ? pool->threads : count;
  atomic_store_explicit(&pool->pending, count, memory_order_relaxed);
  for (size_t i = threads; i-- > 0;) {
    slot *one = &pool->slots[i].one;
    one->task = task;
    one->task_user = task_user;
    one->base = base;
    uint64_t range = pack_range((uint32_t)((uint64_t)count * i / threads),
                                (uint32_t)((uint64_t)count * (i + 1) / threads));
    atomic_store(&one->range, range);
    if (i > 0) {
      quire_sleeper_wake(&one->sleeper);
    }
  }
  work(pool, 0);
  while (!is_done(&pool->slots[0].one)) {
    (void)wait_until(&pool->slots[0].one, is_done);
  }
}

void quire_pool_parallel_for(void *user, quire_task_function *task, void *task_user, size_t count) {
  quire_pool *pool = user;
  pthread_mutex_lock(&pool->turn);
  int at = quire_host_processor();
  if (at != atomic_load_explicit(&pool->processor, memory_order_relaxed)) {
    atomic_store_explicit(&pool->processor, at, memory_order_relaxed);
  }
  for (size_t base = 0; base < count; base += ROUND_ITEMS) {
    size_t left = count - base;
    run_round(pool, task, task_user, base, (uint32_t)(left < ROUND_ITEMS ? left : ROUND_ITEMS));
  }
  pthread_mutex_unlock(&pool->turn);
}

/* ---- life ---- */

static void free_pool(quire_pool *pool) {
  quire_dealloc(pool->allocator, pool->slots, pool->threads * sizeof(*pool->slots), APART_BYTES);
  quire_dealloc(pool->allocator, pool, sizeof(*pool), APART_BYTES);
}

static quire_pool *allocate_pool(const quire_allocator *allocator, size_t threads) {
  size_t bytes = 0;
  quire_pool *pool = quire_alloc(allocator, sizeof(*pool), APART_BYTES);
  if (pool == NULL) {
    return NULL;
  }
  memset(pool, 0, sizeof(*pool));
  pool->allocator = allocator;
  pool->threads = threads;
  if (quire_mul_size(threads, sizeof(*pool->slots), &bytes)) {
    pool->slots = quire_alloc(allocator, bytes, APART_BYTES);
  }
  if (pool->slots == NULL) {
    quire_dealloc(allocator, pool, sizeof(*pool), APART_BYTES);
    return NULL;
  }
  memset(pool->slots, 0, bytes);
  return pool;
}

static void destroy_sleepers(quire_pool *pool, size_t count) {
  for (size_t i = 0; i < count; i++) {
    quire_sleeper_destroy(&pool->slots[i].one.sleeper);
  }
}

static bool init_shared(quire_pool *pool) {
  pool->crowded = pool->threads > quire_host_processors();
  atomic_init(&pool->processor, -1);
  atomic_init(&pool->pending, 0);
  for (size_t i = 0; i < pool->threads; i++) {
    slot *one = &pool->slots[i].one;
    one->pool = pool;
    atomic_init(&one->range, 0);
    atomic_init(&one->closing, false);
    quire_spin_init(&one->spin, i == 0 ? SPIN_WITHIN : SPIN_BETWEEN, pool->crowded);
    if (!quire_sleeper_init(&one->sleeper)) {
      destroy_sleepers(pool, i);
      return false;
    }
  }
  if (pthread_mutex_init(&pool->turn, NULL) != 0) {
    destroy_sleepers(pool, pool->threads);
    return false;
  }
  return true;
}

static bool start_threads(quire_pool *pool) {
  for (; pool->started < pool->threads - 1; pool->started++) {
    slot *one = &pool->slots[pool->started + 1].one;
    if (pthread_create(&one->thread, NULL, thread_main, one) != 0) {
      return false;
    }
  }
  return true;
}

quire_status quire_pool_create(const quire_allocator *allocator, size_t threads, quire_pool **pool,
                               quire_error *error) {
  *pool = NULL;
  quire_pool *made = allocate_pool(allocator, threads);
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  if (!init_shared(made)) {
    free_pool(made);
    return quire_fail(error, QUIRE_DEVICE, NULL, "cpu", "the locks of a pool cannot be made");
  }
  if (!start_threads(made)) {
    quire_pool_destroy(made);
    return quire_fail(error, QUIRE_DEVICE, NULL, "cpu", "a pool of %zu threads does not start",
                      threads);
  }
  *pool = made;
  return QUIRE_OK;
}

void quire_pool_destroy(quire_pool *pool) {
  if (pool == NULL) {
    return;
  }
  for (size_t i = 1; i <= pool->started; i++) {
    atomic_store(&pool->slots[i].one.closing, true);
    quire_sleeper_wake(&pool->slots[i].one.sleeper);
  }
  for (size_t i = 1; i <= pool->started; i++) {
    pthread_join(pool->slots[i].one.thread, NULL);
  }
  pthread_mutex_destroy(&pool->turn);
  destroy_sleepers(pool, pool->threads);
  free_pool(pool);
}

size_t quire_pool_threads(const quire_pool *pool) {
  return pool->threads;
}
