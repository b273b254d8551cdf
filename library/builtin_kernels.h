/* The kernels of this build, folder by folder. */
#ifndef QUIRE_LIBRARY_BUILTIN_KERNELS_H
#define QUIRE_LIBRARY_BUILTIN_KERNELS_H

#include "pass.h"

enum { QUIRE_BUILTIN_KERNEL_LISTS = 6 };

void quire_builtin_kernels(quire_implementation_list lists[QUIRE_BUILTIN_KERNEL_LISTS]);

#endif
