/* Rows of sequences in parts and calls, for any operator. */
#include "bench_memory.h"
#include "same_bits.h"

enum { REPEATS = 3 };

uint64_t quire_bits_hash(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *at = data;
  hash = hash ? hash : UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

void quire_bits_order(uint64_t shuffle, size_t count, int32_t *order) {
  bench_random random = {shuffle ? shuffle : 1};
  for (size_t i = 0; i < count; ++i) {
    const size_t other = shuffle ? (size_t)quire_bench_random_below(&random, (int64_t)i + 1) : i;
    order[i] = (int32_t)i;
    order[i] = order[other];
    order[other] = (int32_t)i;
  }
}

void quire_bits_fill_row(quire_dtype dtype, size_t sequence, int64_t index, int kind, int64_t width,
                         void *row) {
  bench_random random = {(uint64_t)(sequence + 1) << 40 | (uint64_t)(index + 1) << 8 |
                         (uint64_t)(kind + 1)};
  (void)quire_bench_random_next(&random);
  quire_bench_fill_normal(&random, dtype, row, (size_t)width, 1);
}

size_t quire_bits_place(const bits_work *work, const bits_part *part) {
  int64_t place = part->first;
  for (size_t s = 0; s < part->sequence; ++s) {
    place += work->fresh[s];
  }
  return (size_t)place;
}

size_t quire_bits_row_count(const bits_work *work) {
  const bits_part end = {.sequence = work->sequences};
  return quire_bits_place(work, &end);
}

/* The parts of one call: the next ones of all sequences, or of the first that is not done. */
static size_t next_parts(const bits_work *work, const int32_t *order, size_t calls, int64_t *done,
                         bits_part *parts) {
  size_t count = 0;
  for (size_t i = 0; i < work->sequences && (count == 0 || !work->variation->is_alone); ++i) {
    const size_t s = (size_t)order[i];
    const int64_t left = work->fresh[s] - done[s];
    const int64_t wanted = work->variation->is_cut ? work->piece(s, done[s], calls) : left;
    if (left > 0) {
      parts[count++] = (bits_part){s, done[s], wanted < left ? wanted : left};
      done[s] += parts[count - 1].count;
    }
  }
  return count;
}

static quire_status run_once(const bits_work *work, bits_rows *rows, quire_error *error) {
  int64_t done[BITS_MOST_SEQUENCES] = {0};
  int32_t order[BITS_MOST_SEQUENCES];
  quire_status status = QUIRE_OK;
  rows->nanoseconds = 0;
  quire_bits_order(work->variation->shuffle, work->sequences, order);
  for (size_t calls = 0; status == QUIRE_OK; ++calls) {
    bits_part parts[BITS_MOST_SEQUENCES];
    const size_t count = next_parts(work, order, calls, done, parts);
    if (count == 0) {
      return QUIRE_OK;
    }
    status = work->call(work->user, parts, count, rows, error);
  }
  return status;
}

quire_status quire_bits_run(const bits_work *work, bits_rows *rows, quire_error *error) {
  quire_status status = QUIRE_OK;
  uint64_t best = UINT64_MAX;
  *rows = (bits_rows){.count = quire_bits_row_count(work)};
  for (int i = 0; i < REPEATS && status == QUIRE_OK; ++i) {
    status = run_once(work, rows, error);
    best = rows->nanoseconds < best ? rows->nanoseconds : best;
  }
  rows->nanoseconds = best;
  return status;
}
