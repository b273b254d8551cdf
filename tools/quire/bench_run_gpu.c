/* Rows of `quire bench` for a WebGPU device. */
#include <stdio.h>

#include "bench_run.h"
#include "failure.h"

void quire_bench_gpu_head(const bench_state *state) {
  printf("quire %s, %s\n\n", quire_version(), state->facts.model);
  printf("%-28s %-5s %-28s %10s %10s .. %-10s %8s %8s %9s %6s %9s\n", "case", "type", "variant",
         "median us", "p10", "p90", "GB/s", "GFLOP/s", "read us", "share", "record us");
}

static void print_figure(const bench_gpu_figure *figure) {
  const bench_times *times = &figure->times;
  printf("%-28s %-5s %-28s %10.2f %10.2f .. %-10.2f %8.1f %8.0f %9.2f %5.0f%% %9.2f\n",
         figure->item->name, figure->dtype, figure->variant, times->median, times->low, times->high,
         figure->bytes / times->median / 1000, figure->flops / times->median / 1000,
         figure->memory_limit, 100 * figure->memory_limit / times->median, figure->record);
  (void)fflush(stdout);
}

static json_t *figure_json(const bench_state *state, const bench_gpu_figure *figure) {
  const bench_times *times = &figure->times;
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, "
      "s:f}",
      "workload", figure->item->workload, "case", figure->item->name, "model", figure->item->model,
      "dtype", figure->dtype, "device", "webgpu", "variant", figure->variant, "subgroups",
      !state->options->no_subgroups, "trusted_shaders", state->options->trusted_shaders, "sets",
      (json_int_t)figure->sets, "calls_per_pass",
      (json_int_t)figure->sets * (json_int_t)figure->repeat, "median_us", times->median, "p10_us",
      times->low, "p90_us", times->high, "min_us", times->least, "samples",
      (json_int_t)times->samples, "record_us", figure->record, "bytes", figure->bytes, "flops",
      figure->flops, "memory_limit_us", figure->memory_limit);
}

quire_status quire_bench_gpu_row(bench_state *state, const bench_case *item, const char *dtype,
                                 quire_error *error) {
  bench_gpu_figure figure;
  const quire_status status = quire_bench_gpu_measure(&state->gpu, item, dtype, &figure, error);
  if (status == QUIRE_UNSUPPORTED || status == QUIRE_LIMIT) {
    (void)fprintf(stderr, "%-28s %-5s %s\n", item->name, dtype, error->message);
    return QUIRE_OK;
  }
  if (status == QUIRE_OK && state->results) {
    return json_array_append_new(state->results, figure_json(state, &figure)) == 0
               ? QUIRE_OK
               : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the results");
  }
  if (status == QUIRE_OK) {
    print_figure(&figure);
  }
  return status;
}

quire_status quire_bench_gpu_end(const bench_state *state, quire_error *error) {
  if (!state->results) {
    printf("\nlimit: a kernel that only reads, %.1f GB/s (best of a few passes)\n",
           state->gpu.read_gigabytes);
    return QUIRE_OK;
  }
  json_t *root =
      json_pack("{s:s, s:s, s:f, s:O}", "version", quire_version(), "model", state->facts.model,
                "read_gigabytes", state->gpu.read_gigabytes, "measurements", state->results);
  return quire_bench_print_json(root, error);
}
