#include "float_mode.h"

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>

/* MXCSR: FTZ, rounding, exception masks, DAZ; the six low bits are sticky exception flags. */
enum { MXCSR_CONTROL = 0xffc0, MXCSR_DEFAULT = 0x1f80 };

static uint64_t read_mode(void) {
  return _mm_getcsr();
}

static void write_mode(uint64_t mode) {
  _mm_setcsr((unsigned)mode);
}

static bool is_default(uint64_t mode) {
  return (mode & MXCSR_CONTROL) == MXCSR_DEFAULT;
}

static const uint64_t default_mode = MXCSR_DEFAULT;

#elif defined(__aarch64__) && defined(__GNUC__)

/* FPCR: 0 is round to nearest, subnormals kept, no traps. Its flags live elsewhere. */
static uint64_t read_mode(void) {
  uint64_t mode = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}

static void write_mode(uint64_t mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

static bool is_default(uint64_t mode) {
  return mode == 0;
}

static const uint64_t default_mode = 0;

#else

/* No known mode register: C's own default is what there is. */
static uint64_t read_mode(void) {
  return 0;
}

static void write_mode(uint64_t mode) {
  (void)mode;
}

static bool is_default(uint64_t mode) {
  (void)mode;
  return true;
}

static const uint64_t default_mode = 0;

#endif

quire_float_mode quire_float_mode_enter(void) {
  quire_float_mode mode = {read_mode(), false};
  if (!is_default(mode.saved)) {
    mode.changed = true;
    write_mode(default_mode);
  }
  return mode;
}

void quire_float_mode_leave(quire_float_mode mode) {
  if (mode.changed) {
    write_mode(mode.saved);
  }
}
