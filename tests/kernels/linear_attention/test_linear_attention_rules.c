/*
 * Every rule, form of decay, layout, type and head mapping against the definition in float64, on
 * random shapes. The case is printed when it fails.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "linear_attention_harness.h"

static const uint64_t seed = 20240611;

typedef struct random_case {
  la_call call;
  float *arrays[9];
  char text[200];
} random_case;

static float *array(random_case *rc, size_t index, uint64_t *rng, int64_t count, float low,
                    float high, quire_dtype type) {
  rc->arrays[index] = la_random_array(rng, (size_t)count, low, high, type);
  return rc->arrays[index];
}

static int64_t pick(uint64_t *rng, int64_t low, int64_t high) {
  return low + (int64_t)(la_random(rng) % (uint64_t)(high - low + 1));
}

static void choose_heads(la_call *c, uint64_t *rng) {
  static const int64_t heads[][3] = {{1, 1, 1}, {2, 2, 2}, {4, 2, 1}, {6, 3, 3}, {2, 8, 4},
                                     {1, 4, 2}, {3, 1, 1}, {2, 4, 1}, {2, 2, 1}};
  const int64_t *row = heads[la_random(rng) % (sizeof heads / sizeof heads[0])];
  c->q_heads = row[0];
  c->kv_heads = row[1];
  c->key_heads = row[2];
}

static void fill_arrays(random_case *rc, uint64_t *rng) {
  la_call *c = &rc->call;
  int64_t rows = c->batch * c->tokens;
  float reach = 1.0f / sqrtf((float)c->dk);
  c->query = array(rc, 0, rng, rows * c->q_heads * c->dk, -1, 1, c->type);
  c->key = array(rc, 1, rng, rows * c->key_heads * c->dk, -reach, reach, c->type);
  c->value = array(rc, 2, rng, rows * c->kv_heads * c->dv, -1, 1, c->type);
  c->decay = array(rc, 3, rng, rows * c->decay_width, -2, 0, c->type);
  c->beta = array(rc, 4, rng, rows * c->beta_width, 0, 1, c->type);
  c->a_log = array(rc, 5, rng, c->kv_heads, -1, 1, QUIRE_FLOAT32);
  c->dt_bias = array(rc, 6, rng, c->dt_bias_width, -1, 1, QUIRE_FLOAT32);
  if (pick(rng, 0, 3) > 0) {
    c->past = array(rc, 7, rng, (int64_t)la_state_count(c), -1, 1, c->state_type);
  }
}

static random_case make_case(uint64_t *rng, la_rule rule, bool per_channel, quire_dtype type,
                             quire_dtype state_type, bool v_major) {
  static const int64_t sizes[] = {1, 2, 3, 5, 8, 17, 33};
  random_case rc;
  memset(&rc, 0, sizeof rc);
  la_call *c = &rc.call;
  c->rule = rule;
  c->type = type;
  c->state_type = state_type;
  c->v_major = v_major;
  choose_heads(c, rng);
  c->tiled = pick(rng, 0, 3) == 0;
  c->dk = sizes[la_random(rng) % 7];
  c->dv = sizes[la_random(rng) % 7];
  c->batch = pick(rng, 1, 3);
  c->tokens = pick(rng, 1, 12);
  c->window = pick(rng, 0, 1) ? pick(rng, 1, 8) : 0;
  c->scale = pick(rng, 0, 1) ? la_uniform(rng, -2, 2) : 0;
  c->decay_width = per_channel ? c->kv_heads * c->dk : c->kv_heads;
  c->beta_width = pick(rng, 0, 1) ? 1 : c->kv_heads;
  c->gate = (int)pick(rng, 0, 1);
  c->beta_activation = (int)pick(rng, 0, 2);
  c->dt_bias_width = pick(rng, 0, 1) ? c->kv_heads * c->dk : c->kv_heads;
  c->l2_norm = (int)pick(rng, 0, 1);
  c->epsilon = 1e-6f;
  c->column_block = (uint32_t)pick(rng, 1, 40);
  la_defaults(c);
  fill_arrays(&rc, rng);
  (void)snprintf(
      rc.text, sizeof rc.text,
      "rule %d %s/%s heads %d/%d/%d dk %d dv %d B %d T %d W %d v_major %d tiled %d gate %d "
      "beta %d norm %d past %d",
      (int)rule, quire_dtype_name(type), quire_dtype_name(state_type), (int)c->q_heads,
      (int)c->kv_heads, (int)c->key_heads, (int)c->dk, (int)c->dv, (int)c->batch, (int)c->tokens,
      (int)c->window, v_major, c->tiled, c->gate, c->beta_activation, c->l2_norm, c->past != NULL);
  return rc;
}

/* One rounding of an f32 result: one unit in the last place, and 2e-6 of the largest magnitude. */
static void compare(const random_case *rc, const char *what, const float *got, const double *want,
                    size_t count, quire_dtype type) {
  double unit = type == QUIRE_FLOAT32 ? 1e-6 : type == QUIRE_FLOAT16 ? 0x1p-10 : 0x1p-7;
  double largest = 0;
  size_t worst = 0;
  double worst_excess = 0;
  for (size_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs(want[i]));
  }
  for (size_t i = 0; i < count; i++) {
    double excess = fabs((double)got[i] - want[i]) - unit * fabs(want[i]) - 2e-6 * largest;
    if (!(excess <= 0) && !(excess <= worst_excess)) {
      worst = i;
      worst_excess = excess;
    }
  }
  if (worst_excess != 0) {
    fail_msg("%s: %s[%zu] is %.9g, expected %.9g", rc->text, what, worst, (double)got[worst],
             want[worst]);
  }
}

static void check_case(random_case *rc) {
  la_call *c = &rc->call;
  size_t outputs = la_output_count(c), states = la_state_count(c);
  double *want = malloc((outputs + states) * sizeof(double));
  float *got = malloc((outputs + states) * sizeof(float));
  for (size_t i = 0; i < outputs + states; i++) {
    got[i] = NAN; /* what is not written shows */
  }
  c->output = got;
  c->present = got + outputs;
  la_reference(c, want, want + outputs, NULL);
  assert_int_equal(la_run(c, NULL), QUIRE_OK);
  compare(rc, "output", got, want, outputs, c->type);
  compare(rc, "present_state", got + outputs, want + outputs, states, c->state_type);
  free(want);
  free(got);
  for (size_t i = 0; i < sizeof rc->arrays / sizeof rc->arrays[0]; i++) {
    free(rc->arrays[i]);
  }
}

static void test_all(void **state) {
  (void)state;
  static const quire_dtype types[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  uint64_t rng = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < 4 * 2 * 9 * 2 * 3; n++) {
    int kind = n / 3;
    random_case rc = make_case(&rng, (la_rule)(kind % 4), kind / 4 % 2 != 0, types[kind / 8 % 3],
                               types[kind / 24 % 3], kind / 72 % 2 != 0);
    check_case(&rc);
  }
}

/* dk so large that an item's work lies in the workspace, not on the stack. */
static void test_large_key_size(void **state) {
  (void)state;
  static const int64_t sizes[] = {2049, 9001};
  uint64_t rng = seed;
  for (int n = 0; n < 4; n++) {
    random_case rc;
    memset(&rc, 0, sizeof rc);
    la_call *c = &rc.call;
    c->rule = LA_GATED_DELTA;
    c->dk = sizes[n / 2];
    c->dv = 3;
    c->tokens = 3;
    c->kv_heads = 2;
    c->column_block = 2;
    c->v_major = n % 2 != 0;
    la_defaults(c);
    (void)snprintf(rc.text, sizeof rc.text, "dk %d v_major %d", (int)c->dk, c->v_major);
    fill_arrays(&rc, &rng);
    check_case(&rc);
  }
}

/*
 * Mamba-2's state space recurrence under other names: h = exp(dt*A) h + B (dt*x)^T, y = C^T h. That
 * is the rule `gated` with q = C, k = B, v = dt*x, decay = dt*A and scale 1, computed here the way
 * a state space model writes it.
 */
static void test_mamba_2(void **state) {
  (void)state;
  enum { TOKENS = 7, HEADS = 2, STATE = 5, CHANNELS = 3, RESULTS = TOKENS * HEADS * CHANNELS };
  uint64_t rng = seed;
  float c_rows[TOKENS * STATE], b_rows[TOKENS * STATE], v[TOKENS * HEADS * CHANNELS];
  float decay[TOKENS * HEADS], y[TOKENS * HEADS * CHANNELS], last[HEADS * STATE * CHANNELS];
  double h[HEADS][CHANNELS][STATE] = {{{0}}};
  double want[TOKENS * HEADS * CHANNELS];
  for (int t = 0; t < TOKENS; t++) {
    for (int i = 0; i < STATE; i++) {
      b_rows[t * STATE + i] = la_uniform(&rng, -1, 1);
      c_rows[t * STATE + i] = la_uniform(&rng, -1, 1);
    }
    for (int head = 0; head < HEADS; head++) {
      float dt = la_uniform(&rng, 0.01f, 0.5f);
      float a = -1.0f - (float)head;
      decay[t * HEADS + head] = dt * a;
      for (int p = 0; p < CHANNELS; p++) {
        float x = la_uniform(&rng, -1, 1);
        int out = (t * HEADS + head) * CHANNELS + p;
        v[out] = dt * x;
        want[out] = 0;
        for (int i = 0; i < STATE; i++) {
          double step = (double)dt * (double)x * (double)b_rows[t * STATE + i];
          h[head][p][i] = exp((double)dt * (double)a) * h[head][p][i] + step;
          want[out] += (double)c_rows[t * STATE + i] * h[head][p][i];
        }
      }
    }
  }
  random_case rc = {.text = "Mamba-2"};
  la_call call = {.rule = LA_GATED,
                  .tokens = TOKENS,
                  .q_heads = 1,
                  .key_heads = 1,
                  .kv_heads = HEADS,
                  .dk = STATE,
                  .dv = CHANNELS,
                  .scale = 1,
                  .query = c_rows,
                  .key = b_rows,
                  .value = v,
                  .decay = decay,
                  .output = y,
                  .present = last};
  la_defaults(&call);
  assert_int_equal(la_run(&call, NULL), QUIRE_OK);
  compare(&rc, "y", y, want, RESULTS, QUIRE_FLOAT32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all),
      cmocka_unit_test(test_large_key_size),
      cmocka_unit_test(test_mamba_2),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
