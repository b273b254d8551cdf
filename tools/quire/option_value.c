#include "option_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_whole(const char *text, quire_named_value *value) {
  char *end = NULL;
  if (text[0] == '\0' || !strchr("+-0123456789", text[0])) {
    return 0;
  }
  errno = 0;
  value->type = QUIRE_VALUE_TYPE_INT;
  value->i = strtoll(text, &end, 10);
  return end != text && *end == '\0' && errno == 0;
}

static int read_truth(const char *text, quire_named_value *value) {
  value->type = QUIRE_VALUE_TYPE_BOOL;
  value->i = !strcmp(text, "true");
  return value->i || !strcmp(text, "false");
}

static int read_number(const char *text, quire_named_value *value) {
  char *end = NULL;
  if (text[0] == '\0' || strchr(" \t\n", text[0])) {
    return 0;
  }
  value->type = QUIRE_VALUE_TYPE_FLOAT;
  value->f = strtod(text, &end);
  return end != text && *end == '\0';
}

static int read_text(const char *text, quire_named_value *value) {
  value->type = QUIRE_VALUE_TYPE_STRING;
  value->s = text;
  return 1;
}

int quire_value_read(quire_value_type type, const char *text, quire_named_value *value) {
  switch (type) {
    case QUIRE_VALUE_TYPE_INT:
      return read_whole(text, value);
    case QUIRE_VALUE_TYPE_FLOAT:
      return read_number(text, value);
    case QUIRE_VALUE_TYPE_BOOL:
      return read_truth(text, value);
    case QUIRE_VALUE_TYPE_STRING:
      return read_text(text, value);
    case QUIRE_VALUE_TYPE_NONE:
      break;
  }
  return read_whole(text, value) || read_truth(text, value) || read_number(text, value) ||
         read_text(text, value);
}

json_t *quire_value_json(const quire_named_value *value) {
  switch (value->type) {
    case QUIRE_VALUE_TYPE_INT:
      return json_integer(value->i);
    case QUIRE_VALUE_TYPE_FLOAT:
      return json_real(value->f);
    case QUIRE_VALUE_TYPE_BOOL:
      return json_boolean(value->i);
    case QUIRE_VALUE_TYPE_STRING:
      return json_string(value->s);
    case QUIRE_VALUE_TYPE_NONE:
      break;
  }
  return NULL;
}
