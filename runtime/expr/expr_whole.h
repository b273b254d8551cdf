/* Whether a number that is needed whole can have a fraction: for lint. */
#ifndef QUIRE_EXPR_EXPR_WHOLE_H
#define QUIRE_EXPR_EXPR_WHOLE_H

#include "expr.h"

/* Ordered: what is made of several is as weak as the weakest. */
typedef enum quire_wholeness {
  QUIRE_WHOLE,             /* a whole number, or an error */
  QUIRE_WHOLENESS_UNKNOWN, /* depends on the request in ways that the text does not show */
  QUIRE_FRACTIONAL         /* a quotient or a literal with a fraction arrives */
} quire_wholeness;

/* Says what is known of the value of a derived name, attribute, tunable, ... */
typedef quire_wholeness quire_wholeness_function(void *user, const quire_ref *ref);

/* A list is as whole as its elements. known_ref may be NULL: nothing is known. *out_of_memory is
   set where the answer is unknown for want of memory. */
quire_wholeness quire_expr_wholeness(const quire_expr *expr, quire_arena *arena,
                                     quire_wholeness_function *known_ref, void *user,
                                     bool *out_of_memory);

#endif
