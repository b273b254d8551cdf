/*
 * The layers below the typed calls: a plan made once per shape, prepared once per step and run once
 * per layer, on the caller's threads: first through an executor, then by items.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "quire/quire.h"

/* Rows; query and key/value heads, their size; pages, tokens of a page; table columns; threads. */
enum { B = 2, HQ = 4, HKV = 2, D = 8, C = 8, P = 4, MP = 4, THREADS = 2 };

static float query[B][HQ][D], key_pages[HKV][C][P][D], value_pages[HKV][C][P][D];
static int32_t page_table[B][MP] = {{4, 0, 6, 2}, {1, 5, 3, 7}};
static int32_t context_lengths[B] = {13, 6};

static const int64_t query_shape[] = {B, HQ, D}, page_shape[] = {HKV, C, P, D};
static const int64_t table_shape[] = {B, MP}, rows[] = {B};

static void fill(float *data, int count, int step) {
  for (int i = 0; i < count; i++) {
    data[i] = (float)(i * step % 29 - 14) / 16;
  }
}

/* ---- an executor: every call starts threads, which is slow but short ---- */

typedef struct team_work {
  quire_task_function *task;
  void *task_user;
  size_t first, count;
} team_work;

static void *work(void *user) {
  const team_work *part = user;
  for (size_t i = part->first; i < part->count; i += THREADS) {
    part->task(part->task_user, i);
  }
  return NULL;
}

static void parallel_for(void *user, quire_task_function *task, void *task_user, size_t count) {
  (void)user;
  pthread_t threads[THREADS];
  int started[THREADS];
  team_work parts[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    parts[i] = (team_work){task, task_user, i, count};
    started[i] = pthread_create(&threads[i], NULL, work, &parts[i]) == 0;
    if (!started[i]) {
      work(&parts[i]);
    }
  }
  for (size_t i = 0; i < THREADS; i++) {
    if (started[i]) {
      pthread_join(threads[i], NULL);
    }
  }
}

/* ---- the call ---- */

static quire_status make_plan(quire_device *device, const quire_operator *op, quire_plan **plan,
                              quire_error *error) {
  const quire_request_tensor inputs[] = {
      {"query", QUIRE_FLOAT32, 3, query_shape, NULL, NULL},
      {"key_pages", QUIRE_FLOAT32, 4, page_shape, NULL, NULL},
      {"value_pages", QUIRE_FLOAT32, 4, page_shape, NULL, NULL},
      {"page_table", QUIRE_INT32, 2, table_shape, NULL, NULL},
      {"context_lengths", QUIRE_INT32, 1, rows, NULL, NULL},
  };
  const quire_named_value attributes[] = {{"scale", QUIRE_VALUE_TYPE_FLOAT, 0, 0.25, NULL}};
  quire_request request;
  quire_request_init(&request);
  request.inputs = inputs;
  request.input_count = sizeof inputs / sizeof inputs[0];
  request.attributes = attributes;
  request.attribute_count = sizeof attributes / sizeof attributes[0];
  return quire_plan_create(device, op, &request, plan, error);
}

/* Tensors go by slot: inputs in the operator's order, then outputs. */
static void bind(const quire_operator *op, quire_tensor *tensors, void *output) {
  tensors[quire_operator_find_slot(op, "query", 0)] =
      (quire_tensor){query, 0, QUIRE_FLOAT32, 3, query_shape, NULL};
  tensors[quire_operator_find_slot(op, "key_pages", 0)] =
      (quire_tensor){key_pages, 0, QUIRE_FLOAT32, 4, page_shape, NULL};
  tensors[quire_operator_find_slot(op, "value_pages", 0)] =
      (quire_tensor){value_pages, 0, QUIRE_FLOAT32, 4, page_shape, NULL};
  tensors[quire_operator_find_slot(op, "page_table", 0)] =
      (quire_tensor){page_table, 0, QUIRE_INT32, 2, table_shape, NULL};
  tensors[quire_operator_find_slot(op, "context_lengths", 0)] =
      (quire_tensor){context_lengths, 0, QUIRE_INT32, 1, rows, NULL};
  tensors[quire_operator_find_slot(op, "output", 1)] =
      (quire_tensor){output, 0, QUIRE_FLOAT32, 3, query_shape, NULL};
}

static quire_status compute(quire_plan *plan, const quire_operator *op, quire_workspace *workspace,
                            float *by_executor, float *by_items, quire_error *error) {
  enum { MOST_SLOTS = 16 };
  quire_tensor tensors[MOST_SLOTS];
  size_t slots = quire_operator_slot_count(op);
  if (slots > MOST_SLOTS) {
    return QUIRE_INTERNAL;
  }
  memset(tensors, 0, sizeof tensors);
  const quire_executor executor = {parallel_for, NULL, THREADS};
  quire_run_options options;
  quire_run_options_init(&options);
  options.executor = &executor;

  /* Once per step: the lengths are read and the work is divided. */
  bind(op, tensors, by_executor);
  quire_status status = quire_plan_prepare(plan, tensors, slots, workspace, &options, error);
  if (status != QUIRE_OK) {
    return status;
  }
  /* Once per layer: other pointers, the same plan and division. */
  options.flags = QUIRE_RUN_PREPARED;
  status = quire_plan_run(plan, tensors, slots, workspace, &options, error);

  /* The same by a team of threads of its own; here a team of one, so no barrier between passes. */
  bind(op, tensors, by_items);
  for (size_t pass = 0; status == QUIRE_OK && pass < quire_plan_passes(plan); pass++) {
    size_t items = quire_plan_items(plan, workspace, pass);
    status = quire_plan_run_items(plan, pass, 0, items, tensors, slots, workspace, error);
  }
  return status;
}

int main(void) {
  static float by_executor[B][HQ][D], by_items[B][HQ][D];
  fill(&query[0][0][0], B * HQ * D, 5);
  fill(&key_pages[0][0][0][0], HKV * C * P * D, 7);
  fill(&value_pages[0][0][0][0], HKV * C * P * D, 11);

  quire_error error = {QUIRE_OK, "", "", ""};
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_plan *plan = NULL;
  quire_workspace *workspace = NULL;
  const quire_operator *op = NULL;
  quire_status status = quire_context_create(NULL, &context, &error);
  if (status == QUIRE_OK) {
    op = quire_context_find_operator(context, "quire.PagedDecode");
    status = quire_device_open(context, "cpu", NULL, &device, &error);
  }
  if (status == QUIRE_OK) {
    status = make_plan(device, op, &plan, &error);
  }
  if (status == QUIRE_OK) {
    status = quire_workspace_create(device, NULL, &workspace, &error);
  }
  if (status == QUIRE_OK) {
    quire_workspace_need need;
    quire_plan_workspace(plan, &need);
    printf("variant %s, %zu bytes of workspace\n", quire_plan_variant(plan), need.bytes);
    status = compute(plan, op, workspace, &by_executor[0][0][0], &by_items[0][0][0], &error);
  }
  quire_workspace_release(workspace); /* in any order */
  quire_plan_release(plan);
  quire_device_release(device);
  quire_context_release(context);
  if (status != QUIRE_OK) {
    fprintf(stderr, "%s: %s\n", quire_status_name(status), error.message);
    return 1;
  }
  printf("row 0, head 0: %9.6f %9.6f ...\n", (double)by_executor[0][0][0],
         (double)by_executor[0][0][1]);
  return memcmp(by_executor, by_items, sizeof by_items) == 0 ? 0 : 1;
}
