#include "arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

enum { LONGEST_NAME = 24 };

/* Edit distance (Levenshtein, one row of the table at a time); both words are short. */
static size_t edit_distance(const char *left, const char *right) {
  size_t row[LONGEST_NAME + 1];
  const size_t right_length = strlen(right);
  if (strlen(left) > LONGEST_NAME || right_length > LONGEST_NAME) {
    return LONGEST_NAME;
  }
  for (size_t j = 0; j <= right_length; ++j) {
    row[j] = j;
  }
  for (size_t i = 0; left[i] != '\0'; ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < right_length; ++j) {
      const size_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row[j + 1];
      const size_t shifted = (row[j] < diagonal ? row[j] : diagonal) + 1;
      row[j + 1] = replaced < shifted ? replaced : shifted;
    }
  }
  return row[right_length];
}

const char *quire_arguments_nearest(const char *word, const char *const *names, size_t count) {
  const char *nearest = NULL;
  size_t least = 4;
  for (size_t i = 0; i < count; ++i) {
    const size_t distance = edit_distance(word, names[i]);
    if (distance < least && distance <= (strlen(names[i]) + 1) / 2) {
      least = distance;
      nearest = names[i];
    }
  }
  return nearest;
}

static const quire_option *find_option(const quire_command *command, const char *name,
                                       size_t length, size_t *group) {
  for (size_t g = 0; g < QUIRE_OPTION_GROUPS; ++g) {
    for (size_t i = 0; i < command->groups[g].count; ++i) {
      const quire_option *option = &command->groups[g].options[i];
      const int is_name = strlen(option->name) == length && !strncmp(option->name, name, length);
      const int is_letter = option->letter && strlen(option->letter) == length &&
                            !strncmp(option->letter, name, length);
      if (is_name || is_letter) {
        *group = g;
        return option;
      }
    }
  }
  return NULL;
}

static void refuse_unknown(const quire_command *command, const char *word, quire_error *error) {
  const char *names[64];
  size_t count = 0;
  for (size_t g = 0; g < QUIRE_OPTION_GROUPS; ++g) {
    for (size_t i = 0; i < command->groups[g].count && count < 64; ++i) {
      names[count++] = command->groups[g].options[i].name;
    }
  }
  char name[LONGEST_NAME + 1];
  const size_t length = strcspn(word, "=");
  const size_t kept = length < LONGEST_NAME ? length : LONGEST_NAME;
  memcpy(name, word, kept);
  name[kept] = '\0';
  const char *nearest = quire_arguments_nearest(name, names, count);
  if (nearest) {
    quire_failure_set(error, QUIRE_BAD_REQUEST, "unknown option %.64s; did you mean %s?", word,
                      nearest);
  } else {
    quire_failure_set(error, QUIRE_BAD_REQUEST, "unknown option %.64s; see quire %s --help", word,
                      command->name);
  }
}

static int is_choice(const char *choices, const char *value) {
  const size_t length = strlen(value);
  for (const char *at = choices; length > 0; ++at) {
    const size_t width = strcspn(at, "|");
    if (width == length && !strncmp(at, value, length)) {
      return 1;
    }
    at += width;
    if (*at == '\0') {
      break;
    }
  }
  return 0;
}

static quire_status store_number(const quire_option *option, int64_t *place, const char *value,
                                 quire_error *error) {
  char *end = NULL;
  errno = 0;
  const long long number = strtoll(value, &end, 10);
  const int is_number = strchr("-0123456789", value[0]) && end != value && *end == '\0';
  if (!is_number || errno != 0 || number < option->minimum || number > option->maximum) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "%s: \"%.64s\" is not a whole number from %lld to %lld", option->name,
                             value, (long long)option->minimum, (long long)option->maximum);
  }
  *place = (int64_t)number;
  return QUIRE_OK;
}

/* Every list gets room for all arguments at once: no list can be longer than the command line. */
static quire_status append(quire_text_list *list, const char *value, int argc, quire_error *error) {
  if (!list->items) {
    list->items = (const char **)calloc((size_t)argc, sizeof *list->items);
    if (!list->items) {
      return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the arguments");
    }
  }
  list->items[list->count++] = value;
  return QUIRE_OK;
}

static quire_status store(const quire_option *option, void *values, const char *value, int argc,
                          quire_error *error) {
  void *place = (char *)values + option->offset;
  switch (option->kind) {
    case QUIRE_OPTION_FLAG:
      *(int *)place = 1;
      return QUIRE_OK;
    case QUIRE_OPTION_CHOICE:
      if (!is_choice(option->choices, value)) {
        return quire_failure_set(error, QUIRE_BAD_REQUEST, "%s: \"%.64s\" is none of %s",
                                 option->name, value, option->choices);
      }
      *(const char **)place = value;
      return QUIRE_OK;
    case QUIRE_OPTION_TEXT:
      *(const char **)place = value;
      return QUIRE_OK;
    case QUIRE_OPTION_NUMBER:
      return store_number(option, (int64_t *)place, value, error);
    case QUIRE_OPTION_LIST:
      return append((quire_text_list *)place, value, argc, error);
  }
  return quire_failure_set(error, QUIRE_INTERNAL, "%s: unknown kind of option", option->name);
}

/* Takes one option and its value; *at is left on the last argument used. */
static quire_status take_option(const quire_command *command, int argc, char **argv, int *at,
                                void *const *values, uint64_t *seen, quire_error *error) {
  const char *word = argv[*at];
  const size_t length = strcspn(word, "=");
  size_t group = 0;
  const quire_option *option = find_option(command, word, length, &group);
  if (!option) {
    refuse_unknown(command, word, error);
    return QUIRE_BAD_REQUEST;
  }
  const uint64_t bit = 1ull << ((size_t)(option - command->groups[group].options) % 64);
  if ((seen[group] & bit) && option->kind != QUIRE_OPTION_LIST) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "%s is given twice", option->name);
  }
  seen[group] |= bit;
  const char *value = word[length] == '=' ? word + length + 1 : NULL;
  if (option->kind == QUIRE_OPTION_FLAG) {
    if (value) {
      return quire_failure_set(error, QUIRE_BAD_REQUEST, "%s takes no value", option->name);
    }
  } else if (!value) {
    if (*at + 1 >= argc) {
      return quire_failure_set(error, QUIRE_BAD_REQUEST, "%s needs a value", option->name);
    }
    value = argv[++*at];
  }
  return store(option, values[group], value, argc, error);
}

quire_parse_result quire_arguments_parse(const quire_command *command, int argc, char **argv,
                                         void *const *values, quire_text_list *positional,
                                         quire_error *error) {
  uint64_t seen[QUIRE_OPTION_GROUPS] = {0};
  int options_ended = 0;
  for (int at = 0; at < argc; ++at) {
    const char *word = argv[at];
    quire_status status = QUIRE_OK;
    if (!options_ended && !strcmp(word, "--")) {
      options_ended = 1;
    } else if (!options_ended && (!strcmp(word, "--help") || !strcmp(word, "-h"))) {
      quire_arguments_help(command, stdout);
      return QUIRE_PARSE_HELP;
    } else if (!options_ended && word[0] == '-' && word[1] != '\0') {
      status = take_option(command, argc, argv, &at, values, seen, error);
    } else if (positional->count == command->positional_maximum) {
      status = quire_failure_set(error, QUIRE_BAD_REQUEST,
                                 "unexpected argument \"%.64s\"; see quire %s --help", word,
                                 command->name);
    } else {
      status = append(positional, word, argc, error);
    }
    if (status != QUIRE_OK) {
      return QUIRE_PARSE_BAD;
    }
  }
  if (positional->count < command->positional_minimum) {
    quire_failure_set(error, QUIRE_BAD_REQUEST, "%s is missing; see quire %s --help",
                      command->positional_name, command->name);
    return QUIRE_PARSE_BAD;
  }
  return QUIRE_PARSE_RUN;
}

void quire_arguments_release(const quire_command *command, void *const *values,
                             quire_text_list *positional) {
  for (size_t g = 0; g < QUIRE_OPTION_GROUPS; ++g) {
    for (size_t i = 0; i < command->groups[g].count; ++i) {
      const quire_option *option = &command->groups[g].options[i];
      if (option->kind == QUIRE_OPTION_LIST) {
        quire_text_list *list = (quire_text_list *)(void *)((char *)values[g] + option->offset);
        free((void *)list->items);
        *list = (quire_text_list){0};
      }
    }
  }
  free((void *)positional->items);
  *positional = (quire_text_list){0};
}

static void print_option(const quire_option *option, FILE *stream) {
  char left[80];
  const char *value = option->kind == QUIRE_OPTION_CHOICE ? option->choices : option->value_name;
  (void)snprintf(left, sizeof left, "%s%s%s%s%s", option->letter ? option->letter : "",
                 option->letter ? ", " : "", option->name, value ? " " : "", value ? value : "");
  if (strlen(left) > 26) {
    (void)fprintf(stream, "  %s\n  %-26s  %s\n", left, "", option->help);
  } else {
    (void)fprintf(stream, "  %-26s  %s\n", left, option->help);
  }
}

void quire_arguments_help(const quire_command *command, FILE *stream) {
  (void)fprintf(stream, "usage: quire %s%s%s\n\n%s\n", command->name, command->usage[0] ? " " : "",
                command->usage, command->summary);
  (void)fprintf(stream, "\noptions:\n");
  for (size_t g = 0; g < QUIRE_OPTION_GROUPS; ++g) {
    for (size_t i = 0; i < command->groups[g].count; ++i) {
      print_option(&command->groups[g].options[i], stream);
    }
  }
  (void)fprintf(stream, "  %-26s  %s\n", "-h, --help", "print this and stop");
  if (command->details) {
    (void)fprintf(stream, "\n%s", command->details);
  }
}

int quire_text_list_allows(const quire_text_list *list, const char *text) {
  for (size_t i = 0; i < list->count; ++i) {
    if (strcmp(list->items[i], text) == 0) {
      return 1;
    }
  }
  return list->count == 0;
}

quire_status quire_arguments_seconds(const char *text, double *seconds, quire_error *error) {
  char *end = NULL;
  *seconds = text ? strtod(text, &end) : 0.5;
  /* strtod() knows hexadecimal numbers, too. */
  const int is_number =
      !text || (end != text && text[strspn(text, "0123456789.eE+-")] == '\0' && *end == '\0');
  return is_number && *seconds > 0 && *seconds <= 3600
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_BAD_REQUEST,
                                 "--seconds: \"%.64s\" is not a number above 0, at most 3600",
                                 text);
}
