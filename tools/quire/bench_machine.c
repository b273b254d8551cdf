#include "bench_machine.h"

#include "commands.h"
#include "failure.h"

const quire_option quire_bench_machine_options[BENCH_MACHINE_OPTIONS] = {
    {.name = "--json",
     .kind = QUIRE_OPTION_FLAG,
     .offset = offsetof(bench_machine_options, is_json),
     .help = "print JSON"},
    {.name = "--threads",
     .kind = QUIRE_OPTION_NUMBER,
     .offset = offsetof(bench_machine_options, threads),
     .value_name = "N",
     .minimum = 1,
     .maximum = 4096,
     .help = "threads of the pool (default: one per processor)"},
    {.name = "--isa",
     .kind = QUIRE_OPTION_CHOICE,
     .offset = offsetof(bench_machine_options, isa),
     .choices = "scalar|avx2|avx512|neon",
     .help = "highest instruction set to use"},
};

int quire_bench_machine_run(bench_machine_function *bench, void *const *values) {
  quire_error error;
  if (bench(values[0], &error) != QUIRE_OK) {
    quire_failure_print(NULL, &error);
    return QUIRE_EXIT_FAILURE;
  }
  return QUIRE_EXIT_OK;
}
