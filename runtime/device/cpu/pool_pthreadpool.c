#include <pthreadpool.h>

#include "cpu_host.h"
#include "error.h"
#include "pool.h"

struct quire_pool {
  const quire_allocator *allocator;
  pthreadpool_t threads; /* NULL: one thread, the caller's */
  uint32_t flags;
};

quire_status quire_pool_create(const quire_allocator *allocator, size_t threads, quire_pool **pool,
                               quire_error *error) {
  *pool = NULL;
  quire_pool *made = quire_alloc_array(allocator, 1, sizeof(*made));
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  made->allocator = allocator;
  /* Threads spin a while after a call, so that the next one starts at once. Where there are more of
     them than processors that only takes time from those that work. */
  made->flags = threads > quire_host_processors() ? PTHREADPOOL_FLAG_YIELD_WORKERS : 0;
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
  quire_pool *own = user;
  /* Locks for itself, and leaves the floating-point mode alone: the tasks set it. */
  pthreadpool_parallelize_1d(own->threads, task, task_user, count, own->flags);
}
