/* LinearAttention, gated delta rule with its gates: new tokens of each sequence as below. */
#include <stdlib.h>

#include "bench_memory.h"
#include "failure.h"
#include "files.h"
#include "quire/operators.h"
#include "same_bits.h"

enum {
  SEQUENCES = 6,
  KEY_HEADS = 4,
  HEADS = 8,
  SIZE = 128,
  STATE = HEADS * SIZE * SIZE,
  KEY_ROW = KEY_HEADS * SIZE,
  ROW = HEADS * SIZE,
  GAP = 64
};

static const int64_t fresh[SEQUENCES] = {1, 1, 4, 8, 37, 64};

/* Tensors of the rows of a call, in this order. */
enum { QUERY, KEY, VALUE, DECAY, BETA, TENSORS };
static const int64_t widths[TENSORS] = {KEY_ROW, KEY_ROW, ROW, HEADS, HEADS};

typedef struct layout {
  quire_device *device;
  const bits_variation *variation;
  bits_work work;
  quire_dtype dtype;
  size_t element;
  unsigned char *rows[TENSORS], *output;
  float *pool; /* a slot to read and one to write for each sequence */
  int64_t slot_stride;
  int32_t slots[2 * SEQUENCES];
  float a_log[HEADS], bias[HEADS];
} layout;

static void fill_states(layout *of) {
  bench_random gates = {77};
  quire_bits_order(of->variation->shuffle, (size_t)2 * SEQUENCES, of->slots);
  quire_bench_fill_normal(&gates, QUIRE_FLOAT32, of->a_log, HEADS, 0.5f);
  quire_bench_fill_normal(&gates, QUIRE_FLOAT32, of->bias, HEADS, 0.5f);
  for (size_t s = 0; s < SEQUENCES; ++s) {
    bench_random random = {1000 + s};
    quire_bench_fill_normal(&random, QUIRE_FLOAT32, of->pool + of->slots[s] * of->slot_stride,
                            STATE, 0.1f);
  }
}

static void set_tensors(const layout *of, int64_t shapes[TENSORS + 1][3], int64_t total,
                        quire_linear_attention_args *args) {
  quire_tensor *const targets[TENSORS] = {&args->query, &args->key, &args->value, &args->decay,
                                          &args->beta};
  for (int i = 0; i <= TENSORS; ++i) {
    shapes[i][0] = 1;
    shapes[i][1] = total;
    shapes[i][2] = i < TENSORS ? widths[i] : ROW;
    const quire_tensor tensor = {
        i < TENSORS ? of->rows[i] : of->output, 0, of->dtype, 3, shapes[i], NULL};
    *(i < TENSORS ? targets[i] : &args->output) = tensor;
  }
}

static void hash_rows(const layout *of, const bits_part *parts, size_t count, bits_rows *rows) {
  int64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t sequence = parts[i].sequence;
    uint64_t *hashes = rows->hashes + quire_bits_place(&of->work, &parts[i]);
    for (int64_t t = 0; t < parts[i].count; ++t, ++at) {
      uint64_t hash = quire_bits_hash(0, of->output + (size_t)(at * ROW) * of->element,
                                      (size_t)ROW * of->element);
      if (parts[i].first + t + 1 == fresh[sequence]) { /* the last row vouches for the state */
        hash = quire_bits_hash(hash, of->pool + of->slots[SEQUENCES + sequence] * of->slot_stride,
                               sizeof(float) * STATE);
      }
      hashes[t] = hash;
    }
  }
}

static quire_status call(void *user, const bits_part *parts, size_t count, bits_rows *rows,
                         quire_error *error) {
  layout *of = user;
  int32_t offsets[SEQUENCES + 1] = {0};
  int32_t reads[SEQUENCES];
  int32_t writes[SEQUENCES];
  int64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t s = parts[i].sequence;
    for (int64_t t = 0; t < parts[i].count * TENSORS; ++t) {
      const int kind = (int)(t % TENSORS);
      quire_bits_fill_row(
          of->dtype, s, parts[i].first + t / TENSORS, kind, widths[kind],
          of->rows[kind] + (size_t)((total + t / TENSORS) * widths[kind]) * of->element);
    }
    total += parts[i].count;
    offsets[i + 1] = (int32_t)total;
    writes[i] = of->slots[SEQUENCES + s];
    reads[i] = parts[i].first > 0 ? writes[i] : of->slots[s];
  }
  int64_t shapes[TENSORS + 1][3];
  const int64_t calls = (int64_t)count;
  const int64_t ends = calls + 1;
  const int64_t heads = HEADS;
  const int64_t pool_shape[4] = {(int64_t)2 * SEQUENCES, HEADS, SIZE, SIZE};
  const int64_t pool_strides[4] = {of->slot_stride, (int64_t)SIZE * SIZE, SIZE, 1};
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  set_tensors(of, shapes, total, &args);
  args.cu_seqlens = (quire_tensor){offsets, 0, QUIRE_INT32, 1, &ends, NULL};
  args.state_pool = (quire_tensor){of->pool, 0, QUIRE_FLOAT32, 4, pool_shape, pool_strides};
  args.read_indices = (quire_tensor){reads, 0, QUIRE_INT32, 1, &calls, NULL};
  args.write_indices = (quire_tensor){writes, 0, QUIRE_INT32, 1, &calls, NULL};
  args.a_log = (quire_tensor){of->a_log, 0, QUIRE_FLOAT32, 1, &heads, NULL};
  args.dt_bias = (quire_tensor){of->bias, 0, QUIRE_FLOAT32, 1, &heads, NULL};
  args.q_num_heads = KEY_HEADS;
  args.kv_num_heads = HEADS;
  args.gate_activation = "qwen";
  args.beta_activation = "sigmoid";
  args.qk_l2_norm = 1;
  const uint64_t begin = quire_clock_nanoseconds();
  const quire_status status = quire_linear_attention(of->device, &args, error);
  rows->nanoseconds += quire_clock_nanoseconds() - begin;
  if (status == QUIRE_OK) {
    hash_rows(of, parts, count, rows);
  }
  return status;
}

/* Cut anywhere: no bit may change. */
static int64_t piece(size_t sequence, int64_t done, size_t calls) {
  static const int64_t pieces[] = {1, 2, 5, 9};
  (void)done;
  return pieces[(calls + sequence) % 4];
}

quire_status quire_bits_run_linear(quire_device *device, quire_dtype dtype,
                                   const bits_variation *variation, bits_rows *rows,
                                   quire_error *error) {
  layout of = {.device = device,
               .variation = variation,
               .work = {variation, SEQUENCES, fresh, piece, call, &of},
               .dtype = dtype,
               .element = quire_dtype_size(dtype)};
  quire_status status = QUIRE_OK;
  int has_memory = 1;
  const size_t count = quire_bits_row_count(&of.work);
  of.slot_stride = STATE + (variation->is_apart ? GAP : 0);
  const size_t pool_bytes = 2 * (size_t)SEQUENCES * (size_t)of.slot_stride * sizeof(float);
  of.pool = quire_bench_memory_new(pool_bytes);
  of.output = malloc(count * ROW * of.element);
  for (int i = 0; i < TENSORS; ++i) {
    of.rows[i] = malloc(count * (size_t)widths[i] * of.element);
    has_memory = has_memory && of.rows[i];
  }
  if (has_memory && of.pool && of.output) {
    fill_states(&of);
    status = quire_bits_run(&of.work, rows, error);
  } else {
    status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the problem");
  }
  for (int i = 0; i < TENSORS; ++i) {
    free(of.rows[i]);
  }
  free(of.output);
  quire_bench_memory_release(of.pool, pool_bytes);
  return status;
}
