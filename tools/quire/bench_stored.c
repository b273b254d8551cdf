#include "bench_stored.h"

#include <string.h>

#include "failure.h"

static quire_status run_call(void *user, uint64_t *nanoseconds, quire_error *error) {
  const quire_call *call = user;
  quire_run_options options;
  quire_run_options_init(&options);
  const uint64_t begin = quire_clock_nanoseconds();
  const quire_status status = quire_plan_run(call->plan, call->tensors, call->tensor_count,
                                             call->workspace, &options, error);
  *nanoseconds = quire_clock_nanoseconds() - begin;
  return status;
}

int quire_bench_is_stored(const char *word) {
  const char *ending = strrchr(word, '.');
  return ending && !strcmp(ending, ".safetensors");
}

quire_status quire_bench_stored(const quire_session *session, const char *path,
                                const quire_call_options *options, const bench_budget *budget,
                                const char **name, bench_times *times, quire_error *error) {
  quire_case opened;
  quire_status status = quire_case_open(path, &opened, error);
  if (status != QUIRE_OK) {
    return status;
  }
  quire_case_request built = {0};
  quire_call call = {0};
  const quire_operator *op = NULL;
  status = quire_session_operator(session, options, &opened, &op, error);
  if (status == QUIRE_OK) {
    status = quire_request_build(&opened, options, op, 1, &built, error);
  }
  if (status == QUIRE_OK) {
    status = quire_call_execute(session, op, &opened, options, &built.request, &call, error);
  }
  if (status == QUIRE_OK) {
    *name = quire_operator_name(op);
    status = quire_bench_measure(run_call, &call, budget, path, times, error);
  }
  quire_call_release(&call);
  quire_request_release(&built);
  quire_case_release(&opened);
  return status;
}
