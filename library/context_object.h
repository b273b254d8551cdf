/* What a context is made of. */
#ifndef QUIRE_LIBRARY_CONTEXT_OBJECT_H
#define QUIRE_LIBRARY_CONTEXT_OBJECT_H

#include "backend.h"
#include "builtin_kernels.h"
#include "template.h"

enum { QUIRE_MOST_BUILTIN_OPERATORS = 8, QUIRE_LONGEST_FOLDER = 64 };

struct quire_context {
  quire_owner owner; /* first, so that the engine's owner is the context */
  quire_allocator allocator;
  atomic_size_t references; /* of the caller, devices and loaded operators */
  quire_implementation_list kernels[QUIRE_BUILTIN_KERNEL_LISTS];
  quire_registry registry;
  quire_operator operators[QUIRE_MOST_BUILTIN_OPERATORS];
  quire_template_source templates[QUIRE_MOST_BUILTIN_OPERATORS];
  char folders[QUIRE_MOST_BUILTIN_OPERATORS][QUIRE_LONGEST_FOLDER]; /* of their templates */
  size_t operator_count;
};

#endif
