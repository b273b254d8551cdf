/* Symbol visibility of the public interface. */
#ifndef QUIRE_EXPORT_H
#define QUIRE_EXPORT_H

#if defined(QUIRE_STATIC)
#define QUIRE_API
#elif defined(_WIN32) && defined(QUIRE_BUILD)
#define QUIRE_API __declspec(dllexport)
#elif defined(_WIN32)
#define QUIRE_API __declspec(dllimport)
#elif defined(__GNUC__)
#define QUIRE_API __attribute__((visibility("default")))
#else
#define QUIRE_API
#endif

#endif
