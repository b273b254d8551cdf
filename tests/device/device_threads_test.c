/* Several threads on one device: runs of one plan, and teams that share a workspace item by item.
 */
#include <pthread.h>

#include "device_harness.h"

enum { THREADS = 4, ROUNDS = 40 };

static const append_options kinds[THREADS] = {
    {.n = 6, .c = 4, .d = 3, .step = 1, .values = true},
    {.n = 6, .c = 4, .d = 3, .step = 2, .output = APPEND_SEPARATE},
    {.n = 3, .c = 9, .d = 5, .step = 3, .padded = true},
    {.n = 1, .c = 4, .d = 1, .step = 4},
};

/* cmocka's assertions belong to the main thread: workers only count. */
typedef struct worker {
  append_call call;
  quire_workspace *workspace;
  int failures;
} worker;

static void *run_rounds(void *user) {
  worker *one = user;
  for (int round = 0; round < ROUNDS; round++) {
    append_reset(&one->call);
    one->failures += quire_plan_run(one->call.plan, one->call.tensors, APPEND_SLOTS, one->workspace,
                                    NULL, NULL) != QUIRE_OK;
  }
  return NULL;
}

static void start_and_join(worker workers[THREADS], void *(*main_function)(void *)) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, main_function, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(workers[i].failures, 0);
  }
}

static void test_concurrent_runs(void **state) {
  (void)state;
  static const size_t pool_threads[] = {1, 3};
  for (size_t p = 0; p < 2; p++) {
    for (int shared = 0; shared < 2; shared++) {
      harness h;
      harness_open(&h, pool_threads[p]);
      worker workers[THREADS];
      memset(workers, 0, sizeof(workers));
      for (int i = 0; i < THREADS; i++) {
        append_make(&h, &workers[i].call, &kinds[shared ? 0 : i]);
        workers[i].workspace = make_workspace(&h);
        if (shared && i > 0) {
          quire_plan_release(workers[i].call.plan);
          workers[i].call.plan = workers[0].call.plan;
        }
      }
      start_and_join(workers, run_rounds);
      for (int i = 0; i < THREADS; i++) {
        append_check(&workers[i].call, &kinds[shared ? 0 : i]);
        if (shared && i > 0) {
          workers[i].call.plan = NULL;
        }
        append_free(&workers[i].call);
        quire_workspace_release(workers[i].workspace);
      }
      harness_close(&h);
    }
  }
}

/* ---- a team of the caller's ---- */

typedef struct team {
  append_call *call;
  quire_workspace *workspace;
  size_t pass;
  size_t items;
} team;

typedef struct member {
  const team *team;
  size_t rank;
  int failures;
} member;

static void *run_share(void *user) {
  member *one = user;
  const team *all = one->team;
  for (size_t i = one->rank; i < all->items; i += THREADS) {
    one->failures += quire_plan_run_items(all->call->plan, all->pass, i, i + 1, all->call->tensors,
                                          APPEND_SLOTS, all->workspace, NULL) != QUIRE_OK;
  }
  return NULL;
}

static void test_team(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  for (int k = 0; k < THREADS; k++) {
    append_call call;
    append_make(&h, &call, &kinds[k]);
    quire_workspace *workspace = make_workspace(&h);
    assert_int_equal(
        quire_plan_prepare(call.plan, call.tensors, APPEND_SLOTS, workspace, NULL, NULL), QUIRE_OK);
    team all = {&call, workspace, 0, 0};
    for (; all.pass < quire_plan_passes(call.plan); all.pass++) {
      all.items = quire_plan_items(call.plan, workspace, all.pass);
      pthread_t threads[THREADS];
      member members[THREADS];
      for (size_t i = 0; i < THREADS; i++) {
        members[i] = (member){&all, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, run_share, &members[i]), 0);
      }
      for (size_t i = 0; i < THREADS; i++) { /* joining is the barrier between passes */
        pthread_join(threads[i], NULL);
        assert_int_equal(members[i].failures, 0);
      }
    }
    append_check(&call, &kinds[k]);
    append_free(&call);
    quire_workspace_release(workspace);
  }
  harness_close(&h);
}

/* Plans made and released while others run. */
static void *make_plans(void *user) {
  worker *one = user;
  for (int round = 0; round < ROUNDS; round++) {
    quire_plan *kept = one->call.plan;
    atomic_fetch_add(&kept->references, 1);
    one->failures += quire_plan_run(kept, one->call.tensors, APPEND_SLOTS, one->workspace, NULL,
                                    NULL) != QUIRE_OK;
    quire_plan_release(kept);
  }
  return NULL;
}

static void test_references(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  worker workers[THREADS];
  memset(workers, 0, sizeof(workers));
  for (int i = 0; i < THREADS; i++) {
    append_make(&h, &workers[i].call, &kinds[0]);
    workers[i].workspace = make_workspace(&h);
  }
  start_and_join(workers, make_plans);
  for (int i = 0; i < THREADS; i++) {
    append_free(&workers[i].call);
    quire_workspace_release(workers[i].workspace);
  }
  harness_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_concurrent_runs),
      cmocka_unit_test(test_team),
      cmocka_unit_test(test_references),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
