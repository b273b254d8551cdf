#include "error.h"

#include <stdio.h>
#include <string.h>

static void copy_cut(char *target, size_t size, const char *source) {
  size_t length = source == NULL ? 0 : strlen(source);
  if (length >= size) {
    length = size - 1;
  }
  if (length != 0) {
    memcpy(target, source, length);
  }
  target[length] = '\0';
}

quire_status quire_fail(quire_error *error, quire_status status, const char *rule,
                        const char *subject, const char *format, ...) {
  if (error == NULL) {
    return status;
  }
  error->status = status;
  copy_cut(error->rule, sizeof error->rule, rule);
  copy_cut(error->subject, sizeof error->subject, subject);
  size_t used = 0;
  const char *parts[2] = {rule, subject};
  for (size_t i = 0; i < 2; i++) {
    if (parts[i] != NULL && parts[i][0] != '\0') {
      copy_cut(error->message + used, sizeof error->message - used, parts[i]);
      used += strlen(error->message + used);
      copy_cut(error->message + used, sizeof error->message - used, ": ");
      used += strlen(error->message + used);
    }
  }
  error->message[used] = '\0';
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(error->message + used, sizeof error->message - used, format, arguments);
  va_end(arguments);
  /* One line, whatever names a stranger's file puts into it. */
  for (char *c = error->message; *c != '\0'; c++) {
    if ((unsigned char)*c < 0x20 || (unsigned char)*c == 0x7f) {
      *c = ' ';
    }
  }
  return status;
}

quire_status quire_fail_memory(quire_error *error) {
  return quire_fail(error, QUIRE_OUT_OF_MEMORY, NULL, NULL, "out of memory");
}
