/*
 * Failures on order: which allocation or call of the system fails, and what is left afterwards.
 *
 * Everything that the library takes from the allocator, and jansson from its own, counts as memory;
 * the files and threads that it asks the system for (fault_system.c) count as system.
 */
#ifndef QUIRE_TESTS_FAULT_H
#define QUIRE_TESTS_FAULT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quire/quire.h"

typedef enum fault_kind { FAULT_MEMORY, FAULT_SYSTEM, FAULT_WEBGPU } fault_kind;

/* From now on calls of this kind are counted; number `at` fails (0: none), and all after it unless
   `once`. With at = 0 it is noted which calls come from a place not seen before. */
void fault_arm(fault_kind kind, size_t at, bool once);
/* Nothing fails any more. Returns how many calls were counted. */
size_t fault_disarm(void);
/* How many so far. */
size_t fault_count(void);
/* While paused nothing is counted and nothing fails. */
void fault_pause(bool paused);
/* Whether something has failed since fault_arm(). */
bool fault_fired(void);
/* With QUIRE_FAULT_TRACE set: where the last failure was, for addr2line. */
void fault_print_failure(void);
/* After a count: whether call number `at` came by a way (a call stack) that no earlier one took. */
bool fault_is_new(size_t at);
/* Call stacks seen so far, all together. */
size_t fault_stack_count(void);
/* Writes the stacks to the file that QUIRE_FAULT_SITES names, if it is set: visited_sites.py. */
void fault_write_stacks(void);

/* How many of the calls that were counted went to the C library, around any allocator. */
size_t fault_plain_count(void);

/* For the hooks: counts one call of the kind; true if it is to fail. */
bool fault_point(fault_kind kind);
bool fault_plain_point(void);

/* Checks that what is given back is what was given, and counts what is outstanding. */
extern const quire_allocator fault_allocator;
size_t fault_live(void);
/* Makes jansson ask here too. */
void fault_hook_jansson(void);

#endif
