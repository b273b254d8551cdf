/*
 * The probes' loops over one instruction set. The including file defines VECTOR, WIDTH, LOAD,
 * STORE, ADD, MULTIPLY, MULTIPLY_ADD, SPREAD, KERNELS and ISA. Everything stays in registers: a
 * loop has as many independent chains as hide the latency of an operation.
 */
#include "bench_probe.h"

/* Elements, counted like what they are compared with. */
#define LANES ((size_t)WIDTH)

#define REPEAT(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define REPEAT_MORE(M) REPEAT(M) M(8) M(9) M(10) M(11)

static float fold(VECTOR value) {
  float lanes[WIDTH];
  float sum = 0;
  STORE(lanes, value);
  for (int i = 0; i < WIDTH; ++i) {
    sum += lanes[i];
  }
  return sum;
}

static float read_all(const float *data, size_t count) {
#define BEGIN(k) VECTOR sum##k = SPREAD(0.0f);
#define STEP(k) sum##k = ADD(sum##k, LOAD(data + i + (k)*LANES));
#define END(k) total = ADD(total, sum##k);
  REPEAT(BEGIN)
  for (size_t i = 0; i + 8 * LANES <= count; i += 8 * LANES) {
    REPEAT(STEP)
  }
  VECTOR total = SPREAD(0.0f);
  REPEAT(END)
#undef BEGIN
#undef STEP
#undef END
  return fold(total);
}

static void update_all(float *data, size_t count) {
  const VECTOR factor = SPREAD(1.0000001f);
#define STEP(k) STORE(data + i + (k)*LANES, MULTIPLY(factor, LOAD(data + i + (k)*LANES)));
  for (size_t i = 0; i + 8 * LANES <= count; i += 8 * LANES) {
    REPEAT(STEP)
  }
#undef STEP
}

static float multiply_all(float given, size_t rounds) {
  const VECTOR factor = SPREAD(given);
  const VECTOR term = SPREAD(1 - given);
#define BEGIN(k) VECTOR chain##k = SPREAD((float)(k));
#define STEP(k) chain##k = MULTIPLY_ADD(chain##k, factor, term);
#define END(k) total = ADD(total, chain##k);
  REPEAT_MORE(BEGIN)
  for (size_t i = 0; i < rounds; ++i) {
    REPEAT_MORE(STEP)
  }
  VECTOR total = SPREAD(0.0f);
  REPEAT_MORE(END)
#undef BEGIN
#undef STEP
#undef END
  return fold(total);
}

const bench_probe_kernels KERNELS = {.isa = ISA,
                                     .read = read_all,
                                     .update = update_all,
                                     .multiply = multiply_all,
                                     .flops_per_round = 2.0 * 12 * WIDTH};
