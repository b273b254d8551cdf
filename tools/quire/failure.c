#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

quire_status quire_failure_set(quire_error *error, quire_status status, const char *format, ...) {
  if (!error) {
    return status;
  }
  *error = (quire_error){.status = status};
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return status;
}

static char shown(char given) {
  const unsigned char byte = (unsigned char)given;
  if (byte < 0x20 || byte == 0x7f) {
    return '?';
  }
  return given;
}

static void keep_one_line(char *text) {
  for (; *text != '\0'; ++text) {
    *text = shown(*text);
  }
}

void quire_failure_put(const char *text) {
  for (; *text != '\0'; ++text) {
    putchar(shown(*text));
  }
}

void quire_failure_text(const quire_error *error, char *text, size_t size) {
  const int says_rule = error->rule[0] == '\0' || strstr(error->message, error->rule) != NULL;
  (void)snprintf(text, size, "%s%s%s: %s", quire_status_name(error->status), says_rule ? "" : " ",
                 says_rule ? "" : error->rule, error->message);
  keep_one_line(text);
}

void quire_failure_print(const char *where, const quire_error *error) {
  char text[QUIRE_MESSAGE_SIZE + 64];
  char place[1024] = "";
  quire_failure_text(error, text, sizeof text);
  if (where) {
    (void)snprintf(place, sizeof place, "%s: ", where);
    keep_one_line(place);
  }
  (void)fflush(stdout); /* so that both streams, where they meet, keep their order */
  (void)fprintf(stderr, "quire: %s%s\n", place, text);
}

int quire_failure_usage(const quire_error *error) {
  char text[QUIRE_MESSAGE_SIZE];
  (void)snprintf(text, sizeof text, "%s", error->message);
  keep_one_line(text);
  (void)fprintf(stderr, "quire: %s\n", text);
  return QUIRE_EXIT_FAILURE;
}

int quire_failure_finish_output(int code) {
  if (fflush(stdout) != 0 || ferror(stdout)) {
    (void)fprintf(stderr, "quire: standard output cannot be written\n");
    return QUIRE_EXIT_FAILURE;
  }
  return code;
}
