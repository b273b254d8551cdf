/* The context: built-in operators, loaded manifests, and where memory comes from. */
#ifndef QUIRE_CONTEXT_H
#define QUIRE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "quire/export.h"
#include "quire/status.h"
#include "quire/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where the library's own memory comes from. `alignment` is a power of two; allocate returns NULL
 * on failure. deallocate is given what allocate was given. Both may be called from any thread that
 * calls the library, at the same time. Nothing is allocated while a prepared plan runs.
 */
typedef struct quire_allocator {
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*deallocate)(void *user, void *memory, size_t bytes, size_t alignment);
  void *user;
} quire_allocator;

typedef struct quire_context_options {
  size_t struct_size;               /* sizeof(quire_context_options) */
  const quire_allocator *allocator; /* copied; NULL: the C library's */
} quire_context_options;

/* Sets every member to its default. */
QUIRE_API void quire_context_options_init(quire_context_options *options);

/*
 * Owns the built-in operators. Two contexts never see each other. Thread-safe: one context may be
 * used by any number of threads.
 */
typedef struct quire_context quire_context;

/*
 * Makes a context and loads the built-in manifests. options may be NULL.
 * On success *context is the caller's, to be released with quire_context_release(); on failure it
 * is NULL. Statuses: BAD_REQUEST (struct_size), OUT_OF_MEMORY, INTERNAL.
 */
QUIRE_API quire_status quire_context_create(const quire_context_options *options,
                                            quire_context **context, quire_error *error);

/*
 * Gives up the caller's reference; NULL is allowed. Devices, plans and manifests hold references of
 * their own, so the order of releases does not matter.
 */
QUIRE_API void quire_context_release(quire_context *context);

/*
 * An operator: a loaded manifest. Immutable and thread-safe. A built-in one lives as long as its
 * context; one that was loaded by the caller is released by the caller.
 */
typedef struct quire_operator quire_operator;

/*
 * Finds a built-in operator by qualified name: "com.microsoft.PagedAttention",
 * "com.microsoft.LinearAttention", "ai.onnx.LinearAttention", "quire.PagedDecode",
 * "quire.MergeAttentionStates". The bare name is accepted where it is unambiguous ("PagedDecode").
 * NULL if there is none. The result belongs to the context.
 */
QUIRE_API const quire_operator *quire_context_find_operator(const quire_context *context,
                                                            const char *name);

/* Receives a piece of a text. */
typedef void quire_write_function(void *user, const char *text, size_t length);

/* Number of built-in operators, and each of them, in a fixed order; NULL out of range. */
QUIRE_API size_t quire_context_operator_count(const quire_context *context);
QUIRE_API const quire_operator *quire_context_operator(const quire_context *context, size_t index);

/* How quire_operator_load() and quire_operator_lint() are told where text came from and report. */
typedef enum quire_severity { QUIRE_SEVERITY_WARNING = 0, QUIRE_SEVERITY_ERROR = 1 } quire_severity;

typedef struct quire_finding {
  quire_severity severity;
  const char *path;    /* JSON path, "$.variants[2].when[0]" */
  size_t line;         /* line in the text, from 1; 0 if unknown */
  const char *message; /* one line */
} quire_finding;

/* Receives one finding; its texts are valid during the call only. */
typedef void quire_finding_function(void *user, const quire_finding *finding);

/*
 * Loads a kernel manifest (RFC 8259 JSON, `length` bytes, need not end with a zero byte). On
 * success *op is the caller's, to be released with quire_operator_release(); on failure it is NULL
 * and the error's subject is the JSON path of the first fault. Statuses: BAD_MANIFEST,
 * OUT_OF_MEMORY.
 */
QUIRE_API quire_status quire_operator_load(quire_context *context, const char *text, size_t length,
                                           quire_operator **op, quire_error *error);

/*
 * Reports every finding about a manifest, errors and warnings, in the order of the text.
 * Returns QUIRE_OK if there was no error (warnings may have been reported), else BAD_MANIFEST.
 */
QUIRE_API quire_status quire_operator_lint(quire_context *context, const char *text, size_t length,
                                           quire_finding_function *report, void *user,
                                           quire_error *error);

/*
 * Hands the text of a file of a package to `write`, in any number of pieces. `path` is relative to
 * the package's root: "common/sums.wgsl.jinja", never with a leading slash or ".." parts. Returns
 * NOT_FOUND if there is no such file; any other status but QUIRE_OK ends the loading with it.
 */
typedef quire_status quire_package_function(void *user, const char *path,
                                            quire_write_function *write, void *write_user);

/* Where the templates of a manifest's shaders are. */
typedef struct quire_package_options {
  size_t struct_size;
  const char *folder; /* of the manifest in the package; its templates are looked up from there, and
                         includes without a leading dot from the root. NULL or "": the root */
  quire_package_function *read; /* NULL: there are no files */
  void *user;                   /* of read */
} quire_package_options;

QUIRE_API void quire_package_options_init(quire_package_options *options);

/*
 * quire_operator_load() and quire_operator_lint() for a manifest with templates. All files are read
 * during the call. A template that is missing or faulty does not keep a manifest from loading (it
 * can be planned with, and its shaders refuse to be rendered); to lint it is an error. Statuses:
 * also those of `read`.
 */
QUIRE_API quire_status quire_operator_load_package(quire_context *context, const char *text,
                                                   size_t length,
                                                   const quire_package_options *options,
                                                   quire_operator **op, quire_error *error);
QUIRE_API quire_status quire_operator_lint_package(quire_context *context, const char *text,
                                                   size_t length,
                                                   const quire_package_options *options,
                                                   quire_finding_function *report, void *user,
                                                   quire_error *error);

/* Gives up an operator that was loaded by the caller; NULL is allowed. Plans keep it alive. */
QUIRE_API void quire_operator_release(quire_operator *op);

/* Qualified name, "com.microsoft.PagedAttention"; since-version; number of variants. */
QUIRE_API const char *quire_operator_name(const quire_operator *op);
QUIRE_API int64_t quire_operator_since_version(const quire_operator *op);
QUIRE_API size_t quire_operator_variant_count(const quire_operator *op);
/* Identity of a variant and the backend that it is for ("cpu", "webgpu"); NULL out of range. */
QUIRE_API const char *quire_operator_variant_name(const quire_operator *op, size_t index);
QUIRE_API const char *quire_operator_variant_backend(const quire_operator *op, size_t index);

/* One place for a tensor in a call. Slots are numbered: inputs in the manifest's order, then
 * outputs. */
typedef struct quire_slot {
  const char *name; /* operator's name: "query", "key_cache_out" */
  const char *key;  /* manifest key */
  int is_output;    /* 1 for an output */
  int is_optional;  /* 1 if it may be absent */
  int32_t alias;    /* output side of an in-place tensor: slot of its input side; else -1 */
} quire_slot;

QUIRE_API size_t quire_operator_slot_count(const quire_operator *op);
/* Fills *slot; returns BAD_REQUEST out of range. Its texts live as long as the operator. */
QUIRE_API quire_status quire_operator_slot(const quire_operator *op, size_t index,
                                           quire_slot *slot);
/* Slot of an input or output by operator name, or -1. */
QUIRE_API int32_t quire_operator_find_slot(const quire_operator *op, const char *name,
                                           int is_output);

typedef enum quire_value_type {
  QUIRE_VALUE_TYPE_NONE = 0, /* no value; as a declared kind: any */
  QUIRE_VALUE_TYPE_INT = 1,
  QUIRE_VALUE_TYPE_FLOAT = 2,
  QUIRE_VALUE_TYPE_STRING = 3,
  QUIRE_VALUE_TYPE_BOOL = 4
} quire_value_type;

/* A named scalar: attribute, tunable, adapter property. Only the member that `type` names counts.
 */
typedef struct quire_named_value {
  const char *name;
  quire_value_type type;
  int64_t i;     /* INT, and BOOL as 0 or 1 */
  double f;      /* FLOAT */
  const char *s; /* STRING, ends with a zero byte */
} quire_named_value;

QUIRE_API size_t quire_operator_attribute_count(const quire_operator *op);
/*
 * Fills *attribute with the declared name and its default (type NONE if there is none), and *type
 * with the declared kind. type may be NULL. BAD_REQUEST out of range.
 */
QUIRE_API quire_status quire_operator_attribute(const quire_operator *op, size_t index,
                                                quire_named_value *attribute,
                                                quire_value_type *type);

/*
 * Constants that a request may set: name, the manifest's default, and what a search may try, the
 * default among it. BAD_REQUEST out of range; a tunable without choices has 0 of them.
 */
QUIRE_API size_t quire_operator_tunable_count(const quire_operator *op);
QUIRE_API quire_status quire_operator_tunable(const quire_operator *op, size_t index,
                                              quire_named_value *tunable, size_t *choice_count);
QUIRE_API quire_status quire_operator_tunable_choice(const quire_operator *op, size_t index,
                                                     size_t choice, quire_named_value *value);

/* Library version, "0.1.0". */
QUIRE_API const char *quire_version(void);

#ifdef __cplusplus
}
#endif

#endif
