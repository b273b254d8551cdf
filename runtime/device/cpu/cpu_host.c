#include "cpu_host.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

size_t quire_host_processors(void) {
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) > 0) {
    return (size_t)CPU_COUNT(&allowed);
  }
#endif
#if defined(_SC_NPROCESSORS_ONLN)
  long online = sysconf(_SC_NPROCESSORS_ONLN); /* also where a mask is too small for the machine */
  if (online > 0) {
    return (size_t)online;
  }
#endif
  return 1;
}

int quire_host_processor(void) {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

void quire_host_leave_processor(int processor) {
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || processor < 0 ||
      processor >= CPU_SETSIZE) {
    return;
  }
  cpu_set_t others = allowed;
  CPU_CLR((size_t)processor, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0) {
    (void)sched_setaffinity(0, sizeof(allowed), &allowed);
  }
#else
  (void)processor;
#endif
}

/* arch_prctl(2): the parts of the processor's state that the kernel saves on demand. */
bool quire_host_offers_tiles(void) {
#if defined(__linux__) && defined(__x86_64__)
  enum { GET_SUPPORTED = 0x1021, TILE_DATA = 18 };
  unsigned long long supported = 0;
  return syscall(SYS_arch_prctl, GET_SUPPORTED, &supported) == 0 &&
         (supported >> TILE_DATA & 1) != 0;
#else
  return false;
#endif
}

/* ---- caches ---- */

#if defined(__linux__)

/* First line of a file of the first processor's cache `index`; false if there is none. */
static bool read_line(int index, const char *file, char *line, int size) {
  char path[96];
  (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
  FILE *stream = fopen(path, "r");
  if (stream == NULL) {
    return false;
  }
  bool read = fgets(line, size, stream) != NULL;
  (void)fclose(stream); /* it was only read */
  return read;
}

/* "32K", "8M" or plain bytes. */
static size_t parse_size(const char *text) {
  char *end = NULL;
  unsigned long long value = strtoull(text, &end, 10);
  unsigned shift = *end == 'K' ? 10 : (*end == 'M' ? 20 : 0);
  return value > SIZE_MAX >> shift ? 0 : (size_t)value << shift;
}

static size_t cache_of_sys(int level) {
  char line[64];
  for (int index = 0; index < 8; index++) {
    if (!read_line(index, "level", line, sizeof(line)) || strtol(line, NULL, 10) != level ||
        !read_line(index, "type", line, sizeof(line)) || strncmp(line, "Instruction", 11) == 0) {
      continue;
    }
    return read_line(index, "size", line, sizeof(line)) ? parse_size(line) : 0;
  }
  return 0;
}

#else

static size_t cache_of_sys(int level) {
  (void)level;
  return 0;
}

#endif

#if defined(_SC_LEVEL1_DCACHE_SIZE)

static size_t cache_of_sysconf(int level) {
  static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  long bytes = sysconf(names[level - 1]);
  return bytes > 0 ? (size_t)bytes : 0;
}

#else

static size_t cache_of_sysconf(int level) {
  (void)level;
  return 0;
}

#endif

size_t quire_host_cache_bytes(int level) {
  if (level < 1 || level > 3) {
    return 0;
  }
  /* sysconf may add up the caches of all cores. */
  size_t bytes = cache_of_sys(level);
  return bytes > 0 ? bytes : cache_of_sysconf(level);
}

/* ---- name ---- */

#if defined(__x86_64__) && defined(__GNUC__)

/* The brand string: 48 bytes in leaves 0x80000002 to 0x80000004. */
static void brand(char text[49]) {
  memset(text, 0, 49);
  for (unsigned leaf = 0; leaf < 3; leaf++) {
    unsigned words[4] = {0};
    if (__get_cpuid(0x80000002u + leaf, &words[0], &words[1], &words[2], &words[3]) == 0) {
      text[0] = '\0';
      return;
    }
    memcpy(text + leaf * sizeof(words), words, sizeof(words));
  }
}

#else

static void brand(char text[49]) {
  text[0] = '\0';
}

#endif

void quire_host_model(char *name, size_t size) {
  char text[49];
  brand(text);
  const char *first = text;
  while (isspace((unsigned char)*first)) {
    first++;
  }
  size_t length = strlen(first);
  while (length > 0 && isspace((unsigned char)first[length - 1])) {
    length--;
  }
  length = length < size ? length : size - 1;
  memcpy(name, first, length);
  name[length] = '\0';
}
