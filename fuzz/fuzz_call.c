/*
 * Typed calls on the CPU with arbitrary integers in every length, table, slot and index. All memory
 * has its exact size, so that AddressSanitizer sees each step outside. A call that is accepted must
 * keep sequences apart: every block that sequence `own` does not map holds SECRET, everything else
 * lies in [-1, 1], and so must be what `own` gets.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quire/quire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET 1e30F

/* ---- what the bytes say; zeros when they are used up ---- */

typedef struct source {
  const uint8_t *data;
  size_t left;
} source;

static int take(source *from, int count) {
  if (from->left == 0) {
    return 0;
  }
  from->left--;
  return *from->data++ % count;
}

/* Mostly an index that may be right, sometimes anything. */
static int32_t take_integer(source *from) {
  const int kind = take(from, 256);
  if (kind < 240) {
    return kind % 12 - 1;
  }
  static const int32_t corners[] = {INT32_MIN, INT32_MAX, -2, 1 << 30, 65536, 255};
  if (kind < 252) {
    return corners[kind % 6];
  }
  uint32_t bits = 0;
  for (int i = 0; i < 4; i++) {
    bits = bits << 8 | (uint32_t)take(from, 256);
  }
  return (int32_t)bits;
}

/* ---- tensors in memory of their own ---- */

enum { TENSORS = 24 };

typedef struct memory {
  void *blocks[TENSORS];
  int64_t shapes[TENSORS][5];
  int count;
} memory;

static quire_tensor make(memory *m, quire_dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                         int64_t d) {
  const int i = m->count++;
  const int64_t shape[] = {a, b, c, d, 1};
  size_t elements = 1;
  for (int j = 0; j < rank; j++) {
    elements *= (size_t)shape[j];
  }
  memcpy(m->shapes[i], shape, sizeof shape);
  m->blocks[i] = malloc(elements * quire_dtype_size(dtype) + (elements == 0));
  if (m->blocks[i] == NULL) {
    abort();
  }
  memset(m->blocks[i], 0, elements * quire_dtype_size(dtype));
  return (quire_tensor){m->blocks[i], 0, dtype, rank, m->shapes[i], NULL};
}

static size_t count_of(const quire_tensor *tensor) {
  size_t elements = 1;
  for (int i = 0; i < tensor->ndim; i++) {
    elements *= (size_t)tensor->shape[i];
  }
  return elements;
}

static quire_tensor make_floats(memory *m, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  quire_tensor tensor = make(m, QUIRE_FLOAT32, rank, a, b, c, d);
  float *values = tensor.data;
  for (size_t i = 0; i < count_of(&tensor); i++) {
    values[i] = (float)((int)(i * 7 % 31) - 15) / 15;
  }
  return tensor;
}

static quire_tensor make_integers(memory *m, source *from, int rank, int64_t a, int64_t b) {
  quire_tensor tensor = make(m, QUIRE_INT32, rank, a, b, 1, 1);
  int32_t *values = tensor.data;
  for (size_t i = 0; i < count_of(&tensor); i++) {
    values[i] = take_integer(from);
  }
  return tensor;
}

/* Prefix sums of small counts, now and then broken: what checks let through must be reached. */
static quire_tensor make_offsets(memory *m, source *from, int64_t sequences, int64_t tokens) {
  quire_tensor tensor = make(m, QUIRE_INT32, 1, sequences + 1, 1, 1, 1);
  int32_t *values = tensor.data;
  for (int64_t i = 1; i < sequences; i++) {
    values[i] = values[i - 1] + take(from, (int)(tokens - values[i - 1]) + 1);
  }
  values[sequences] = (int32_t)tokens;
  if (take(from, 8) == 1) {
    values[take(from, (int)sequences + 1)] = take_integer(from);
  }
  return tensor;
}

static void release(memory *m) {
  for (int i = 0; i < m->count; i++) {
    free(m->blocks[i]);
  }
}

static void expect_small(const float *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!(fabsf(values[i]) <= 2)) {
      abort(); /* what another sequence owns */
    }
  }
}

/* Fills the slots of `stride` floats that no entry of `mapped` names. */
static void plant(quire_tensor *tensor, size_t slots, const int32_t *mapped, int64_t count) {
  const size_t stride = count_of(tensor) / (slots > 0 ? slots : 1);
  for (size_t slot = 0; slot < slots; slot++) {
    int own = 0;
    for (int64_t i = 0; i < count; i++) {
      own |= mapped[i] == (int32_t)slot;
    }
    for (size_t i = 0; i < stride && !own; i++) {
      ((float *)tensor->data)[slot * stride + i] = SECRET;
    }
  }
}

/* ---- operators ---- */

enum { HEADS = 2, D = 8 };

static void call_paged_attention(quire_device *device, source *from) {
  memory m = {{NULL}, {{0}}, 0};
  const int64_t tokens = take(from, 6), sequences = 1 + take(from, 3), rows = 1 + take(from, 4);
  const int64_t blocks = 1 + take(from, 8), columns = 1 + take(from, 5);
  const int64_t width = (int64_t)HEADS * D, own = take(from, (int)sequences);
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  args.query = make_floats(&m, 2, tokens, 2 * width, 1, 1);
  args.key = make_floats(&m, 2, tokens, width, 1, 1);
  args.value = make_floats(&m, 2, tokens, width, 1, 1);
  args.key_cache = make_floats(&m, 4, blocks, rows, HEADS, D);
  args.value_cache = make_floats(&m, 4, blocks, rows, HEADS, D);
  args.cumulative_sequence_length = make_offsets(&m, from, sequences, tokens);
  args.past_seqlens = make_integers(&m, from, 1, sequences, 1);
  args.block_table = make_integers(&m, from, 2, sequences, columns);
  if (take(from, 2)) {
    args.slot_mapping = make_integers(&m, from, 1, tokens, 1);
  }
  args.output = make(&m, QUIRE_FLOAT32, 2, tokens, 2 * width, 1, 1);
  args.num_heads = (int64_t)2 * HEADS;
  args.kv_num_heads = HEADS;
  args.is_causal = take(from, 4) != 1;
  args.local_window_size = take(from, 4) == 1 ? 1 + take(from, 8) : -1;
  const int32_t *table = args.block_table.data, *offsets = args.cumulative_sequence_length.data;
  plant(&args.key_cache, (size_t)blocks, table + own * columns, columns);
  plant(&args.value_cache, (size_t)blocks, table + own * columns, columns);
  if (quire_paged_attention(device, &args, NULL) == QUIRE_OK) {
    const size_t first = (size_t)offsets[own], last = (size_t)offsets[own + 1];
    expect_small((const float *)args.output.data + first * 2 * (size_t)width,
                 (last - first) * 2 * (size_t)width);
  }
  release(&m);
}

static void call_paged_decode(quire_device *device, source *from) {
  memory m = {{NULL}, {{0}}, 0};
  const int64_t sequences = 1 + take(from, 3), rows = 1 + take(from, 4);
  const int64_t pages = 1 + take(from, 8), columns = 1 + take(from, 5);
  const int64_t own = take(from, (int)sequences);
  quire_paged_decode_args args;
  quire_paged_decode_args_init(&args);
  args.query = make_floats(&m, 3, sequences, HEADS, D, 1);
  args.key_pages = make_floats(&m, 4, 1, pages, rows, D);
  args.value_pages = make_floats(&m, 4, 1, pages, rows, D);
  args.page_table = make_integers(&m, from, 2, sequences, columns);
  args.context_lengths = make_integers(&m, from, 1, sequences, 1);
  args.output = make(&m, QUIRE_FLOAT32, 3, sequences, HEADS, D, 1);
  args.scale = 0.3F;
  args.partial_blocks = take(from, 4);
  args.local_window_size = take(from, 4) == 1 ? 1 + take(from, 8) : -1;
  const int32_t *table = args.page_table.data;
  plant(&args.key_pages, (size_t)pages, table + own * columns, columns);
  plant(&args.value_pages, (size_t)pages, table + own * columns, columns);
  if (quire_paged_decode(device, &args, NULL) == QUIRE_OK) {
    expect_small((const float *)args.output.data + own * HEADS * D, (size_t)HEADS * D);
  }
  release(&m);
}

/* The slot that a sequence reads; everything else in the pool is secret. */
static void plant_states(quire_tensor *pool, const quire_tensor *reads, int64_t own) {
  plant(pool, (size_t)pool->shape[0], (const int32_t *)reads->data + own, 1);
}

static void call_linear_attention(quire_device *device, source *from) {
  memory m = {{NULL}, {{0}}, 0};
  const int64_t tokens = take(from, 6), sequences = 1 + take(from, 3), slots = 1 + take(from, 8);
  const int64_t window = take(from, 3), own = take(from, (int)sequences);
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  args.query = make_floats(&m, 3, 1, tokens, (int64_t)HEADS * D, 1);
  args.key = make_floats(&m, 3, 1, tokens, (int64_t)HEADS * D, 1);
  args.value = make_floats(&m, 3, 1, tokens, (int64_t)HEADS * D, 1);
  args.decay = make_floats(&m, 3, 1, tokens, HEADS, 1);
  args.beta = make_floats(&m, 3, 1, tokens, HEADS, 1);
  args.cu_seqlens = make_offsets(&m, from, sequences, tokens);
  args.state_pool = make_floats(&m, 4, slots, HEADS, D, D);
  args.read_indices = make_integers(&m, from, 1, sequences, 1);
  args.write_indices = make_integers(&m, from, window > 0 ? 2 : 1, sequences, window);
  args.output = make(&m, QUIRE_FLOAT32, 3, 1, tokens, (int64_t)HEADS * D, 1);
  args.q_num_heads = HEADS;
  args.kv_num_heads = HEADS;
  args.state_window = window;
  args.update_rule = "gated";
  const int32_t *offsets = args.cu_seqlens.data;
  plant_states(&args.state_pool, &args.read_indices, own);
  if (quire_linear_attention(device, &args, NULL) == QUIRE_OK) {
    const float *output = args.output.data;
    for (int64_t i = (int64_t)offsets[own] * HEADS * D; i < (int64_t)offsets[own + 1] * HEADS * D;
         i++) {
      if (!(fabsf(output[i]) < 1e6F)) {
        abort();
      }
    }
  }
  release(&m);
}

static void call_causal_conv(quire_device *device, source *from) {
  enum { CHANNELS = 5, TAPS = 4 };
  memory m = {{NULL}, {{0}}, 0};
  const int64_t tokens = take(from, 6), sequences = 1 + take(from, 3), slots = 1 + take(from, 8);
  const int64_t window = take(from, 3), own = take(from, (int)sequences);
  quire_causal_conv_with_state_args args;
  quire_causal_conv_with_state_args_init(&args);
  args.input = make_floats(&m, 3, 1, tokens, CHANNELS, 1);
  args.weight = make_floats(&m, 3, CHANNELS, 1, TAPS, 1);
  args.cu_seqlens = make_offsets(&m, from, sequences, tokens);
  args.state_pool = make_floats(&m, 3, slots, TAPS - 1, CHANNELS, 1);
  args.read_indices = make_integers(&m, from, 1, sequences, 1);
  args.write_indices = make_integers(&m, from, window > 0 ? 2 : 1, sequences, window);
  args.output = make(&m, QUIRE_FLOAT32, 3, 1, tokens, CHANNELS, 1);
  args.channels_last = 1;
  args.state_window = window;
  const int32_t *offsets = args.cu_seqlens.data;
  plant_states(&args.state_pool, &args.read_indices, own);
  if (quire_causal_conv_with_state(device, &args, NULL) == QUIRE_OK) {
    const float *output = args.output.data;
    for (int64_t i = (int64_t)offsets[own] * CHANNELS; i < (int64_t)offsets[own + 1] * CHANNELS;
         i++) {
      if (!(fabsf(output[i]) <= TAPS + 1)) {
        abort();
      }
    }
  }
  release(&m);
}

static void call_replay(quire_device *device, source *from) {
  memory m = {{NULL}, {{0}}, 0};
  const int64_t tokens = take(from, 6), sequences = 1 + take(from, 3), slots = 1 + take(from, 8);
  quire_linear_attention_replay_args args;
  quire_linear_attention_replay_args_init(&args);
  args.log_key = make_floats(&m, 3, 1, tokens, (int64_t)HEADS * D, 1);
  args.log_value = make_floats(&m, 3, 1, tokens, (int64_t)HEADS * D, 1);
  args.accepted = make_integers(&m, from, 1, sequences, 1);
  args.cu_seqlens = make_offsets(&m, from, sequences, tokens);
  args.state_pool = make_floats(&m, 4, slots, HEADS, D, D);
  args.read_indices = make_integers(&m, from, 1, sequences, 1);
  args.write_indices = make_integers(&m, from, 1, sequences, 1);
  args.kv_num_heads = HEADS;
  quire_linear_attention_replay(device, &args, NULL);
  release(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static quire_context *context;
  static quire_device *devices[2]; /* the reference, and the best that the machine has */
  if (context == NULL) {
    quire_device_options options;
    quire_device_options_init(&options);
    options.threads = 1;
    options.isa = QUIRE_ISA_SCALAR;
    if (quire_context_create(NULL, &context, NULL) != QUIRE_OK ||
        quire_device_open(context, "cpu", &options, &devices[0], NULL) != QUIRE_OK) {
      abort();
    }
    options.isa = QUIRE_ISA_BEST;
    if (quire_device_open(context, "cpu", &options, &devices[1], NULL) != QUIRE_OK) {
      abort();
    }
  }
  static void (*const calls[])(quire_device *, source *) = {call_paged_attention, call_paged_decode,
                                                            call_linear_attention, call_causal_conv,
                                                            call_replay};
  source from = {data, size};
  quire_device *device = devices[take(&from, 2)];
  calls[take(&from, 5)](device, &from);
  return 0;
}
