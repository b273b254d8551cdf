/* Caches to be measured: only numbers, no tensors. */
#include <stdlib.h>
#include <string.h>

#include "bench_serving.h"
#include "failure.h"
#include "files.h"

enum {
  N = BENCH_SERVING_SEQUENCES,
  P = 16,
  COLUMNS = BENCH_SERVING_CONTEXT / P,
  SPARE = 64 /* tokens by which sequences grow before they are cut back */
};

struct bench_books {
  quire_cache *decoding, *prompts;
  quire_batch_entry entries[N];
  int64_t length;
  int32_t cumulative[N + 1], past[N], contexts[N], slots[N], table[N * COLUMNS];
  int32_t ids[BENCH_SERVING_PROMPTS][BENCH_SERVING_PROMPT];
};

static const quire_prefix_key key = {{1, 2, 3, 4}};

static quire_status make_cache(int64_t sequences, int64_t length, int64_t blocks,
                               quire_cache **cache, quire_error *error) {
  const quire_cache_group group = {blocks, P, 0};
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.groups = &group;
  options.group_count = 1;
  options.sequence_limit = sequences;
  options.length_limit = length;
  return quire_cache_create(&options, cache, error);
}

/* Sequences with nothing in common, each SPARE tokens short of its context. */
static quire_status begin_decoding(bench_books *books, quire_error *error) {
  quire_status status =
      make_cache(N, BENCH_SERVING_CONTEXT, (int64_t)N * COLUMNS, &books->decoding, error);
  books->length = BENCH_SERVING_CONTEXT - SPARE;
  for (int i = 0; i < N && status == QUIRE_OK; ++i) {
    quire_batch_entry *entry = &books->entries[i];
    entry->new_tokens = 1;
    status = quire_sequence_create(books->decoding, &key, NULL, 0, &entry->sequence, NULL, error);
    if (status == QUIRE_OK) {
      status = quire_sequence_append(books->decoding, entry->sequence, books->length, error);
    }
    books->ids[0][0] = i;
    if (status == QUIRE_OK) {
      status = quire_sequence_commit(books->decoding, entry->sequence, books->ids[0], books->length,
                                     error);
    }
  }
  return status;
}

static quire_status cache_prompts(bench_books *books, quire_error *error) {
  const int64_t blocks = (int64_t)BENCH_SERVING_PROMPTS * BENCH_SERVING_PROMPT / P;
  quire_status status = make_cache(2, BENCH_SERVING_PROMPT, blocks, &books->prompts, error);
  for (int i = 0; i < BENCH_SERVING_PROMPTS && status == QUIRE_OK; ++i) {
    quire_sequence sequence = 0;
    for (int j = 0; j < BENCH_SERVING_PROMPT; ++j) {
      books->ids[i][j] = i * 7919 + j * 31;
    }
    status = quire_sequence_create(books->prompts, &key, NULL, 0, &sequence, NULL, error);
    if (status == QUIRE_OK) {
      status = quire_sequence_append(books->prompts, sequence, BENCH_SERVING_PROMPT, error);
    }
    if (status == QUIRE_OK) {
      status = quire_sequence_commit(books->prompts, sequence, books->ids[i], BENCH_SERVING_PROMPT,
                                     error);
    }
    if (status == QUIRE_OK) {
      status = quire_sequence_free(books->prompts, sequence, error);
    }
  }
  return status;
}

quire_status quire_bench_books_open(bench_books **books, quire_error *error) {
  *books = calloc(1, sizeof **books);
  if (!*books) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the caches");
  }
  const quire_status status = begin_decoding(*books, error);
  return status == QUIRE_OK ? cache_prompts(*books, error) : status;
}

void quire_bench_books_close(bench_books *books) {
  if (books) {
    quire_cache_release(books->decoding);
    quire_cache_release(books->prompts);
    free(books);
  }
}

static quire_status append_and_build(bench_books *books, quire_error *error) {
  for (int i = 0; i < N; ++i) {
    const quire_status status =
        quire_sequence_append(books->decoding, books->entries[i].sequence, 1, error);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  quire_batch_group group = {books->table, COLUMNS, books->slots, NULL, -1};
  quire_batch batch;
  quire_batch_init(&batch);
  batch.row_capacity = N;
  batch.sequence_capacity = N;
  batch.groups = &group;
  batch.group_count = 1;
  batch.cumulative_sequence_length = books->cumulative;
  batch.past_seqlens = books->past;
  batch.context_lengths = books->contexts;
  return quire_batch_build(books->decoding, books->entries, N, &batch, error);
}

static quire_status commit_all(bench_books *books, quire_error *error) {
  const int32_t token = (int32_t)books->length;
  quire_status status = QUIRE_OK;
  for (int i = 0; i < N && status == QUIRE_OK; ++i) {
    status = quire_sequence_commit(books->decoding, books->entries[i].sequence, &token, 1, error);
  }
  return status;
}

quire_status quire_bench_books_step(bench_books *books, uint64_t *build, uint64_t *commit,
                                    quire_error *error) {
  quire_status status = QUIRE_OK;
  if (books->length == BENCH_SERVING_CONTEXT) {
    books->length -= SPARE;
    for (int i = 0; i < N && status == QUIRE_OK; ++i) {
      status = quire_sequence_truncate(books->decoding, books->entries[i].sequence, books->length,
                                       0, error);
    }
  }
  const uint64_t begin = quire_clock_nanoseconds();
  if (status == QUIRE_OK) {
    status = append_and_build(books, error);
  }
  const uint64_t middle = quire_clock_nanoseconds();
  if (status == QUIRE_OK) {
    status = commit_all(books, error);
  }
  *commit = quire_clock_nanoseconds() - middle;
  *build = middle - begin;
  ++books->length;
  return status;
}

static quire_status check_match(int64_t matched, quire_error *error) {
  return matched == BENCH_SERVING_PROMPT
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_INTERNAL, "only %lld tokens were found",
                                 (long long)matched);
}

quire_status quire_bench_books_lookup(bench_books *books, uint64_t *nanoseconds,
                                      quire_error *error) {
  quire_status status = QUIRE_OK;
  const uint64_t begin = quire_clock_nanoseconds();
  for (int i = 0; i < BENCH_SERVING_PROMPTS && status == QUIRE_OK; ++i) {
    int64_t matched = 0;
    status = quire_cache_match(books->prompts, &key, books->ids[i], BENCH_SERVING_PROMPT, &matched,
                               error);
    if (status == QUIRE_OK) {
      status = check_match(matched, error);
    }
  }
  *nanoseconds = quire_clock_nanoseconds() - begin;
  return status;
}

quire_status quire_bench_books_create(bench_books *books, uint64_t *nanoseconds,
                                      quire_error *error) {
  quire_status status = QUIRE_OK;
  const uint64_t begin = quire_clock_nanoseconds();
  for (int i = 0; i < BENCH_SERVING_PROMPTS && status == QUIRE_OK; ++i) {
    quire_sequence sequence = 0;
    int64_t matched = 0;
    status = quire_sequence_create(books->prompts, &key, books->ids[i], BENCH_SERVING_PROMPT,
                                   &sequence, &matched, error);
    if (status == QUIRE_OK) {
      status = check_match(matched, error);
    }
    if (status == QUIRE_OK) {
      status = quire_sequence_free(books->prompts, sequence, error);
    }
  }
  *nanoseconds = quire_clock_nanoseconds() - begin;
  return status;
}

double quire_bench_books_block_bytes(const bench_books *books) {
  quire_cache_statistics all;
  quire_cache_get_statistics(books->decoding, &all);
  return (double)all.metadata_bytes / ((double)N * COLUMNS);
}
