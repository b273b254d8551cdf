/*
 * Typed calls on the CPU with arbitrary integers in every length, table, slot and index. A call
 * that is accepted must keep sequences apart: every block that sequence `own` does not map holds a
 * secret, everything else lies in [-1, 1], and so must be what `own` gets.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "call_tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADS = 2, LARGEST_INT8 = 128 /* times a scale of at most 1 */ };

static quire_dtype take_dtype(source *from) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  return floats[take(from, 3)];
}

static int64_t take_size(source *from) {
  static const int64_t sizes[] = {8, 1, 20, 64};
  return sizes[take(from, 4)];
}

/* Few, mostly; sometimes what the kernels for many take. */
static int64_t take_tokens(source *from) {
  return take(from, 8) == 1 ? 9 + take(from, 60) : take(from, 6);
}

/* What an attribute should be, now and then anything. */
static int64_t take_attribute(source *from, int64_t right) {
  return take(from, 64) == 1 ? take_integer(from) : right;
}

static void make_scales(memory *m, quire_paged_attention_args *args, source *from) {
  const int64_t *shape = args->key_cache.shape;
  args->k_scale_cache = make_floats(m, QUIRE_FLOAT32, 3, shape[0], shape[1], HEADS, 1);
  args->v_scale_cache = make_floats(m, QUIRE_FLOAT32, 3, shape[0], shape[1], HEADS, 1);
  args->k_quant_type = args->v_quant_type = take(from, 16) == 1 ? "PER_TENSOR" : "PER_TOKEN";
}

static void call_paged_attention(quire_device *device, source *from) {
  memory m = {{NULL}, {{0}}, 0};
  const quire_dtype dtype = take_dtype(from), stored = take(from, 4) == 1 ? QUIRE_INT8 : dtype;
  const int64_t tokens = take_tokens(from), sequences = 1 + take(from, 3),
                rows = 1 + take(from, 17);
  const int64_t blocks = 1 + take(from, 8), columns = 1 + take(from, 20), d = take_size(from);
  const int64_t width = HEADS * d, own = take(from, (int)sequences);
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  args.query = make_floats(&m, dtype, 2, tokens, 2 * width, 1, 1);
  args.key = make_floats(&m, dtype, 2, tokens, width, 1, 1);
  args.value = make_floats(&m, dtype, 2, tokens, width, 1, 1);
  args.key_cache = make_floats(&m, stored, 4, blocks, rows, HEADS, d);
  args.value_cache = make_floats(&m, stored, 4, blocks, rows, HEADS, d);
  args.cumulative_sequence_length = make_offsets(&m, from, sequences, tokens);
  args.past_seqlens = make_integers(&m, from, 1, sequences, 1, 1 + 16 * take(from, 2));
  args.block_table = make_integers(&m, from, 2, sequences, columns, 1);
  if (take(from, 2)) {
    args.slot_mapping = make_integers(&m, from, 1, tokens, 1, 1);
  }
  if (take(from, 4) == 1) {
    args.attention_metadata = make_integers(&m, from, 1, 2 + take(from, 2), 1, 32);
  }
  args.output = make(&m, dtype, 2, tokens, 2 * width, 1, 1);
  args.num_heads = take_attribute(from, (int64_t)2 * HEADS);
  args.kv_num_heads = take_attribute(from, HEADS);
  args.is_causal = take(from, 4) != 1;
  args.local_window_size = take(from, 4) == 1 ? take_attribute(from, 1 + take(from, 8)) : -1;
  const int32_t *mapped = (const int32_t *)args.block_table.data + own * columns;
  if (stored == QUIRE_INT8) {
    make_scales(&m, &args, from);
    plant(&args.k_scale_cache, (size_t)blocks, mapped, columns);
    plant(&args.v_scale_cache, (size_t)blocks, mapped, columns);
  } else {
    plant(&args.key_cache, (size_t)blocks, mapped, columns);
    plant(&args.value_cache, (size_t)blocks, mapped, columns);
  }
  if (quire_paged_attention(device, &args, NULL) == QUIRE_OK) {
    const int32_t *offsets = args.cumulative_sequence_length.data;
    const size_t row = (size_t)(2 * width);
    expect_small(&args.output, (size_t)offsets[own] * row, (size_t)offsets[own + 1] * row,
                 stored == QUIRE_INT8 ? LARGEST_INT8 : 2);
  }
  release(&m);
}

static void call_paged_decode(quire_device *device, source *from) {
  memory m = {{NULL}, {{0}}, 0};
  const quire_dtype dtype = take_dtype(from), stored = take(from, 4) == 1 ? QUIRE_INT8 : dtype;
  const int64_t sequences = 1 + take(from, 3), rows = 1 + take(from, 17), d = take_size(from);
  const int64_t pages = 1 + take(from, 8), columns = 1 + take(from, 20);
  const int64_t own = take(from, (int)sequences), kept = stored == QUIRE_INT8 ? (d + 3) / 4 * 4 : d;
  quire_paged_decode_args args;
  quire_paged_decode_args_init(&args);
  args.query = make_floats(&m, dtype, 3, sequences, HEADS, d, 1);
  args.key_pages = make_floats(&m, stored, 4, 1, pages, rows, kept);
  args.value_pages = make_floats(&m, stored, 4, 1, pages, rows, kept);
  args.page_table = make_integers(&m, from, 2, sequences, columns, 1);
  args.context_lengths = make_integers(&m, from, 1, sequences, 1, 1 + 16 * take(from, 2));
  args.output = make(&m, dtype, 3, sequences, HEADS, d, 1);
  args.scale = 0.3F;
  args.partial_blocks = take_attribute(from, take(from, 4));
  args.context_bound = take(from, 4) == 1 ? take_integer(from) : 0;
  args.local_window_size = take(from, 4) == 1 ? take_attribute(from, 1 + take(from, 8)) : -1;
  const int32_t *mapped = (const int32_t *)args.page_table.data + own * columns;
  if (stored == QUIRE_INT8) {
    args.key_scales = make_floats(&m, QUIRE_FLOAT32, 3, 1, pages, rows, 1);
    args.value_scales = make_floats(&m, QUIRE_FLOAT32, 3, 1, pages, rows, 1);
    plant(&args.key_scales, (size_t)pages, mapped, columns);
    plant(&args.value_scales, (size_t)pages, mapped, columns);
  } else {
    plant(&args.key_pages, (size_t)pages, mapped, columns);
    plant(&args.value_pages, (size_t)pages, mapped, columns);
  }
  if (quire_paged_decode(device, &args, NULL) == QUIRE_OK) {
    const size_t row = (size_t)(HEADS * d), first = (size_t)own * row;
    expect_small(&args.output, first, first + row, stored == QUIRE_INT8 ? LARGEST_INT8 : 2);
  }
  release(&m);
}

static void call_linear_attention(quire_device *device, source *from) {
  memory m = {{NULL}, {{0}}, 0};
  static const char *const rules[] = {"gated", "linear", "delta", "gated_delta"};
  const quire_dtype dtype = take_dtype(from), state = take_dtype(from);
  const int64_t tokens = take_tokens(from), sequences = 1 + take(from, 3),
                slots = 1 + take(from, 8);
  const int64_t window = take(from, 3), own = take(from, (int)sequences), d = take_size(from);
  const int rule = take(from, 4), is_major = take(from, 2);
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  args.query = make_floats(&m, dtype, 3, 1, tokens, HEADS * d, 1);
  args.key = make_floats(&m, dtype, 3, 1, tokens, HEADS * d, 1);
  args.value = make_floats(&m, dtype, 3, 1, tokens, HEADS * d, 1);
  if (rule % 3 == 0) { /* zeros: numbers that grow would hide a secret */
    args.decay = make(&m, dtype, 3, 1, tokens, HEADS, 1);
  }
  if (rule > 1) {
    args.beta = make_floats(&m, dtype, 3, 1, tokens, HEADS, 1);
  }
  args.cu_seqlens = make_offsets(&m, from, sequences, tokens);
  args.state_pool = make_floats(&m, state, 4, slots, HEADS, d, d);
  args.read_indices = make_integers(&m, from, 1, sequences, 1, 1);
  args.write_indices = make_integers(&m, from, window > 0 ? 2 : 1, sequences, window, 1);
  args.output = make(&m, dtype, 3, 1, tokens, HEADS * d, 1);
  args.q_num_heads = take_attribute(from, HEADS);
  args.kv_num_heads = take_attribute(from, HEADS);
  args.state_window = take_attribute(from, window);
  args.update_rule = rules[rule];
  args.state_layout = is_major ? "v_major" : "k_major";
  plant(&args.state_pool, (size_t)slots, (const int32_t *)args.read_indices.data + own, 1);
  if (quire_linear_attention(device, &args, NULL) == QUIRE_OK && rule < 2) {
    const int32_t *offsets = args.cu_seqlens.data;
    const size_t row = (size_t)(HEADS * d);
    expect_small(&args.output, (size_t)offsets[own] * row, (size_t)offsets[own + 1] * row, 600);
  }
  release(&m);
}

static void call_causal_conv(quire_device *device, source *from) {
  enum { TAPS = 4 };
  memory m = {{NULL}, {{0}}, 0};
  const quire_dtype dtype = take_dtype(from);
  const int64_t tokens = take_tokens(from), sequences = 1 + take(from, 3),
                slots = 1 + take(from, 8);
  const int64_t window = take(from, 3), own = take(from, (int)sequences),
                channels = take_size(from);
  const int64_t kept = (int64_t)(TAPS - 1) * (1 + (take(from, 4) == 1));
  quire_causal_conv_with_state_args args;
  quire_causal_conv_with_state_args_init(&args);
  args.channels_last = take(from, 2);
  args.dilation = take_attribute(from, kept / (TAPS - 1));
  const int64_t outer = args.channels_last ? tokens : channels;
  args.input = make_floats(&m, dtype, 3, 1, outer, tokens + channels - outer, 1);
  args.weight = make_floats(&m, dtype, 3, channels, 1, TAPS, 1);
  args.cu_seqlens = make_offsets(&m, from, sequences, tokens);
  args.state_pool = args.channels_last ? make_floats(&m, dtype, 3, slots, kept, channels, 1)
                                       : make_floats(&m, dtype, 3, slots, channels, kept, 1);
  args.read_indices = make_integers(&m, from, 1, sequences, 1, 1);
  args.write_indices = make_integers(&m, from, window > 0 ? 2 : 1, sequences, window, 1);
  args.output = make(&m, dtype, 3, 1, outer, tokens + channels - outer, 1);
  args.state_window = take_attribute(from, window);
  plant(&args.state_pool, (size_t)slots, (const int32_t *)args.read_indices.data + own, 1);
  if (quire_causal_conv_with_state(device, &args, NULL) == QUIRE_OK) {
    const int32_t *offsets = args.cu_seqlens.data;
    const size_t first = (size_t)offsets[own], last = (size_t)offsets[own + 1];
    for (size_t c = 0; c < (size_t)channels && !args.channels_last; c++) {
      expect_small(&args.output, c * (size_t)tokens + first, c * (size_t)tokens + last, TAPS + 1);
    }
    if (args.channels_last) {
      expect_small(&args.output, first * (size_t)channels, last * (size_t)channels, TAPS + 1);
    }
  }
  release(&m);
}

static void call_replay(quire_device *device, source *from) {
  memory m = {{NULL}, {{0}}, 0};
  const int64_t tokens = take_tokens(from), sequences = 1 + take(from, 3),
                slots = 1 + take(from, 8);
  const int64_t d = take_size(from);
  quire_linear_attention_replay_args args;
  quire_linear_attention_replay_args_init(&args);
  args.log_key = make_floats(&m, QUIRE_FLOAT32, 3, 1, tokens, HEADS * d, 1);
  args.log_value = make_floats(&m, QUIRE_FLOAT32, 3, 1, tokens, HEADS * d, 1);
  args.accepted = make_integers(&m, from, 1, sequences, 1, 1);
  args.cu_seqlens = make_offsets(&m, from, sequences, tokens);
  args.state_pool = make_floats(&m, take_dtype(from), 4, slots, HEADS, d, d);
  args.read_indices = make_integers(&m, from, 1, sequences, 1, 1);
  args.write_indices = make_integers(&m, from, 1, sequences, 1, 1);
  args.kv_num_heads = take_attribute(from, HEADS);
  args.key_num_heads = take_attribute(from, 0);
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
