/*
 * What may not change a bit: how a call is cut into calls, the width of column blocks, sharing a
 * buffer, the company in a batch, ragged or padded form, pool or separate states (NU-7, NU-9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "linear_attention_harness.h"

enum {
  BATCH = 3,
  TOKENS = 9,
  Q_HEADS = 4,
  KV_HEADS = 2,
  KEY_HEADS = 1,
  DK = 19,
  DV = 21,
  STATE = KV_HEADS * DK * DV,
  OUT_ROW = Q_HEADS * DV,
  DECAY_WIDTH = KV_HEADS * DK,
  ALL_TOKENS = BATCH * TOKENS,
  ALL_STATES = BATCH * STATE
};

static float query[BATCH * TOKENS * Q_HEADS * DK];
static float key[BATCH * TOKENS * KEY_HEADS * DK];
static float value[BATCH * TOKENS * KV_HEADS * DV];
static float decay[BATCH * TOKENS * KV_HEADS * DK];
static float beta[BATCH * TOKENS * KV_HEADS];
static float past[BATCH * STATE];

static void fill(uint64_t *rng, float *values, size_t count, float low, float high,
                 quire_dtype type) {
  float *random = la_random_array(rng, count, low, high, type);
  memcpy(values, random, count * sizeof(float));
  free(random);
}

/* First element of state n of an array of states. */
static float *state_of(float *states, size_t n) {
  return states + n * STATE;
}

#define FILL(rng, array, low, high, type) \
  fill(rng, array, sizeof(array) / sizeof((array)[0]), low, high, type)

/* A call over the shared data; `types` 0: all f32, 1: f16 with f32 state, 2: all f16, 3: all bf16.
 */
static la_call make_call(la_rule rule, bool v_major, int types, float *output, float *present) {
  uint64_t rng = 7;
  quire_dtype type = types == 0 ? QUIRE_FLOAT32 : types == 3 ? QUIRE_BFLOAT16 : QUIRE_FLOAT16;
  quire_dtype state_type = types < 2 ? QUIRE_FLOAT32 : type;
  FILL(&rng, query, -1, 1, type);
  FILL(&rng, key, -0.3f, 0.3f, type);
  FILL(&rng, value, -1, 1, type);
  FILL(&rng, decay, -1, 0, type);
  FILL(&rng, beta, 0, 1, type);
  FILL(&rng, past, -1, 1, state_type);
  la_call call = {.rule = rule,
                  .type = type,
                  .state_type = state_type,
                  .batch = BATCH,
                  .tokens = TOKENS,
                  .q_heads = Q_HEADS,
                  .kv_heads = KV_HEADS,
                  .key_heads = KEY_HEADS,
                  .dk = DK,
                  .dv = DV,
                  .v_major = v_major,
                  .query = query,
                  .key = key,
                  .value = value,
                  .past = past,
                  .decay = decay,
                  .decay_width = DECAY_WIDTH,
                  .beta = beta};
  call.output = output;
  call.present = present;
  la_defaults(&call);
  return call;
}

/* Tokens [first, first + tokens) of batch row `row` alone. */
static la_call part_of(const la_call *whole, int64_t row, int64_t first, int64_t tokens) {
  la_call part = *whole;
  int64_t at = row * whole->tokens + first;
  part.batch = 1;
  part.tokens = tokens;
  part.query = whole->query + at * Q_HEADS * DK;
  part.key = whole->key + at * KEY_HEADS * DK;
  part.value = whole->value + at * KV_HEADS * DV;
  part.decay = whole->decay + at * whole->decay_width;
  part.beta = whole->beta + at * KV_HEADS;
  part.past = whole->past ? whole->past + row * STATE : NULL;
  part.output = whole->output + at * OUT_ROW;
  part.present = whole->present + row * STATE;
  return part;
}

static float output_a[BATCH * TOKENS * OUT_ROW], output_b[BATCH * TOKENS * OUT_ROW];
static float state_a[BATCH * STATE], state_b[BATCH * STATE];

static void run(la_call call) {
  assert_int_equal(la_run(&call, NULL), QUIRE_OK);
}

static void assert_same_bits(void) {
  assert_memory_equal(output_a, output_b, sizeof output_a);
  assert_memory_equal(state_a, state_b, sizeof state_a);
}

#define FOR_EACH_CALL(first_type, last_type)                 \
  for (int rule = LA_LINEAR; rule <= LA_GATED_DELTA; rule++) \
    for (int v_major = 0; v_major < 2; v_major++)            \
      for (int types = (first_type); types <= (last_type); types++)

/* LA-E20: with an f32 state a cut anywhere changes nothing. */
static void test_split(void **state) {
  (void)state;
  FOR_EACH_CALL(0, 1) {
    run(make_call((la_rule)rule, v_major, types, output_a, state_a));
    for (int64_t cut = 0; cut <= TOKENS; cut++) {
      la_call whole = make_call((la_rule)rule, v_major, types, output_b, state_b);
      for (int64_t row = 0; row < BATCH; row++) {
        la_call second = part_of(&whole, row, cut, TOKENS - cut);
        float middle[STATE];
        la_call first = part_of(&whole, row, 0, cut);
        first.present = middle;
        run(first);
        second.past = middle;
        run(second);
      }
      assert_same_bits();
    }
  }
}

static void test_column_blocks(void **state) {
  (void)state;
  FOR_EACH_CALL(0, 3) {
    run(make_call((la_rule)rule, v_major, types, output_a, state_a));
    for (uint32_t block = 1; block <= 24; block++) {
      la_call call = make_call((la_rule)rule, v_major, types, output_b, state_b);
      call.column_block = block;
      run(call);
      assert_same_bits();
    }
  }
}

/* LA-E21. */
static void test_in_place(void **state) {
  (void)state;
  FOR_EACH_CALL(0, 3) {
    run(make_call((la_rule)rule, v_major, types, output_a, state_a));
    la_call call = make_call((la_rule)rule, v_major, types, output_b, state_b);
    call.in_place = true;
    run(call);
    assert_same_bits();
  }
}

static void test_batch_rows_alone(void **state) {
  (void)state;
  FOR_EACH_CALL(0, 3) {
    run(make_call((la_rule)rule, v_major, types, output_a, state_a));
    la_call whole = make_call((la_rule)rule, v_major, types, output_b, state_b);
    for (int64_t row = BATCH - 1; row >= 0; row--) {
      run(part_of(&whole, row, 0, TOKENS));
    }
    assert_same_bits();
  }
}

/* X3: a ragged call equals the calls of its sequences, an empty one included. */
static void test_cu_seqlens(void **state) {
  (void)state;
  static const int32_t cu_seqlens[] = {0, 4, 4, BATCH * TOKENS};
  FOR_EACH_CALL(0, 3) {
    la_call ragged = make_call((la_rule)rule, v_major, types, output_a, state_a);
    ragged.batch = 1;
    ragged.tokens = ALL_TOKENS;
    ragged.cu_seqlens = cu_seqlens;
    ragged.sequences = 3;
    run(ragged);
    la_call parts = make_call((la_rule)rule, v_major, types, output_b, state_b);
    parts.tokens = ALL_TOKENS;
    for (size_t n = 0; n < 3; n++) {
      la_call part = part_of(&parts, 0, cu_seqlens[n], cu_seqlens[n + 1] - cu_seqlens[n]);
      part.past = state_of(past, n);
      part.present = state_of(state_b, n);
      run(part);
    }
    assert_same_bits();
  }
}

/* Rows of the inputs may lie apart. */
static void test_strides(void **state) {
  (void)state;
  FOR_EACH_CALL(0, 3) {
    run(make_call((la_rule)rule, v_major, types, output_a, state_a));
    la_call call = make_call((la_rule)rule, v_major, types, output_b, state_b);
    call.padding = 5;
    run(call);
    assert_same_bits();
  }
}

/* X4: a pool equals past and present states; sequence 1 reads and writes one slot, 2 begins. */
static void test_pool(void **state) {
  (void)state;
  static const int32_t reads[] = {3, 1, -1}, writes[] = {0, 1, 4};
  static float pool[5 * STATE], zeros[STATE];
  FOR_EACH_CALL(0, 3) {
    la_call separate = make_call((la_rule)rule, v_major, types, output_a, state_a);
    la_call call = make_call((la_rule)rule, v_major, types, output_b, state_b);
    memset(pool, 0, sizeof pool);
    for (size_t n = 0; n < 2; n++) {
      memcpy(state_of(pool, (size_t)reads[n]), state_of(past, n), sizeof zeros);
    }
    memcpy(state_of(past, 2), zeros, sizeof zeros);
    run(separate);
    call.past = NULL;
    call.pool = pool;
    call.pool_slots = 5;
    call.padding = v_major ? 3 : 0;
    call.read_indices = reads;
    call.write_indices = writes;
    run(call);
    for (size_t n = 0; n < BATCH; n++) {
      memcpy(state_of(state_b, n), state_of(pool, (size_t)writes[n]), sizeof zeros);
    }
    assert_same_bits();
    assert_memory_equal(state_of(pool, 3), past, sizeof zeros);
    assert_memory_equal(state_of(pool, 2), zeros, sizeof zeros);
  }
}

/* LA-E18: a decay of 0 leaves the rules without decay. */
static void test_no_decay(void **state) {
  (void)state;
  FOR_EACH_CALL(0, 3) {
    if (rule == LA_LINEAR || rule == LA_DELTA) {
      continue;
    }
    la_rule without = rule == LA_GATED ? LA_LINEAR : LA_DELTA;
    run(make_call(without, v_major, types, output_a, state_a));
    la_call call = make_call((la_rule)rule, v_major, types, output_b, state_b);
    memset(decay, 0, sizeof decay);
    run(call);
    assert_same_bits();
  }
}

/* Windows: slot s of a call equals the state after fewer tokens (rollback), outputs do not change.
 */
static void test_windows(void **state) {
  (void)state;
  static float slots[8 * BATCH * STATE];
  FOR_EACH_CALL(0, 3) {
    for (size_t window = 1; window <= 8; window += 3) {
      run(make_call((la_rule)rule, v_major, types, output_a, state_a));
      la_call windowed = make_call((la_rule)rule, v_major, types, output_b, slots);
      float *windowed_past = calloc(window * ALL_STATES, sizeof(float));
      memcpy(windowed_past + (window - 1) * ALL_STATES, past, sizeof past);
      windowed.window = (int64_t)window;
      windowed.past = windowed_past;
      run(windowed);
      free(windowed_past);
      memcpy(state_b, slots + (window - 1) * ALL_STATES, sizeof state_b);
      assert_same_bits();
      for (size_t slot = 0; slot < window; slot++) {
        la_call whole = make_call((la_rule)rule, v_major, types, output_b, state_b);
        for (int64_t row = 0; row < BATCH; row++) {
          run(part_of(&whole, row, 0, (int64_t)(TOKENS - window + slot + 1)));
        }
        assert_memory_equal(state_b, slots + slot * ALL_STATES, sizeof state_b);
      }
    }
  }
}

/* Tiled and blocked heads agree when every group has one member. */
static void test_head_mappings_agree(void **state) {
  (void)state;
  la_call blocked = make_call(LA_GATED_DELTA, false, 0, output_a, state_a);
  la_call tiled = make_call(LA_GATED_DELTA, false, 0, output_b, state_b);
  memset(output_a, 0, sizeof output_a);
  memset(output_b, 0, sizeof output_b);
  blocked.q_heads = tiled.q_heads = KV_HEADS;
  tiled.tiled = true;
  run(blocked);
  run(tiled);
  assert_same_bits();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_split),      cmocka_unit_test(test_column_blocks),
      cmocka_unit_test(test_in_place),   cmocka_unit_test(test_batch_rows_alone),
      cmocka_unit_test(test_cu_seqlens), cmocka_unit_test(test_strides),
      cmocka_unit_test(test_pool),       cmocka_unit_test(test_no_decay),
      cmocka_unit_test(test_windows),    cmocka_unit_test(test_head_mappings_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
