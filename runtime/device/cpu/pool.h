/*
 * The threads of a CPU device. A call's items are cut into one range per thread, always the same
 * way, so that a thread finds in its caches what it left there; a thread takes its own range from
 * the front and, when that is empty, the others' from the back. The caller works too, and waits
 * only for items that another thread has begun: a thread that the system does not run keeps nobody.
 *
 * Between calls threads spin for a while and then sleep (spin.h). No lock, no allocation; all that
 * threads share is atomic, so ThreadSanitizer understands it.
 */
#ifndef QUIRE_DEVICE_POOL_H
#define QUIRE_DEVICE_POOL_H

#include <stddef.h>

#include "alloc.h"
#include "quire/device.h"
#include "quire/status.h"

typedef struct quire_pool quire_pool;

/* threads counts the caller's, and is at least 1. Statuses: OUT_OF_MEMORY, DEVICE. */
quire_status quire_pool_create(const quire_allocator *allocator, size_t threads, quire_pool **pool,
                               quire_error *error);
/* NULL is allowed. */
void quire_pool_destroy(quire_pool *pool);
/* Threads that work, the caller's included. */
size_t quire_pool_threads(const quire_pool *pool);
/* An executor's parallel_for with the pool as `user`. Calls from several threads take turns. A task
   must not use the pool itself. Allocates nothing. */
void quire_pool_parallel_for(void *user, quire_task_function *task, void *task_user, size_t count);

#endif
