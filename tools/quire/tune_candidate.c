#include "tune_candidate.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "quire/webgpu.h"

/* ---- values ---- */

quire_status tune_values_make(const quire_operator *op, tune_values *values, quire_error *error) {
  values->count = quire_operator_tunable_count(op);
  values->items = calloc(values->count + 1, sizeof *values->items);
  return values->items ? QUIRE_OK
                       : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for tunables");
}

void tune_values_copy(tune_values *target, const tune_values *source) {
  memcpy(target->items, source->items, source->count * sizeof *source->items);
}

void tune_values_release(tune_values *values) {
  free(values->items);
  *values = (tune_values){0};
}

/* The request with the values that are set; *given is to be freed. */
static quire_status set_values(const tune_problem *problem, const tune_values *values,
                               quire_request *request, quire_named_value **given,
                               quire_error *error) {
  *request = *problem->request;
  *given = calloc(values->count + 1, sizeof **given);
  if (!*given) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for tunables");
  }
  for (size_t i = 0; i < values->count; ++i) {
    if (values->items[i].type != QUIRE_VALUE_TYPE_NONE) {
      (*given)[request->tunable_count++] = values->items[i];
    }
  }
  request->tunables = *given;
  return QUIRE_OK;
}

/* ---- programs as texts ---- */

/* A text that grows; `data` is NULL once memory is out. */
typedef struct gathered {
  char *data;
  size_t length;
  int is_short;
} gathered;

static void gather(void *user, const char *text, size_t length) {
  gathered *all = user;
  char *larger = all->is_short ? NULL : realloc(all->data, all->length + length + 1);
  if (!larger) {
    all->is_short = 1;
    return;
  }
  memcpy(larger + all->length, text, length);
  all->data = larger;
  all->length += length;
  all->data[all->length] = '\0';
}

/* Leaves what a plan does out of what is explained: derived names differ without effect. */
static quire_status keep_program(const gathered *plan, gathered *program, quire_error *error) {
  json_t *root = json_loadb(plan->data, plan->length, 0, NULL);
  size_t i = 0;
  json_t *pass = NULL;
  json_array_foreach(json_object_get(root, "passes"), i, pass) {
    (void)json_object_del(pass, "derived");
  }
  (void)json_object_del(root, "derived");
  char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
  json_decref(root);
  if (text) {
    gather(program, text, strlen(text));
  }
  program->is_short |= !text;
  free(text);
  return program->is_short
             ? quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for a plan's text")
             : QUIRE_OK;
}

static quire_status describe(const tune_problem *problem, const quire_request *request,
                             gathered *program, quire_error *error) {
  gathered plan = {0};
  quire_status status = quire_explain(problem->op, problem->session->device, NULL, request,
                                      QUIRE_EXPLAIN_JSON, gather, &plan, error);
  if (status == QUIRE_OK) {
    status = keep_program(&plan, program, error);
  }
  free(plan.data);
  if (status == QUIRE_OK) {
    status = quire_render(problem->op, problem->session->device, NULL, request, NULL, gather,
                          program, error);
  }
  return status == QUIRE_OK && program->is_short
             ? quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the shaders")
             : status;
}

quire_status tune_candidate_describe(const tune_problem *problem, const tune_values *values,
                                     char **text, quire_error *error) {
  quire_request request;
  quire_named_value *given = NULL;
  gathered program = {0};
  quire_status status = set_values(problem, values, &request, &given, error);
  if (status == QUIRE_OK) {
    status = describe(problem, &request, &program, error);
  }
  free(given);
  if (status != QUIRE_OK) {
    free(program.data);
    program.data = NULL;
  }
  *text = program.data;
  return status;
}

/* ---- results ---- */

quire_status tune_problem_refer(tune_problem *problem, quire_device *cpu, quire_error *error) {
  const quire_session session = {.context = problem->session->context, .device = cpu};
  quire_request request = *problem->request;
  request.variant = NULL; /* one of the device's */
  return quire_call_execute(&session, problem->op, problem->opened, problem->options, &request,
                            &problem->reference, error);
}

/* The case's tolerance, or one rounding; copies (what is updated in place) have the very bits. */
static quire_tolerance tolerance_of(const tune_problem *problem, const quire_call_output *output) {
  quire_tolerance tolerance = quire_case_tolerance(problem->opened, output->name);
  const int32_t index = quire_operator_find_slot(problem->op, output->name, 1);
  const quire_dtype dtype = output->form.dtype;
  const int is_float = dtype == QUIRE_FLOAT32 || dtype == QUIRE_FLOAT16 || dtype == QUIRE_BFLOAT16;
  quire_slot slot = {.alias = -1};
  if (index >= 0) {
    (void)quire_operator_slot(problem->op, (size_t)index, &slot);
  }
  if (is_float && slot.alias < 0 && !json_object_get(problem->opened->tolerance, output->name)) {
    tolerance.absolute = 1e-5;
    tolerance.relative = dtype == QUIRE_FLOAT32 ? 1e-5 : dtype == QUIRE_FLOAT16 ? 0x1p-10 : 0x1p-7;
  }
  return quire_compare_widen(tolerance, dtype);
}

static quire_status check_results(const tune_problem *problem, const quire_call *call,
                                  quire_error *error) {
  for (size_t i = 0; i < call->output_count; ++i) {
    const quire_call_output *got = &call->outputs[i];
    const quire_call_output *want = quire_call_find(&problem->reference, got->name);
    if (!want || want->bytes != got->bytes || want->form.dtype != got->form.dtype) {
      return quire_failure_set(error, QUIRE_INTERNAL, "%s: has another form than the CPU's",
                               got->name);
    }
    const quire_tolerance tolerance = tolerance_of(problem, got);
    const size_t count = got->bytes / quire_dtype_size(got->form.dtype);
    quire_comparison comparison;
    quire_compare(got->form.dtype, count, got->data, want->data, &tolerance, &comparison);
    if (comparison.wrong > 0) {
      return quire_failure_set(error, QUIRE_INTERNAL,
                               "%s is wrong: element %zu is %.9g, on the CPU %.9g", got->name,
                               comparison.worst, comparison.got, comparison.want);
    }
  }
  return QUIRE_OK;
}

/* Engines update caches in place, and a copy of them would be most of the time. */
static void update_in_place(const tune_problem *problem, quire_call *call) {
  for (size_t i = 0; i < call->tensor_count; ++i) {
    quire_slot slot;
    if (quire_operator_slot(problem->op, i, &slot) == QUIRE_OK && slot.is_output &&
        slot.alias >= 0) {
      call->tensors[i].data = NULL;
    }
  }
}

quire_status tune_candidate_make(const tune_problem *problem, const tune_values *values,
                                 quire_call *call, quire_error *error) {
  quire_request request;
  quire_named_value *given = NULL;
  *call = (quire_call){0};
  quire_status status = set_values(problem, values, &request, &given, error);
  if (status == QUIRE_OK) {
    status = quire_call_execute(problem->session, problem->op, problem->opened, problem->options,
                                &request, call, error);
  }
  free(given);
  if (status == QUIRE_OK) {
    status = check_results(problem, call, error);
  }
  if (status == QUIRE_OK) {
    update_in_place(problem, call);
  }
  return status;
}

/* ---- time ---- */

static int has_clock(const quire_device *device) {
  const quire_device_description *description = quire_device_describe(device);
  for (size_t i = 0; i < description->feature_count; ++i) {
    if (!strcmp(description->features[i], "timestamp-query")) {
      return 1;
    }
  }
  return 0;
}

quire_status tune_candidate_time(quire_call *call, size_t repeat, double *microseconds,
                                 quire_error *error) {
  quire_status status = QUIRE_OK;
  double nanoseconds = 0;
  if (has_clock(call->device)) {
    const quire_webgpu_call one = {call->plan, call->tensors, call->tensor_count, call->workspace};
    quire_webgpu_times times = {0};
    status = quire_webgpu_measure(call->device, &one, 1, repeat, &times, error);
    nanoseconds = times.gpu_nanoseconds;
  } else {
    const uint64_t begin = quire_clock_nanoseconds();
    for (size_t i = 0; i < repeat && status == QUIRE_OK; ++i) {
      status = quire_plan_run(call->plan, call->tensors, call->tensor_count, call->workspace, NULL,
                              error);
    }
    nanoseconds = (double)(quire_clock_nanoseconds() - begin);
  }
  *microseconds = nanoseconds / (double)repeat / 1000;
  return status;
}
