/*
 * The floating-point mode of the calling thread. Kernels rely on the default one: round to nearest
 * even, subnormals kept, nothing traps (NU-1, NU-2). A caller may have set another, such as
 * flush-to-zero.
 */
#ifndef QUIRE_DEVICE_FLOAT_MODE_H
#define QUIRE_DEVICE_FLOAT_MODE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct quire_float_mode {
  uint64_t saved;
  bool changed; /* the default mode was not set: leaving restores `saved` */
} quire_float_mode;

/* Sets the default mode on this thread. Costs a few nanoseconds when it is set already. */
quire_float_mode quire_float_mode_enter(void);
/* Restores what enter found, exception flags included, unless nothing was changed. */
void quire_float_mode_leave(quire_float_mode mode);

#endif
