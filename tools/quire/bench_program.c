#include "bench_program.h"

#include <stdlib.h>
#include <string.h>

#include "bench_builder.h"
#include "failure.h"

quire_dtype quire_bench_dtype(const char *name) {
  if (!strcmp(name, "f32")) {
    return QUIRE_FLOAT32;
  }
  if (!strcmp(name, "f16")) {
    return QUIRE_FLOAT16;
  }
  return !strcmp(name, "bf16") ? QUIRE_BFLOAT16 : QUIRE_INT8;
}

double quire_bench_case_set_bytes(const bench_case *item, const char *dtype) {
  const quire_dtype type = quire_bench_dtype(dtype);
  double bytes = 0;
  if (item->attention_layers > 0) {
    bytes += (double)item->attention_layers * quire_bench_attention_bytes(&item->attention, type);
  }
  if (item->linear_layers > 0) {
    const bench_linear *linear = &item->linear;
    const int64_t held =
        linear->state_window > 0 ? 2 * linear->state_window : (linear->is_apart ? 2 : 1);
    bytes += (double)item->linear_layers *
             (double)(linear->batch * linear->value_heads * linear->key_size * linear->value_size) *
             (double)quire_dtype_size(linear->state_dtype) * (double)held;
  }
  return bytes;
}

/* In a stack, linear attention keeps float32 rows whatever the caches hold. */
static quire_status make_kinds(const quire_session *session, const bench_case *item,
                               const char *dtype, size_t sets, bench_program *program,
                               quire_error *error) {
  quire_status status = QUIRE_OK;
  if (item->linear_layers > 0) {
    const quire_dtype type = item->attention_layers > 0 ? QUIRE_FLOAT32 : quire_bench_dtype(dtype);
    status = quire_bench_make_linear(session, &item->linear, type,
                                     sets * (size_t)item->linear_layers, &program->kinds[0], error);
    program->kinds[0].layer_count = (size_t)item->linear_layers;
  }
  if (item->attention_layers > 0 && status == QUIRE_OK) {
    status = quire_bench_make_attention(session, &item->attention, item->precision, dtype,
                                        sets * (size_t)item->attention_layers, &program->kinds[1],
                                        error);
    program->kinds[1].layer_count = (size_t)item->attention_layers;
  }
  return status;
}

quire_status quire_bench_program_make(const quire_session *session, const bench_case *item,
                                      const char *dtype, size_t sets, bench_program *program,
                                      quire_error *error) {
  memset(program, 0, sizeof *program);
  quire_status status = make_kinds(session, item, dtype, sets, program, error);
  if (status == QUIRE_OK && item->stream_mib > 0) {
    program->stream_bytes = (size_t)item->stream_mib << 20;
    program->stream = (uint64_t)item->stream_mib > SIZE_MAX >> 20
                          ? NULL
                          : quire_bench_memory_new(program->stream_bytes);
    if (program->stream) {
      memset(program->stream, 1, program->stream_bytes);
    } else {
      status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory to stream");
    }
  }
  if (status != QUIRE_OK) {
    quire_bench_program_release(program);
  }
  return status;
}

void quire_bench_program_release(bench_program *program) {
  for (size_t k = 0; k < 2; ++k) {
    bench_layers *layers = &program->kinds[k];
    quire_workspace_release(layers->workspace);
    quire_plan_release(layers->plan);
    for (size_t i = 0; i < layers->pool.count; ++i) {
      quire_bench_memory_release(layers->pool.blocks[i].memory, layers->pool.blocks[i].bytes);
    }
    free(layers->tensors);
    free(layers->shapes);
  }
  quire_bench_memory_release(program->stream, program->stream_bytes);
  memset(program, 0, sizeof *program);
}

/* Reads one layer's share of the other memory. */
static void stream(bench_program *program, size_t layer, size_t layers) {
  const size_t words = program->stream_bytes / layers / sizeof(uint64_t);
  const uint64_t *from = (const uint64_t *)(void *)program->stream + layer * words;
  uint64_t sum = 0;
  for (size_t i = 0; i < words; ++i) {
    sum += from[i];
  }
  program->sum += sum;
}

static quire_status run_layer(bench_layers *layers, int is_prepared, uint64_t *nanoseconds,
                              quire_error *error) {
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_STRICT | (is_prepared ? QUIRE_RUN_PREPARED : 0);
  const quire_tensor *tensors = layers->tensors + layers->next_set * layers->slot_count;
  layers->next_set = (layers->next_set + 1) % layers->set_count;
  const uint64_t begin = quire_clock_nanoseconds();
  const quire_status status =
      quire_plan_run(layers->plan, tensors, layers->slot_count, layers->workspace, &options, error);
  *nanoseconds += quire_clock_nanoseconds() - begin;
  return status;
}

/* Layers of the kinds are mixed evenly; the first of a kind prepares for all of them. */
quire_status quire_bench_program_run(bench_program *program, uint64_t *nanoseconds,
                                     quire_error *error) {
  const size_t total = program->kinds[0].layer_count + program->kinds[1].layer_count;
  size_t done[2] = {0, 0};
  *nanoseconds = 0;
  for (size_t layer = 0; layer < total; ++layer) {
    const size_t k =
        done[0] * program->kinds[1].layer_count <= done[1] * program->kinds[0].layer_count &&
                done[0] < program->kinds[0].layer_count
            ? 0
            : (done[1] < program->kinds[1].layer_count ? 1 : 0);
    if (program->stream) {
      stream(program, layer, total);
    }
    const quire_status status = run_layer(&program->kinds[k], done[k] > 0, nanoseconds, error);
    if (status != QUIRE_OK) {
      return status;
    }
    done[k] += 1;
  }
  return QUIRE_OK;
}

double quire_bench_program_bytes(const bench_program *program) {
  double bytes = 0;
  for (size_t k = 0; k < 2; ++k) {
    bytes += (double)program->kinds[k].layer_count * program->kinds[k].bytes;
  }
  return bytes;
}

double quire_bench_program_flops(const bench_program *program) {
  double flops = 0;
  for (size_t k = 0; k < 2; ++k) {
    flops += (double)program->kinds[k].layer_count * program->kinds[k].flops;
  }
  return flops;
}
