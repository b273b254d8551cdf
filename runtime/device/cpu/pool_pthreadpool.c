#include <pthreadpool.h>

#include "error.h"
#include "pool.h"

struct quire_pool {
  const quire_allocator *allocator;
  pthreadpool_t threads; /* NULL: one thread, the caller's */
};

quire_status quire_pool_create(const quire_allocator *allocator, size_t threads, quire_pool **pool,
                               quire_error *error) {
  *pool = NULL;
  quire_pool *made = quire_alloc_array(allocator, 1, sizeof(*made));
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  made->allocator = allocator;
  if (threads > 1) {
    made->threads = pthreadpool_create(threads);
    if (made->threads == NULL) {
      quire_pool_destroy(made);
      return quire_fail(error, QUIRE_DEVICE, NULL, "cpu", "a pool of %zu threads does not start",
                        threads);
    }
  }
  *pool = made;
  return QUIRE_OK;
}

void quire_pool_destroy(quire_pool *pool) {
  if (pool == NULL) {
    return;
  }
  if (pool->threads != NULL) {
    pthreadpool_destroy(pool->threads);
  }
  quire_dealloc(pool->allocator, pool, sizeof(*pool), QUIRE_ALLOC_ALIGNMENT);
}

size_t quire_pool_threads(const quire_pool *pool) {
  return pool->threads == NULL ? 1 : pthreadpool_get_threads_count(pool->threads);
}

void quire_pool_parallel_for(void *user, quire_task_function *task, void *task_user, size_t count) {
  /* Locks for itself. Without flags it leaves the floating-point mode alone: the tasks set it. */
  pthreadpool_parallelize_1d(((quire_pool *)user)->threads, task, task_user, count, 0);
}
