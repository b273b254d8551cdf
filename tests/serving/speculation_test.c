/*
 * Speculative decoding over a linear and a paged layer: drafts are verified a few at once, some are
 * accepted, the rest is rolled back. The outputs have the bits of decoding the accepted tokens one
 * by one (docs/numerics.md, NU-8 and NU-9).
 *
 * The next token follows from all bits of a row's output, so that one wrong bit changes the text.
 */
#include <stdio.h>
#include <string.h>

#include "quire/quire.h"
#include "serving_fixture.h"

enum {
  SEQUENCES = 5,
  PROMPT = 21,
  LENGTH = 70,
  WIDTH = 16, /* channels of a token; two heads of 8 in both layers */
  HEADS = 2,
  SIZE = 8,
  P = 4,
  NB = 128,
  SLOTS = 40,
  COLUMNS = 24,
  MOST_ROWS = SEQUENCES * PROMPT,
  VOCABULARY = 6
};

static const quire_prefix_key key = {{3, 1, 4, 1}};

typedef struct text {
  int32_t tokens[LENGTH + 1];
  float outputs[LENGTH][WIDTH];
  int64_t computed;
  quire_sequence sequence;
} text;

/* A model of two layers and a cache. */
typedef struct model {
  quire_device *device;
  quire_cache *cache;
  int64_t window;
  float key_cache[NB][P][HEADS][SIZE], value_cache[NB][P][HEADS][SIZE];
  float states[SLOTS][HEADS][SIZE][SIZE];
  float weights[8][WIDTH];
  /* A step. */
  int64_t rows, count;
  float x[MOST_ROWS][WIDTH], mixed[MOST_ROWS][WIDTH], y[MOST_ROWS][WIDTH];
  float q[MOST_ROWS][WIDTH], k[MOST_ROWS][WIDTH], v[MOST_ROWS][WIDTH];
  float decay[MOST_ROWS][HEADS], beta[MOST_ROWS][HEADS];
  int32_t cumulative[SEQUENCES + 1], past[SEQUENCES], table[SEQUENCES][COLUMNS], slots[MOST_ROWS];
  int32_t reads[SEQUENCES], writes[SEQUENCES * QUIRE_CACHE_MAX_STATE_WINDOW];
  /* Instead of a window: what the tokens do to the state. */
  bool is_replay;
  float log_key[MOST_ROWS][WIDTH], log_value[MOST_ROWS][WIDTH], log_decay[MOST_ROWS][HEADS];
  int32_t replays[SEQUENCES], accepted[SEQUENCES];
} model;

static void model_open(model *m, quire_device *device, int64_t window, int64_t every,
                       bool is_replay) {
  memset(m, 0, sizeof *m);
  m->is_replay = is_replay;
  m->device = device;
  m->window = window;
  quire_cache_group group;
  quire_cache_options options = options_of(&group, NB, P);
  options.state_slots = SLOTS;
  options.state_window = window;
  options.checkpoint_tokens = every;
  m->cache = make_cache_with(&options);
  randomness source = {11};
  for (int i = 0; i < 8 * WIDTH; ++i) {
    m->weights[i / WIDTH][i % WIDTH] = random_float(&source);
  }
}

static void project(const model *m, int which, const float *in, float *out) {
  for (int c = 0; c < WIDTH; ++c) {
    out[c] =
        m->weights[which][c] * in[c] + m->weights[which][(c + 5) % WIDTH] * in[(c + 3) % WIDTH];
  }
}

static quire_tensor tensor(void *data, quire_dtype dtype, int32_t ndim, const int64_t *shape) {
  return (quire_tensor){data, 0, dtype, ndim, shape, NULL};
}

static void linear_layer(model *m) {
  for (int64_t row = 0; row < m->rows; ++row) {
    project(m, 0, m->x[row], m->q[row]);
    project(m, 1, m->x[row], m->k[row]);
    project(m, 2, m->x[row], m->v[row]);
    for (int h = 0; h < HEADS; ++h) {
      m->decay[row][h] = -0.2f - 0.1f * m->x[row][h];
      m->beta[row][h] = 0.5f + 0.2f * m->x[row][h + 4];
    }
  }
  const int64_t shape[] = {1, m->rows, WIDTH}, gate[] = {1, m->rows, HEADS};
  const int64_t pool[] = {SLOTS, HEADS, SIZE, SIZE}, counts[] = {m->count, m->window};
  const int64_t offsets[] = {m->count + 1};
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  args.query = tensor(m->q, QUIRE_FLOAT32, 3, shape);
  args.key = tensor(m->k, QUIRE_FLOAT32, 3, shape);
  args.value = tensor(m->v, QUIRE_FLOAT32, 3, shape);
  args.decay = tensor(m->decay, QUIRE_FLOAT32, 3, gate);
  args.beta = tensor(m->beta, QUIRE_FLOAT32, 3, gate);
  args.cu_seqlens = tensor(m->cumulative, QUIRE_INT32, 1, offsets);
  args.state_pool = tensor(m->states, QUIRE_FLOAT32, 4, pool);
  args.read_indices = tensor(m->reads, QUIRE_INT32, 1, counts);
  args.write_indices = tensor(m->writes, QUIRE_INT32, m->window > 0 ? 2 : 1, counts);
  args.output = tensor(m->mixed, QUIRE_FLOAT32, 3, shape);
  args.q_num_heads = HEADS;
  args.kv_num_heads = HEADS;
  args.state_window = m->window;
  args.qk_l2_norm = 1;
  if (m->is_replay) {
    args.log_key = tensor(m->log_key, QUIRE_FLOAT32, 3, shape);
    args.log_value = tensor(m->log_value, QUIRE_FLOAT32, 3, shape);
    args.log_decay = tensor(m->log_decay, QUIRE_FLOAT32, 3, gate);
  }
  MUST(quire_linear_attention(m->device, &args, error));
}

/* Repeats the accepted tokens on the old states; of sequences that wrote theirs, none. */
static void replay(model *m) {
  const int64_t shape[] = {1, m->rows, WIDTH}, gate[] = {1, m->rows, HEADS};
  const int64_t pool[] = {SLOTS, HEADS, SIZE, SIZE}, counts[] = {m->count};
  const int64_t offsets[] = {m->count + 1};
  quire_linear_attention_replay_args args;
  quire_linear_attention_replay_args_init(&args);
  args.log_key = tensor(m->log_key, QUIRE_FLOAT32, 3, shape);
  args.log_value = tensor(m->log_value, QUIRE_FLOAT32, 3, shape);
  args.log_decay = tensor(m->log_decay, QUIRE_FLOAT32, 3, gate);
  args.accepted = tensor(m->accepted, QUIRE_INT32, 1, counts);
  args.cu_seqlens = tensor(m->cumulative, QUIRE_INT32, 1, offsets);
  args.state_pool = tensor(m->states, QUIRE_FLOAT32, 4, pool);
  args.read_indices = tensor(m->reads, QUIRE_INT32, 1, counts);
  args.write_indices = tensor(m->replays, QUIRE_INT32, 1, counts);
  args.kv_num_heads = HEADS;
  for (int64_t i = 0; i < m->count; ++i) {
    m->reads[i] = m->replays[i] >= 0 ? m->reads[i] : -1;
  }
  MUST(quire_linear_attention_replay(m->device, &args, error));
}

static void paged_layer(model *m) {
  for (int64_t row = 0; row < m->rows; ++row) {
    for (int c = 0; c < WIDTH; ++c) {
      m->mixed[row][c] += m->x[row][c];
    }
    project(m, 3, m->mixed[row], m->q[row]);
    project(m, 4, m->mixed[row], m->k[row]);
    project(m, 5, m->mixed[row], m->v[row]);
  }
  const int64_t shape[] = {m->rows, WIDTH}, cache[] = {NB, P, HEADS, SIZE};
  const int64_t counts[] = {m->count}, offsets[] = {m->count + 1}, rows[] = {m->rows};
  const int64_t table[] = {m->count, COLUMNS};
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  args.query = tensor(m->q, QUIRE_FLOAT32, 2, shape);
  args.key = tensor(m->k, QUIRE_FLOAT32, 2, shape);
  args.value = tensor(m->v, QUIRE_FLOAT32, 2, shape);
  args.key_cache = tensor(m->key_cache, QUIRE_FLOAT32, 4, cache);
  args.value_cache = tensor(m->value_cache, QUIRE_FLOAT32, 4, cache);
  args.cumulative_sequence_length = tensor(m->cumulative, QUIRE_INT32, 1, offsets);
  args.past_seqlens = tensor(m->past, QUIRE_INT32, 1, counts);
  args.block_table = tensor(m->table, QUIRE_INT32, 2, table);
  args.slot_mapping = tensor(m->slots, QUIRE_INT32, 1, rows);
  args.output = tensor(m->y, QUIRE_FLOAT32, 2, shape);
  args.num_heads = HEADS;
  args.kv_num_heads = HEADS;
  MUST(quire_paged_attention(m->device, &args, error));
}

static int32_t next_token(const float *output) {
  uint64_t hash = 1;
  for (int c = 0; c < WIDTH; ++c) {
    uint32_t bits;
    memcpy(&bits, &output[c], sizeof bits);
    hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 31;
  }
  return (int32_t)(hash % VOCABULARY);
}

/* Runs entries[i] on tokens[i]; what comes out of row r is m->y[r]. */
static void step(model *m, const quire_batch_entry *entries, const int32_t *const *tokens,
                 size_t count) {
  quire_batch batch;
  quire_batch_init(&batch);
  quire_batch_group group = {&m->table[0][0], COLUMNS, m->slots, NULL, -1};
  batch.row_capacity = MOST_ROWS;
  batch.sequence_capacity = SEQUENCES;
  batch.groups = &group;
  batch.group_count = 1;
  batch.cumulative_sequence_length = m->cumulative;
  batch.past_seqlens = m->past;
  batch.state_read = m->reads;
  batch.state_write = m->writes;
  batch.state_replay = m->replays;
  MUST(quire_batch_build(m->cache, entries, count, &batch, error));
  m->rows = batch.rows;
  m->count = batch.sequences;
  int64_t row = 0;
  for (size_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < entries[i].new_tokens; ++j, ++row) {
      randomness source = {(uint64_t)tokens[i][j] + 100};
      for (int c = 0; c < WIDTH; ++c) {
        m->x[row][c] = random_float(&source);
      }
    }
  }
  linear_layer(m);
  paged_layer(m);
}

/* Begins the texts; with a cached prefix, only its rest is computed, in the same chunks. */
static void prefill(model *m, text *texts, int64_t chunk) {
  for (int i = 0; i < SEQUENCES; ++i) {
    text *t = &texts[i];
    randomness source = {77};
    for (int j = 0; j < PROMPT; ++j) {
      t->tokens[j] = (int32_t)random_between(&source, 0, VOCABULARY - 1);
    }
    t->tokens[PROMPT - 1] = i; /* prompts differ at their ends only */
    MUST(quire_sequence_create(m->cache, &key, t->tokens, PROMPT - 1, &t->sequence, &t->computed,
                               error));
    while (t->computed < PROMPT) {
      const int64_t left = PROMPT - t->computed;
      const quire_batch_entry entry = {t->sequence, left < chunk ? left : chunk, 0, 0};
      const int32_t *tokens = t->tokens + t->computed;
      MUST(quire_sequence_append(m->cache, t->sequence, entry.new_tokens, error));
      step(m, &entry, &tokens, 1);
      memcpy(t->outputs[t->computed], m->y, (size_t)entry.new_tokens * sizeof m->y[0]);
      MUST(quire_sequence_commit(m->cache, t->sequence, tokens, entry.new_tokens, error));
      t->computed += entry.new_tokens;
    }
    t->tokens[PROMPT] = next_token(t->outputs[PROMPT - 1]);
  }
}

static void decode_one_by_one(model *m, text *t) {
  while (t->computed < LENGTH) {
    const quire_batch_entry entry = {t->sequence, 1, 0, 0};
    const int32_t *token = t->tokens + t->computed;
    MUST(quire_sequence_append(m->cache, t->sequence, 1, error));
    step(m, &entry, &token, 1);
    memcpy(t->outputs[t->computed], m->y[0], sizeof m->y[0]);
    MUST(quire_sequence_commit(m->cache, t->sequence, token, 1, error));
    t->tokens[++t->computed] = next_token(m->y[0]);
  }
}

/* What a small model guesses: the tokens that follow, sometimes wrong. */
static int64_t draft(randomness *source, const text *truth, const text *t, int64_t most,
                     int32_t *tokens) {
  const int64_t left = LENGTH - 1 - t->computed;
  const int64_t count = random_between(source, 0, most < left ? most : left);
  tokens[0] = t->tokens[t->computed];
  for (int64_t i = 1; i <= count; ++i) {
    const bool is_right = random_between(source, 0, 3) > 0;
    tokens[i] = is_right ? truth->tokens[t->computed + i]
                         : (int32_t)random_between(source, 0, VOCABULARY - 1);
  }
  return count;
}

/* How many tokens stay: those that the verified rows agree with. Takes their outputs, and the token
 * of the last row that counts. */
static int64_t accept(const model *m, text *t, const int32_t *tokens, int64_t drafts, int64_t row) {
  int64_t accepted = 0;
  do {
    memcpy(t->outputs[t->computed], m->y[row + accepted], sizeof m->y[0]);
    t->tokens[++t->computed] = next_token(m->y[row + accepted]);
    ++accepted;
  } while (accepted <= drafts && tokens[accepted] == t->tokens[t->computed]);
  return accepted;
}

static void decode_with_drafts(model *m, const text *truth, text *texts, randomness *source,
                               int64_t counts[2]) {
  for (;;) {
    quire_batch_entry entries[SEQUENCES];
    int32_t drafted[SEQUENCES][QUIRE_CACHE_MAX_STATE_WINDOW];
    const int32_t *tokens[SEQUENCES];
    int members[SEQUENCES];
    size_t count = 0;
    for (int i = 0; i < SEQUENCES; ++i) {
      if (texts[i].computed < LENGTH && random_between(source, 0, 4) > 0) {
        const int64_t most = m->is_replay ? QUIRE_CACHE_MAX_STATE_WINDOW - 1 : m->window - 1;
        const int64_t drafts = draft(source, &truth[i], &texts[i], most, drafted[count]);
        MUST(quire_sequence_append(m->cache, texts[i].sequence, drafts + 1, error));
        const uint32_t keep = (uint32_t)random_between(source, 0, 1);
        const bool is_replayed = m->is_replay && (drafts > 0 || keep != 0);
        entries[count] = (quire_batch_entry){texts[i].sequence, drafts + 1, drafts,
                                             is_replayed ? QUIRE_STEP_REPLAY | keep : keep};
        tokens[count] = drafted[count];
        members[count++] = i;
      }
    }
    quire_cache_copies_done(m->cache); /* forks there are none */
    if (count > 0) {
      step(m, entries, tokens, count);
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t accepted =
          accept(m, &texts[members[i]], drafted[i], entries[i].draft_tokens, m->cumulative[i]);
      m->accepted[i] = (int32_t)accepted;
      counts[0] += entries[i].draft_tokens;
      counts[1] += accepted - 1;
    }
    if (m->is_replay && count > 0) {
      replay(m);
    }
    for (size_t i = 0; i < count; ++i) {
      MUST(quire_sequence_commit(m->cache, entries[i].sequence, tokens[i], m->accepted[i], error));
    }
    bool is_done = true;
    for (int i = 0; i < SEQUENCES; ++i) {
      is_done = is_done && texts[i].computed == LENGTH;
    }
    if (is_done) {
      return;
    }
  }
}

static text truth[SEQUENCES], texts[SEQUENCES];
static model one_by_one, speculative;

static void drafts_have_the_bits_of_one_by_one(void **state) {
  (void)state;
  cpu_device cpu = cpu_open(NULL, NULL);
  /* Windows of 1 to 8 states, then no window but replay, with two seeds. */
  for (int64_t turn = 1; turn <= QUIRE_CACHE_MAX_STATE_WINDOW + 2; ++turn) {
    const bool is_replay = turn > QUIRE_CACHE_MAX_STATE_WINDOW;
    const int64_t window = is_replay ? 0 : turn;
    memset(truth, 0, sizeof truth);
    memset(texts, 0, sizeof texts);
    randomness source = {(uint64_t)turn};
    int64_t counts[2] = {0, 0};
    /* The reference shares no prefix and keeps one state for each sequence. */
    model_open(&one_by_one, cpu.device, 0, 0, false);
    prefill(&one_by_one, truth, 8);
    for (int i = 0; i < SEQUENCES; ++i) {
      decode_one_by_one(&one_by_one, &truth[i]);
    }
    model_open(&speculative, cpu.device, window, 8, is_replay);
    prefill(&speculative, texts, 8);
    decode_with_drafts(&speculative, truth, texts, &source, counts);
    check_cache(speculative.cache);
    quire_cache_statistics statistics;
    quire_cache_get_statistics(speculative.cache, &statistics);
    assert_int_equal(statistics.matched_tokens, (SEQUENCES - 1) * (PROMPT / 8 * 8));
    for (int i = 0; i < SEQUENCES; ++i) {
      const int64_t first = i == 0 ? 0 : PROMPT / 8 * 8;
      if (memcmp(truth[i].tokens, texts[i].tokens, sizeof texts[i].tokens) != 0 ||
          memcmp(truth[i].outputs[first], texts[i].outputs[first],
                 (size_t)(LENGTH - first) * sizeof texts[i].outputs[0]) != 0) {
        fail_msg("window %lld, seed %lld: text %d differs", (long long)window, (long long)turn, i);
      }
    }
    assert_true(window == 1 || (counts[1] > 0 && counts[1] < counts[0]));
    printf("window %lld%s: %lld of %lld drafts accepted\n", (long long)window,
           is_replay ? ", replay" : "", (long long)counts[1], (long long)counts[0]);
    quire_cache_release(one_by_one.cache);
    quire_cache_release(speculative.cache);
  }
  cpu_close(&cpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(drafts_have_the_bits_of_one_by_one)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
