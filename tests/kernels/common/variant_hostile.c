#include "variant_hostile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 64 };

static const variant_tensor *input(const variant_problem *p, const char *name) {
  return variant_find(p->call.inputs, p->call.input_count, name);
}

/* The values of an integer input, kept to be put back. */
typedef struct kept_values {
  int32_t *data;
  int64_t count, first; /* values before `first` belong to sequence 0 */
  int32_t values[MOST];
} kept_values;

static kept_values keep(const variant_problem *p, const char *name, int64_t sequences) {
  kept_values kept = {NULL, 0, 0, {0}};
  const variant_tensor *tensor = input(p, name);
  if (tensor != NULL) {
    kept.data = variant_data(p, name);
    kept.count = variant_count(tensor);
    kept.first = strcmp(name, "cu_seqlens") == 0 ? 2 : kept.count / sequences;
    assert_true(kept.count <= MOST);
    memcpy(kept.values, kept.data, (size_t)kept.count * sizeof *kept.values);
  }
  return kept;
}

static void spoil(variant_problem *p, const kept_values *kept, int32_t limit) {
  const int32_t choices[] = {INT32_MIN, -2, -1, 0, limit, limit + 1, 1 << 30, INT32_MAX};
  for (int64_t i = 0; i < kept->count; i++) {
    kept->data[i] = kept->values[i];
    if (i >= kept->first && variant_random(p, 3) != 0) {
      kept->data[i] = choices[variant_random(p, sizeof choices / sizeof *choices)];
    }
  }
}

/* The slot that a state lies in: 0, kept; 1, written by sequence 0; 2, by another. */
static int writer_of(const kept_values *writes, int64_t slot) {
  int writer = 0;
  for (int64_t i = 0; i < writes->count; i++) {
    if (writes->data[i] == slot) {
      writer = i < writes->first ? 1 : 2;
    }
  }
  return writer;
}

static void check_pool(const kept_values *writes, const variant_tensor *pool,
                       const unsigned char *before, const unsigned char *want,
                       const unsigned char *got) {
  const size_t bytes =
      (size_t)(variant_count(pool) / pool->shape[0]) * quire_dtype_size(pool->dtype);
  for (int64_t slot = 0; slot < pool->shape[0]; slot++) {
    const int writer = writer_of(writes, slot);
    const unsigned char *expected = (writer == 0 ? before : want) + (size_t)slot * bytes;
    if (writer < 2 && memcmp(got + (size_t)slot * bytes, expected, bytes) != 0) {
      fail_msg("slot %d %s", (int)slot, writer == 0 ? "was written" : "has another state");
    }
  }
}

void variant_hostile_pool(variant_world *world, variant_problem *p, const char *variant,
                          size_t row_bytes, uint64_t runs, variant_counts *counts) {
  const variant_tensor *pool = input(p, "state_pool");
  const int64_t sequences = input(p, "cu_seqlens")->shape[0] - 1;
  const kept_values ends = keep(p, "cu_seqlens", sequences);
  const kept_values reads = keep(p, "read_indices", sequences);
  const kept_values writes = keep(p, "write_indices", sequences);
  const kept_values accepted = keep(p, "accepted", sequences);
  const size_t own_bytes = (size_t)ends.values[1] * row_bytes;
  unsigned char *want_pool = variant_run(world, &p->call, variant, "state_pool_out");
  unsigned char *want = own_bytes > 0 ? variant_run(world, &p->call, variant, "output") : NULL;
  for (uint64_t run = 0; run < runs; run++) {
    spoil(p, &ends, ends.values[sequences]);
    spoil(p, &reads, (int32_t)pool->shape[0]);
    spoil(p, &writes, (int32_t)pool->shape[0]);
    spoil(p, &accepted, ends.values[sequences]);
    for (int64_t i = writes.first; i < writes.count; i++) {
      for (int64_t k = 0; k < writes.first; k++) { /* sequence 0 alone writes its slots */
        writes.data[i] = writes.data[i] == writes.data[k] ? -1 : writes.data[i];
      }
    }
    unsigned char *got_pool = variant_run(world, &p->call, variant, "state_pool_out");
    check_pool(&writes, pool, pool->data, want_pool, got_pool);
    free(got_pool);
    if (want != NULL) {
      unsigned char *got = variant_run(world, &p->call, variant, "output");
      assert_memory_equal(got, want, own_bytes);
      free(got);
    }
    counts->runs++;
    counts->refused += variant_is_refused(world, &p->call, variant);
  }
  free(want_pool);
  free(want);
}
