#include "bench_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

static size_t whole_pages(size_t bytes) {
  return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* Room for one page more, so that the start can be moved to a boundary. */
void *quire_bench_memory_new(size_t wanted) {
  const size_t bytes = whole_pages(wanted);
  const size_t size = bytes + HUGE_PAGE;
  unsigned char *base =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return NULL;
  }
  unsigned char *start = base + (HUGE_PAGE - ((uintptr_t)base & (HUGE_PAGE - 1))) % HUGE_PAGE;
  if (start > base) {
    (void)munmap(base, (size_t)(start - base));
  }
  if (start + bytes < base + size) {
    (void)munmap(start + bytes, (size_t)(base + size - (start + bytes)));
  }
#ifdef MADV_HUGEPAGE
  (void)madvise(start, bytes, MADV_HUGEPAGE);
#endif
  return start;
}

void quire_bench_memory_release(void *memory, size_t bytes) {
  if (memory) {
    (void)munmap(memory, whole_pages(bytes));
  }
}

const char *quire_bench_memory_pages(void) {
  static const char *const words[] = {"always", "madvise", "never"};
  char line[64] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file) {
    const size_t length = fread(line, 1, sizeof line - 1, file);
    line[length] = 0;
    (void)fclose(file);
  }
  const char *chosen = strchr(line, '[');
  for (size_t i = 0; chosen && i < sizeof words / sizeof *words; ++i) {
    if (!strncmp(chosen + 1, words[i], strlen(words[i]))) {
      return words[i];
    }
  }
  return "unknown";
}

/* xorshift64*. */
uint64_t quire_bench_random_next(bench_random *random) {
  uint64_t x = random->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  random->state = x;
  return x * UINT64_C(0x2545F4914F6CDD1D);
}

int64_t quire_bench_random_below(bench_random *random, int64_t bound) {
  return (int64_t)(quire_bench_random_next(random) >> 1) % bound;
}

/* The sum of four uniform numbers is near enough to normal here, and quick. */
float quire_bench_random_normal(bench_random *random, float deviation) {
  const uint64_t bits = quire_bench_random_next(random);
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += (float)(bits >> (16 * i) & 0xffff) * 0x1p-16f - 0.5f;
  }
  return sum * 1.7320508f * deviation;
}

static uint32_t bits_of(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint16_t to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Adding 2^k with the right k rounds the fraction to nearest even at the wanted bit. */
static uint16_t to_float16(float value) {
  const uint32_t sign = bits_of(value) >> 16 & 0x8000;
  float magnitude = fabsf(value);
  if (magnitude >= 65520.0f) {
    return (uint16_t)(sign | 0x7c00);
  }
  if (magnitude < 0x1p-14f) {
    return (uint16_t)(sign | (bits_of(magnitude + 0.5f) - bits_of(0.5f)));
  }
  const uint32_t bits = bits_of(magnitude);
  const uint32_t rounded = bits + 0xfff + (bits >> 13 & 1);
  return (uint16_t)(sign | ((rounded - (UINT32_C(112) << 23)) >> 13));
}

void quire_bench_store(quire_dtype dtype, void *data, size_t index, float value) {
  if (dtype == QUIRE_FLOAT32) {
    ((float *)data)[index] = value;
  } else if (dtype == QUIRE_FLOAT16) {
    ((uint16_t *)data)[index] = to_float16(value);
  } else if (dtype == QUIRE_BFLOAT16) {
    ((uint16_t *)data)[index] = to_bfloat16(value);
  } else if (dtype == QUIRE_INT8) {
    ((int8_t *)data)[index] = (int8_t)value;
  }
}

void quire_bench_fill_normal(bench_random *random, quire_dtype dtype, void *data, size_t count,
                             float deviation) {
  for (size_t i = 0; i < count; ++i) {
    const float value = dtype == QUIRE_INT8 ? (float)(quire_bench_random_below(random, 255) - 127)
                                            : quire_bench_random_normal(random, deviation);
    quire_bench_store(dtype, data, i, value);
  }
}
