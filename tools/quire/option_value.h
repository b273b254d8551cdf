/* The value of an attribute or a tunable: as text on the command line, and as JSON. */
#ifndef QUIRE_TOOL_OPTION_VALUE_H
#define QUIRE_TOOL_OPTION_VALUE_H

#include <jansson.h>

#include "quire/context.h"

/*
 * Reads a text as a value of a type, or (NONE) of the first one that it fits: whole number, truth
 * value, number, text. 0 if it is none. A string points into the text; a number may be infinite or
 * NaN. The name is left alone.
 */
int quire_value_read(quire_value_type type, const char *text, quire_named_value *value);

/* NULL: no memory, text that is not UTF-8, a number that is not finite, or no value at all. */
json_t *quire_value_json(const quire_named_value *value);

#endif
