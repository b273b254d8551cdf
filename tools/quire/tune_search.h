/* Looks for the tunables with which a call is fastest. */
#ifndef QUIRE_TOOL_TUNE_SEARCH_H
#define QUIRE_TOOL_TUNE_SEARCH_H

#include "tune_candidate.h"

/* What became of one choice of one tunable. */
typedef struct tune_trial {
  const quire_named_value *value;
  const char *reason;     /* why it does not count: refused, wrong; NULL: it was timed */
  double time, incumbent; /* medians in microseconds, taken in turn */
  int is_better;
} tune_trial;

typedef struct tune_search {
  tune_problem *problem;
  double seconds; /* of timing, for each choice */
  void (*report)(void *user, const tune_trial *trial);
  void *user;
} tune_search;

typedef struct tune_result {
  tune_values values;           /* none set: the defaults are best */
  double default_time, time;    /* medians in microseconds, taken in turn */
  size_t timed, refused, wrong; /* choices */
  json_t *key;                  /* what the values are to be kept under */
} tune_result;

/*
 * One tunable after the other: each choice that makes another program than those before is timed in
 * turn with the best so far, and takes its place if it is faster by 2 %. At the end the best is
 * timed in turn with the defaults, and dropped if it is not faster. The result is to be released in
 * any case. Statuses: those of planning and running with the defaults; INTERNAL if their result is
 * wrong.
 */
quire_status tune_search_run(const tune_search *search, tune_result *result, quire_error *error);
void tune_result_release(tune_result *result);

#endif
