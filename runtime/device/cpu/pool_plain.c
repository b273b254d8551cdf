#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "pool.h"

/* Everything but `next` and `turn` is guarded by `lock`. */
struct quire_pool {
  const quire_allocator *allocator;
  pthread_mutex_t turn; /* held by the caller whose call the threads work on */
  pthread_mutex_t lock;
  pthread_cond_t begin; /* a call has begun, or the pool ends */
  pthread_cond_t end;   /* the last thread has left the call */
  uint64_t call;        /* number of calls begun */
  bool closing;
  quire_task_function *task;
  void *task_user;
  size_t count;
  atomic_size_t next; /* first index that nobody has taken */
  size_t busy;        /* workers that have not left the call */
  size_t worker_count;
  size_t worker_room;
  pthread_t *workers;
};

static void work(quire_pool *pool, quire_task_function *task, void *task_user, size_t count) {
  for (;;) {
    size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
    if (index >= count) {
      return;
    }
    task(task_user, index);
  }
}

static void *worker_main(void *user) {
  quire_pool *pool = user;
  uint64_t seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (pool->call == seen && !pool->closing) {
      pthread_cond_wait(&pool->begin, &pool->lock);
    }
    if (pool->closing) {
      break;
    }
    seen = pool->call;
    quire_task_function *task = pool->task;
    void *task_user = pool->task_user;
    size_t count = pool->count;
    pthread_mutex_unlock(&pool->lock);
    work(pool, task, task_user, count);
    pthread_mutex_lock(&pool->lock);
    if (--pool->busy == 0) {
      pthread_cond_signal(&pool->end);
    }
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

static bool start_workers(quire_pool *pool) {
  while (pool->worker_count < pool->worker_room) {
    if (pthread_create(&pool->workers[pool->worker_count], NULL, worker_main, pool) != 0) {
      return false;
    }
    pool->worker_count++;
  }
  return true;
}

static bool start_locks(quire_pool *pool) {
  if (pthread_mutex_init(&pool->turn, NULL) != 0) {
    return false;
  }
  if (pthread_mutex_init(&pool->lock, NULL) != 0) {
    pthread_mutex_destroy(&pool->turn);
    return false;
  }
  if (pthread_cond_init(&pool->begin, NULL) != 0) {
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->turn);
    return false;
  }
  if (pthread_cond_init(&pool->end, NULL) != 0) {
    pthread_cond_destroy(&pool->begin);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->turn);
    return false;
  }
  return true;
}

static void free_pool(quire_pool *pool) {
  const quire_allocator *allocator = pool->allocator;
  quire_dealloc(allocator, pool->workers, pool->worker_room * sizeof(*pool->workers),
                QUIRE_ALLOC_ALIGNMENT);
  quire_dealloc(allocator, pool, sizeof(*pool), QUIRE_ALLOC_ALIGNMENT);
}

quire_status quire_pool_create(const quire_allocator *allocator, size_t threads, quire_pool **pool,
                               quire_error *error) {
  *pool = NULL;
  quire_pool *made = quire_alloc_array(allocator, 1, sizeof(*made));
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  made->allocator = allocator;
  atomic_init(&made->next, 0);
  made->workers = quire_alloc_array(allocator, threads - 1, sizeof(*made->workers));
  if (made->workers == NULL) {
    free_pool(made);
    return quire_fail_memory(error);
  }
  made->worker_room = threads - 1;
  if (!start_locks(made)) {
    free_pool(made);
    return quire_fail(error, QUIRE_DEVICE, NULL, "cpu", "the locks of a pool cannot be made");
  }
  if (!start_workers(made)) {
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
  pthread_mutex_lock(&pool->lock);
  pool->closing = true;
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
  for (size_t i = 0; i < pool->worker_count; i++) {
    pthread_join(pool->workers[i], NULL);
  }
  pthread_cond_destroy(&pool->end);
  pthread_cond_destroy(&pool->begin);
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->turn);
  free_pool(pool);
}

size_t quire_pool_threads(const quire_pool *pool) {
  return pool->worker_room + 1;
}

void quire_pool_parallel_for(void *user, quire_task_function *task, void *task_user, size_t count) {
  quire_pool *pool = user;
  pthread_mutex_lock(&pool->turn);
  pthread_mutex_lock(&pool->lock);
  pool->task = task;
  pool->task_user = task_user;
  pool->count = count;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  pool->busy = pool->worker_count;
  pool->call++;
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
  work(pool, task, task_user, count);
  pthread_mutex_lock(&pool->lock);
  while (pool->busy > 0) {
    pthread_cond_wait(&pool->end, &pool->lock);
  }
  pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pool->turn);
}
