/* Arithmetic on sizes that cannot overflow unseen. Each returns false, leaving *out alone, on
 * overflow. */
#ifndef QUIRE_CORE_CHECKED_H
#define QUIRE_CORE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool quire_add_i64(int64_t a, int64_t b, int64_t *out);
bool quire_sub_i64(int64_t a, int64_t b, int64_t *out);
bool quire_mul_i64(int64_t a, int64_t b, int64_t *out);
bool quire_add_size(size_t a, size_t b, size_t *out);
bool quire_mul_size(size_t a, size_t b, size_t *out);
/* Rounds up to a multiple of alignment (a power of two). */
bool quire_align_size(size_t size, size_t alignment, size_t *out);
/* Product of `count` dimensions >= 0; 1 for none. A zero anywhere gives 0, whatever the others. */
bool quire_count_elements(const int64_t *shape, size_t count, int64_t *out);

#endif
