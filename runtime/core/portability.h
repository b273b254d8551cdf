/* The one place for what differs between compilers and C libraries. */
#ifndef QUIRE_CORE_PORTABILITY_H
#define QUIRE_CORE_PORTABILITY_H

#if defined(__MINGW32__)
#define QUIRE_PRINTF(at, first) __attribute__((format(gnu_printf, at, first)))
#elif defined(__GNUC__)
#define QUIRE_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define QUIRE_PRINTF(at, first)
#endif

#if defined(__GNUC__)
#define QUIRE_LIKELY(x) __builtin_expect(!!(x), 1)
#define QUIRE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define QUIRE_LIKELY(x) (x)
#define QUIRE_UNLIKELY(x) (x)
#endif

/* For loops that wait for another thread: lets the processor's other work go first. */
#if defined(_MSC_VER)
#include <intrin.h>
#if defined(_M_ARM64)
#define QUIRE_PAUSE() __yield()
#else
#define QUIRE_PAUSE() _mm_pause()
#endif
#elif defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define QUIRE_PAUSE() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__)
#define QUIRE_PAUSE() __asm__ volatile("isb" ::: "memory") /* a yield takes no time there */
#else
#define QUIRE_PAUSE() ((void)0)
#endif

#endif
