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

#endif
