/* quire: chooses the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "failure.h"

static const quire_command *const commands[] = {
    &quire_command_run,           &quire_command_check,   &quire_command_explain,
    &quire_command_render,        &quire_command_tune,    &quire_command_lint,
    &quire_command_ops,           &quire_command_devices, &quire_command_version,
    &quire_command_bench_plan,
#ifdef QUIRE_WITH_SERVING
    &quire_command_bench_serving,
#endif
    &quire_command_same_bits,     &quire_command_bench, /* after those whose names begin alike */
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_overview(void) {
  printf("usage: quire COMMAND [arguments]\n\n");
  for (size_t i = 0; i < COMMAND_COUNT; ++i) {
    printf("  %-12s %s\n", commands[i]->name, commands[i]->summary);
  }
  printf("  %-12s %s\n", "help", "Prints this, or the help of a command.");
  printf("\nquire COMMAND --help tells the rest.\n");
}

/* Matches a name of one or two words; *words is how many of them it took. */
static const quire_command *find(int argc, char **argv, int *words) {
  for (size_t i = 0; i < COMMAND_COUNT && argc > 0; ++i) {
    const char *name = commands[i]->name;
    const char *second = strchr(name, ' ');
    const size_t length = second ? (size_t)(second - name) : strlen(name);
    if (strlen(argv[0]) == length && !strncmp(argv[0], name, length) &&
        (!second || (argc > 1 && !strcmp(argv[1], second + 1)))) {
      *words = second ? 2 : 1;
      return commands[i];
    }
  }
  return NULL;
}

static int refuse(const char *word) {
  const char *names[COMMAND_COUNT];
  quire_error error;
  for (size_t i = 0; i < COMMAND_COUNT; ++i) {
    names[i] = commands[i]->name;
  }
  const char *nearest = quire_arguments_nearest(word, names, COMMAND_COUNT);
  if (nearest) {
    quire_failure_set(&error, QUIRE_BAD_REQUEST, "unknown command \"%.64s\"; did you mean %s?",
                      word, nearest);
  } else {
    quire_failure_set(&error, QUIRE_BAD_REQUEST, "unknown command \"%.64s\"; see quire help", word);
  }
  return quire_failure_usage(&error);
}

static int help(int argc, char **argv) {
  int words = 0;
  const quire_command *command = find(argc, argv, &words);
  if (argc > 0 && !command) {
    return refuse(argv[0]);
  }
  if (argc > words) {
    quire_error error;
    quire_failure_set(&error, QUIRE_BAD_REQUEST, "unexpected argument \"%.64s\"; see quire help",
                      argv[words]);
    return quire_failure_usage(&error);
  }
  if (command) {
    quire_arguments_help(command, stdout);
  } else {
    print_overview();
  }
  return quire_failure_finish_output(QUIRE_EXIT_OK);
}

/* What every command does around its own work. */
static int run_command(const quire_command *command, int argc, char **argv) {
  void *values[QUIRE_OPTION_GROUPS] = {NULL};
  quire_text_list positional = {0};
  quire_error error;
  int is_short = 0;
  int code = QUIRE_EXIT_OK;
  for (size_t g = 0; g < QUIRE_OPTION_GROUPS; ++g) {
    values[g] = calloc(1, command->groups[g].size + 1);
    is_short |= !values[g];
  }
  if (is_short) {
    quire_failure_set(&error, QUIRE_OUT_OF_MEMORY, "no memory for the options");
    code = quire_failure_usage(&error);
  } else {
    const quire_parse_result parsed =
        quire_arguments_parse(command, argc, argv, values, &positional, &error);
    code = parsed == QUIRE_PARSE_BAD   ? quire_failure_usage(&error)
           : parsed == QUIRE_PARSE_RUN ? command->run(values, &positional)
                                       : QUIRE_EXIT_OK;
    quire_arguments_release(command, values, &positional);
  }
  for (size_t g = 0; g < QUIRE_OPTION_GROUPS; ++g) {
    free(values[g]);
  }
  return quire_failure_finish_output(code);
}

int main(int argc, char **argv) {
  int words = 0;
  const quire_command *command = find(argc - 1, argv + 1, &words);
  if (command) {
    return run_command(command, argc - 1 - words, argv + 1 + words);
  }
  if (argc < 2) {
    quire_error error;
    quire_failure_set(&error, QUIRE_BAD_REQUEST, "a command is missing; see quire help");
    return quire_failure_usage(&error);
  }
  if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
    return help(argc - 2, argv + 2);
  }
  if (!strcmp(argv[1], "--version")) {
    return run_command(&quire_command_version, argc - 2, argv + 2);
  }
  return refuse(argv[1]);
}
