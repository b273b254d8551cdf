/* What is refused about tensors, and which buffers may meet. */
#include "device_harness.h"

static const append_options plain = {.n = 4, .c = 5, .d = 3, .step = 1, .values = true};

static void expect(append_fixture *f, quire_status status, const char *subject, const char *rule) {
  quire_status got =
      quire_plan_run(f->call.plan, f->call.tensors, APPEND_SLOTS, f->workspace, NULL, &f->error);
  if (got != status || (got != QUIRE_OK && (strcmp(f->error.subject, subject) != 0 ||
                                            strcmp(f->error.rule, rule) != 0))) {
    fail_msg("got %s (%s), expected %s about %s", quire_status_name(got),
             got == QUIRE_OK ? "" : f->error.message, quire_status_name(status), subject);
  }
}

/* ---- forms ---- */

typedef enum damage {
  NOTHING,
  OTHER_DTYPE,
  OTHER_RANK,
  OTHER_DIM,
  NO_SHAPE,
  OTHER_STRIDE,
  NO_STRIDES,
  NO_DATA,
  ODD_OFFSET,
  FAR_OFFSET,
  AT_THE_END,
} damage;

typedef struct form_case {
  const char *what;
  damage damage;
  int slot;
  quire_status status;
  const char *subject, *rule;
} form_case;

static const form_case form_cases[] = {
    {"nothing", NOTHING, APPEND_CACHE, QUIRE_OK, "", ""},
    {"dtype", OTHER_DTYPE, APPEND_CACHE, QUIRE_BAD_REQUEST, "cache", ""},
    {"rank", OTHER_RANK, APPEND_LENGTHS, QUIRE_BAD_REQUEST, "lengths", ""},
    {"dim", OTHER_DIM, APPEND_VALUES, QUIRE_BAD_REQUEST, "values", ""},
    {"no shape", NO_SHAPE, APPEND_TOTAL, QUIRE_BAD_REQUEST, "total", ""},
    {"stride", OTHER_STRIDE, APPEND_CACHE, QUIRE_BAD_REQUEST, "cache", ""},
    {"dense where the plan has the same", NO_STRIDES, APPEND_CACHE, QUIRE_OK, "", ""},
    {"no data", NO_DATA, APPEND_CACHE, QUIRE_BAD_PRESENCE, "cache", "TA-V1"},
    {"no data of an optional that was planned", NO_DATA, APPEND_VALUES, QUIRE_BAD_PRESENCE,
     "values", "TA-V1"},
    {"no data of an output", NO_DATA, APPEND_TOTAL, QUIRE_BAD_PRESENCE, "total", "TA-V1"},
    {"odd offset", ODD_OFFSET, APPEND_LENGTHS, QUIRE_BAD_REQUEST, "lengths", ""},
    {"far offset", FAR_OFFSET, APPEND_LENGTHS, QUIRE_BAD_REQUEST, "lengths", ""},
    {"at the end of memory", AT_THE_END, APPEND_LENGTHS, QUIRE_BAD_REQUEST, "lengths", ""},
    {"nothing of an in-place output", NO_DATA, APPEND_CACHE_OUT, QUIRE_OK, "", ""},
};

static void apply(const form_case *one, quire_tensor *tensor) {
  static const int64_t many[3] = {99, 99, 99};
  switch (one->damage) {
    case OTHER_DTYPE:
      tensor->dtype = QUIRE_UINT32;
      break;
    case OTHER_RANK:
      tensor->ndim++;
      tensor->shape = many;
      break;
    case OTHER_DIM:
      tensor->shape = many;
      break;
    case NO_SHAPE:
      tensor->shape = NULL;
      break;
    case OTHER_STRIDE:
      tensor->strides = many;
      break;
    case NO_STRIDES:
      tensor->strides = NULL;
      break;
    case NO_DATA:
      tensor->data = NULL;
      break;
    case ODD_OFFSET:
      tensor->byte_offset = 2;
      break;
    case FAR_OFFSET:
      tensor->byte_offset = UINT64_MAX;
      break;
    case AT_THE_END:
      tensor->data = (void *)(UINTPTR_MAX - 7);
      break;
    default:
      break;
  }
}

static void test_forms(void **state) {
  (void)state;
  append_fixture f;
  open_fixture(&f, &plain);
  for (size_t i = 0; i < sizeof(form_cases) / sizeof(form_cases[0]); i++) {
    const form_case *one = &form_cases[i];
    quire_tensor saved = f.call.tensors[one->slot];
    append_reset(&f.call);
    apply(one, &f.call.tensors[one->slot]);
    expect(&f, one->status, one->subject, one->rule);
    f.call.tensors[one->slot] = saved;
    if (one->status == QUIRE_OK) {
      append_check(&f.call, &plain);
    } else {
      append_check_untouched(&f.call);
    }
  }
  append_reset(&f.call);
  for (size_t count = 0; count < 10; count++) {
    quire_status status =
        quire_plan_run(f.call.plan, f.call.tensors, count, f.workspace, NULL, NULL);
    assert_int_equal(status, count == APPEND_SLOTS ? QUIRE_OK : QUIRE_BAD_REQUEST);
  }
  assert_int_equal(quire_plan_run(f.call.plan, NULL, APPEND_SLOTS, f.workspace, NULL, NULL),
                   QUIRE_BAD_REQUEST);
  close_fixture(&f);
}

/* Strides of axes with one element mean nothing, and unused slots are ignored. */
static void test_free_strides(void **state) {
  (void)state;
  append_options options = {.n = 1, .c = 5, .d = 1, .step = 1};
  append_fixture f;
  open_fixture(&f, &options);
  const int64_t strides[3] = {-1000, 1, 77};
  f.call.tensors[APPEND_CACHE].strides = strides;
  f.call.tensors[APPEND_VALUES] = f.call.tensors[APPEND_CACHE]; /* absent in the plan */
  f.call.lengths[0] = 3;
  expect(&f, QUIRE_OK, "", "");
  append_check(&f.call, &options);
  close_fixture(&f);
}

static void test_byte_offset(void **state) {
  (void)state;
  append_fixture f;
  open_fixture(&f, &plain);
  quire_tensor *cache = &f.call.tensors[APPEND_CACHE];
  cache->data = (char *)f.call.cache - 4096;
  cache->byte_offset = 4096;
  expect(&f, QUIRE_OK, "", "");
  append_check(&f.call, &plain);
  close_fixture(&f);
}

/* ---- prepare ---- */

static quire_status prepare(append_fixture *f) {
  return quire_plan_prepare(f->call.plan, f->call.tensors, APPEND_SLOTS, f->workspace, NULL,
                            &f->error);
}

/* Only the integers that the schedule pass reads must be there. */
static void test_prepare(void **state) {
  (void)state;
  append_fixture f;
  open_fixture(&f, &plain);
  quire_tensor all[APPEND_SLOTS];
  memcpy(all, f.call.tensors, sizeof(all));
  memset(f.call.tensors, 0, sizeof(f.call.tensors));
  assert_int_equal(prepare(&f), QUIRE_BAD_REQUEST); /* lengths have no form */
  f.call.tensors[APPEND_LENGTHS] = all[APPEND_LENGTHS];
  assert_int_equal(prepare(&f), QUIRE_OK);
  f.call.tensors[APPEND_LENGTHS].data = NULL;
  assert_int_equal(prepare(&f), QUIRE_BAD_PRESENCE);
  assert_string_equal(f.error.subject, "lengths");
  f.call.tensors[APPEND_LENGTHS] = all[APPEND_LENGTHS];
  f.call.tensors[APPEND_CACHE] = all[APPEND_CACHE];
  f.call.tensors[APPEND_CACHE].dtype = QUIRE_FLOAT16;
  assert_int_equal(prepare(&f), QUIRE_BAD_REQUEST); /* what is there must fit */
  assert_string_equal(f.error.subject, "cache");
  f.call.tensors[APPEND_CACHE] = all[APPEND_CACHE];
  assert_int_equal(prepare(&f), QUIRE_OK);
  append_check_untouched(&f.call);

  memcpy(f.call.tensors, all, sizeof(all));
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_PREPARED;
  for (int layer = 0; layer < 3; layer++) {
    append_reset(&f.call);
    assert_int_equal(
        quire_plan_run(f.call.plan, f.call.tensors, APPEND_SLOTS, f.workspace, &options, NULL),
        QUIRE_OK);
    append_check(&f.call, &plain);
  }
  close_fixture(&f);
}

/* ---- in place ---- */

static void test_in_place(void **state) {
  (void)state;
  for (int padded = 0; padded < 2; padded++) {
    for (int listed = 0; listed < 2; listed++) {
      for (int output = APPEND_EMPTY; output <= APPEND_SEPARATE; output++) {
        append_options options = plain;
        options.padded = padded != 0;
        options.listed = listed != 0;
        options.output = (append_output)output;
        append_fixture f;
        open_fixture(&f, &options);
        for (int again = 0; again < 2; again++) {
          append_reset(&f.call);
          expect(&f, QUIRE_OK, "", "");
          append_check(&f.call, &options);
        }
        close_fixture(&f);
      }
    }
  }
}

/* A plan for a separate output of other strides is not one for working in place. */
static void test_in_place_other_strides(void **state) {
  (void)state;
  append_options options = plain;
  options.padded = options.listed = true;
  options.output = APPEND_SEPARATE;
  append_fixture f;
  open_fixture(&f, &options);
  f.call.tensors[APPEND_CACHE_OUT].data = NULL;
  expect(&f, QUIRE_BAD_REQUEST, "cache_out", "");
  f.call.tensors[APPEND_CACHE_OUT].data = f.call.cache;
  expect(&f, QUIRE_BAD_ALIAS, "cache_out", "TA-V2");
  append_check_untouched(&f.call);
  close_fixture(&f);
}

/* ---- overlaps ---- */

/* Buffers at element offsets in one array; -1: where it was. The cache has 60 elements, values 12,
   total and lengths 4. */
typedef struct overlap_case {
  const char *what;
  int cache, cache_out, values, total, lengths;
  quire_status status;
  const char *subject;
} overlap_case;

static const overlap_case overlap_cases[] = {
    {"side by side", 0, 60, 120, 132, 136, QUIRE_OK, ""},
    {"in place", 0, 0, 60, 72, 76, QUIRE_OK, ""},
    {"output partly over its input", 0, 59, 120, 132, 136, QUIRE_BAD_ALIAS, "cache_out"},
    {"output partly under its input", 59, 0, 120, 132, 136, QUIRE_BAD_ALIAS, "cache_out"},
    {"output over the other output", 0, 60, 120, 119, 136, QUIRE_BAD_ALIAS, "cache_out"},
    {"output in a read input", 0, 60, 120, 128, 136, QUIRE_BAD_ALIAS, "total"},
    {"output in the input that is copied", 0, 60, 120, 30, 136, QUIRE_BAD_ALIAS, "total"},
    {"input in the output", 0, 60, 100, 132, 136, QUIRE_BAD_ALIAS, "cache_out"},
    {"integers in a written cache", 0, 0, 120, 132, 58, QUIRE_BAD_ALIAS, "cache"},
    {"read inputs may meet", 0, 60, 120, 132, 120, QUIRE_OK, ""},
    {"the input that is copied may meet a read one", 0, 60, 8, 132, 136, QUIRE_OK, ""},
};

static void test_overlaps(void **state) {
  (void)state;
  append_options options = plain;
  options.output = APPEND_SEPARATE;
  append_fixture f;
  open_fixture(&f, &options);
  float room[256];
  for (size_t i = 0; i < sizeof(overlap_cases) / sizeof(overlap_cases[0]); i++) {
    const overlap_case *one = &overlap_cases[i];
    for (int k = 0; k < 256; k++) {
      room[k] = 0; /* lengths of 0: nothing is appended */
    }
    f.call.tensors[APPEND_CACHE].data = room + one->cache;
    f.call.tensors[APPEND_CACHE_OUT].data = room + one->cache_out;
    f.call.tensors[APPEND_VALUES].data = room + one->values;
    f.call.tensors[APPEND_TOTAL].data = room + one->total;
    f.call.tensors[APPEND_LENGTHS].data = room + one->lengths;
    print_message("%s\n", one->what);
    expect(&f, one->status, one->subject, "TA-V2");
  }
  close_fixture(&f);
}

static void test_workspace_overlap(void **state) {
  (void)state;
  append_fixture f;
  open_fixture(&f, &plain);
  static _Alignas(64) unsigned char memory[4096];
  quire_workspace_options options;
  quire_workspace_options_init(&options);
  options.memory = memory;
  options.bytes = sizeof(memory);
  quire_workspace_release(f.workspace);
  assert_int_equal(quire_workspace_create(f.h.device, &options, &f.workspace, NULL), QUIRE_OK);
  void *total = f.call.tensors[APPEND_TOTAL].data;
  f.call.tensors[APPEND_TOTAL].data = memory + 4096 - 16;
  expect(&f, QUIRE_BAD_ALIAS, "total", "TA-V2");
  f.call.tensors[APPEND_TOTAL].data = total;
  f.call.tensors[APPEND_LENGTHS].data = memory;
  expect(&f, QUIRE_BAD_ALIAS, "lengths", "TA-V2");
  assert_int_equal(prepare(&f), QUIRE_BAD_ALIAS);
  f.call.tensors[APPEND_LENGTHS].data = f.call.lengths;
  expect(&f, QUIRE_OK, "", "");
  close_fixture(&f);
}

static void test_may_alias(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  const int64_t shape[2] = {2, 3};
  float room[16];
  quire_workspace *workspace = make_workspace(&h);
  for (int alias = 0; alias < 2; alias++) {
    quire_plan *plan = scale_plan(&h, &h.scale, shape, 2, alias != 0);
    static const struct {
      int offset;
      quire_status status[2]; /* without, with alias in the request */
    } cases[] = {{0, {QUIRE_BAD_ALIAS, QUIRE_OK}},
                 {1, {QUIRE_BAD_ALIAS, QUIRE_BAD_REQUEST}},
                 {6, {QUIRE_OK, QUIRE_BAD_REQUEST}}};
    for (size_t i = 0; i < 3; i++) {
      for (int k = 0; k < 16; k++) {
        room[k] = (float)k;
      }
      float *y = room + cases[i].offset;
      quire_tensor tensors[] = {dense_tensor(room, QUIRE_FLOAT32, 2, shape),
                                dense_tensor(y, QUIRE_FLOAT32, 2, shape)};
      quire_error error;
      quire_status status = quire_plan_run(plan, tensors, 2, workspace, NULL, &error);
      assert_int_equal(status, cases[i].status[alias]);
      if (status == QUIRE_BAD_ALIAS) {
        assert_string_equal(error.rule, "TS-V2");
      }
      for (int k = 0; k < 6; k++) {
        assert_true(y[k] == (status == QUIRE_OK ? 2.0f * (float)k : (float)(k + cases[i].offset)));
      }
    }
    quire_plan_release(plan);
  }
  quire_workspace_release(workspace);
  harness_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),       cmocka_unit_test(test_free_strides),
      cmocka_unit_test(test_byte_offset), cmocka_unit_test(test_prepare),
      cmocka_unit_test(test_in_place),    cmocka_unit_test(test_in_place_other_strides),
      cmocka_unit_test(test_overlaps),    cmocka_unit_test(test_workspace_overlap),
      cmocka_unit_test(test_may_alias),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
