/* How the command line reports what went wrong: one line that begins with "quire:". */
#ifndef QUIRE_TOOL_FAILURE_H
#define QUIRE_TOOL_FAILURE_H

#include "quire/status.h"

/* Exit statuses. */
enum {
  QUIRE_EXIT_OK = 0,
  QUIRE_EXIT_MISMATCH = 1, /* check: a result is not the expected one */
  QUIRE_EXIT_FAILURE = 2,  /* refused, unreadable or used wrongly */
  QUIRE_EXIT_REFUSED = 3   /* explain: the refusal was printed */
};

/* Fills *error (which may be NULL) and returns `status`. The format is printf's. */
quire_status quire_failure_set(quire_error *error, quire_status status, const char *format, ...);

/*
 * Prints "quire: WHERE: STATUS: message" on standard error; where may be NULL. Control characters,
 * which names inside a hostile file may hold, are printed as '?': it stays one line.
 */
void quire_failure_print(const char *where, const quire_error *error);

/* The same for wrong usage, without a status: "quire: message". Returns QUIRE_EXIT_FAILURE. */
int quire_failure_usage(const quire_error *error);

/* Writes "STATUS RULE: message" into text, always ended by a zero byte; one line, as above. */
void quire_failure_text(const quire_error *error, char *text, size_t size);

/* Prints a text on standard output, control characters as '?'. */
void quire_failure_put(const char *text);

/*
 * Flushes standard output; if that or an earlier write failed (a full disk), says so and returns
 * QUIRE_EXIT_FAILURE, else `code`.
 */
int quire_failure_finish_output(int code);

#endif
