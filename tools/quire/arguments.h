/* The command line's own argument parser: one table per command parses and prints the help. */
#ifndef QUIRE_TOOL_ARGUMENTS_H
#define QUIRE_TOOL_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "quire/status.h"

/* Texts given with a repeatable option, or positional arguments. Points into argv. */
typedef struct quire_text_list {
  const char **items;
  size_t count;
} quire_text_list;

/* 1 if the list is empty or holds the text. */
int quire_text_list_allows(const quire_text_list *list, const char *text);

/* What an option stores, and in which type of member. */
typedef enum quire_option_kind {
  QUIRE_OPTION_FLAG,   /* int: 1 if given */
  QUIRE_OPTION_TEXT,   /* const char * */
  QUIRE_OPTION_CHOICE, /* const char *, one of `choices` ("a|b|c") */
  QUIRE_OPTION_NUMBER, /* int64_t in [minimum, maximum] */
  QUIRE_OPTION_LIST    /* quire_text_list: may be given again and again */
} quire_option_kind;

typedef struct quire_option {
  const char *name;   /* "--device" */
  const char *letter; /* "-o", or NULL */
  quire_option_kind kind;
  size_t offset;          /* of the member that receives the value */
  const char *value_name; /* "FILE"; NULL for a flag and a choice */
  const char *choices;    /* "text|json" */
  int64_t minimum, maximum;
  const char *help; /* one line */
} quire_option;

/* Options that go to one struct; commands share groups. */
typedef struct quire_option_group {
  const quire_option *options;
  size_t count;
  size_t size; /* of the struct */
} quire_option_group;

enum { QUIRE_OPTION_GROUPS = 3 };

typedef struct quire_command {
  const char *name;    /* "run", "bench plan" */
  const char *summary; /* one line */
  const char *usage;   /* what follows "quire NAME" */
  const char *details; /* paragraphs after the options; may be NULL */
  quire_option_group groups[QUIRE_OPTION_GROUPS];
  size_t positional_minimum, positional_maximum;
  const char *positional_name; /* "CASE.safetensors" */
  /*
   * Gets the structs of the groups and returns the exit status. values[g] is zeroed before the
   * options are read into it, so 0 is every option's default.
   */
  int (*run)(void *const *values, const quire_text_list *positional);
} quire_command;

typedef enum quire_parse_result {
  QUIRE_PARSE_RUN,  /* go on */
  QUIRE_PARSE_HELP, /* the help has been printed: exit 0 */
  QUIRE_PARSE_BAD   /* the error says why: exit 2 */
} quire_parse_result;

/*
 * Parses the arguments that follow the command's name. values[g] is the struct that group g writes
 * to; it holds the defaults beforehand. Lists must be empty beforehand and are released with
 * quire_arguments_release(), whatever the result.
 */
quire_parse_result quire_arguments_parse(const quire_command *command, int argc, char **argv,
                                         void *const *values, quire_text_list *positional,
                                         quire_error *error);

void quire_arguments_release(const quire_command *command, void *const *values,
                             quire_text_list *positional);

/* Prints usage, options and details. */
void quire_arguments_help(const quire_command *command, FILE *stream);

/* Reads --seconds: a decimal number above 0, at most 3600; NULL is 0.5. */
quire_status quire_arguments_seconds(const char *text, double *seconds, quire_error *error);

/* The name of the table that is nearest to a mistyped word, or NULL if none is near. */
const char *quire_arguments_nearest(const char *word, const char *const *names, size_t count);

#endif
