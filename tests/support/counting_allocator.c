#include "counting_allocator.h"

#include <stdlib.h>
#include <string.h>

static void *counting_allocate(void *user, size_t bytes, size_t alignment) {
  counting_allocator *counting = user;
  if (atomic_fetch_add(&counting->requests, 1) + 1 == counting->fail_at) {
    return NULL;
  }
  const size_t wanted = bytes > 0 ? bytes : 1;
  void *memory = alignment <= _Alignof(max_align_t)
                     ? malloc(wanted) /* no byte more, for AddressSanitizer */
                     : aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
  if (memory != NULL) {
    if (!counting->raw) {
      memset(memory, 0xa5, bytes);
    }
    atomic_fetch_add(&counting->live, 1);
    atomic_fetch_add(&counting->bytes, bytes);
  }
  return memory;
}

static void counting_deallocate(void *user, void *memory, size_t bytes, size_t alignment) {
  (void)alignment;
  counting_allocator *counting = user;
  if (memory != NULL) {
    atomic_fetch_sub(&counting->live, 1);
    atomic_fetch_sub(&counting->bytes, bytes);
  }
  free(memory);
}

void counting_allocator_init(counting_allocator *counting) {
  counting->allocator = (quire_allocator){counting_allocate, counting_deallocate, counting};
  atomic_init(&counting->requests, 0);
  atomic_init(&counting->live, 0);
  atomic_init(&counting->bytes, 0);
  counting->fail_at = 0;
  counting->raw = false;
}
