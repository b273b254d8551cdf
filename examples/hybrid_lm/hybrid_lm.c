/*
 * A small hybrid language model that continues several prompts at once: short convolutions and the
 * gated delta rule in most layers, paged attention in every fourth, the serving layer's blocks and
 * states under both. Text is printed as it comes, prompt by prompt, while all of them are computed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lm_model.h"

enum { PROMPTS = 8, COLUMNS = 64, LENGTH = COLUMNS * LM_BLOCK_SIZE, CHUNK = 64, ROWS = 256 };

typedef struct request {
  int32_t tokens[LENGTH + 1];
  int known, goal, shown; /* tokens that exist, are wanted, were printed */
  quire_sequence sequence;
} request;

typedef struct engine {
  quire_context *context;
  quire_device *device;
  quire_cache *cache;
  lm_weights weights;
  lm_model *model;
  request requests[PROMPTS];
  int count;
  double temperature;
  uint64_t random;
  long generated;
  float logits[ROWS * LM_VOCABULARY];
} engine;

typedef struct options {
  const char *weights, *device, *check;
  int tokens;
  double temperature;
  unsigned seed;
  const char *prompts[PROMPTS];
  int prompt_count;
} options;

static int usage(void) {
  fprintf(stderr,
          "usage: hybrid_lm [--device cpu|webgpu] [--weights FILE] [--tokens N]\n"
          "                 [--temperature T] [--seed N] [--check FILE] [PROMPT...]\n");
  return 2;
}

/* A number that takes up the whole text and lies in [0, most]. */
static int read_number(const char *text, double most, double *number) {
  char *end = NULL;
  *number = strtod(text, &end);
  return end != text && *end == '\0' && *number >= 0 && *number <= most ? 0 : -1;
}

static int parse_option(const char *name, const char *value, options *o) {
  double number = 0;
  int status = 0;
  if (strcmp(name, "--device") == 0) {
    o->device = value;
  } else if (strcmp(name, "--weights") == 0) {
    o->weights = value;
  } else if (strcmp(name, "--check") == 0) {
    o->check = value;
  } else if (strcmp(name, "--tokens") == 0) {
    status = read_number(value, LENGTH, &number);
    o->tokens = (int)number;
  } else if (strcmp(name, "--temperature") == 0) {
    status = read_number(value, 100, &o->temperature);
  } else if (strcmp(name, "--seed") == 0) {
    status = read_number(value, 1e9, &number);
    o->seed = (unsigned)number;
  } else {
    status = -1;
  }
  return status;
}

static int parse(int count, char **arguments, options *o) {
  for (int i = 1; i < count; i++) {
    const char *word = arguments[i];
    if (strncmp(word, "--", 2) == 0) {
      i++;
      if (i == count || parse_option(word, arguments[i], o) != 0) {
        return -1;
      }
    } else if (o->prompt_count == PROMPTS || strlen(word) >= LENGTH || *word == '\0') {
      return -1;
    } else {
      o->prompts[o->prompt_count++] = word;
    }
  }
  return 0;
}

/* The most likely token, or one drawn from softmax(logits / temperature). */
static int choose(engine *e, const float *logits) {
  int best = 0;
  for (int i = 1; i < LM_VOCABULARY; i++) {
    best = logits[i] > logits[best] ? i : best;
  }
  if (e->temperature <= 0) {
    return best;
  }
  double sum = 0, weights[LM_VOCABULARY];
  for (int i = 0; i < LM_VOCABULARY; i++) {
    sum += weights[i] = exp((logits[i] - logits[best]) / e->temperature);
  }
  e->random = e->random * 6364136223846793005U + 1442695040888963407U; /* Knuth's MMIX */
  double left = sum * (double)(e->random >> 11) / 9007199254740992.0;
  for (int i = 0; i < LM_VOCABULARY; i++) {
    left -= weights[i];
    if (left < 0) {
      return i;
    }
  }
  return best;
}

/* Prints what is new of the first request that is not finished, and of those behind finished ones.
 */
static void show(engine *e) {
  for (int i = 0; i < e->count; i++) {
    request *r = &e->requests[i];
    if (r->shown == 0 && e->count > 1) {
      printf("%s--- %d ---\n", i > 0 ? "\n\n" : "", i + 1);
    }
    for (; r->shown < r->known; r->shown++) {
      putchar(r->tokens[r->shown]);
    }
    if (r->known < r->goal) {
      break;
    }
  }
  fflush(stdout);
}

/* Appends the next tokens of every request to its sequence and lists them. */
static quire_status schedule(engine *e, quire_batch_entry *entries, request **members, int *count,
                             quire_error *error) {
  quire_status status = QUIRE_OK;
  int rows = 0;
  *count = 0;
  for (int i = 0; i < e->count && status == QUIRE_OK; i++) {
    request *r = &e->requests[i];
    quire_sequence_facts facts;
    status = quire_sequence_get_facts(e->cache, r->sequence, &facts, error);
    int tokens = r->known - (int)facts.committed;
    tokens = tokens < CHUNK ? tokens : CHUNK;
    if (status == QUIRE_OK && r->known < r->goal && rows + tokens <= ROWS) {
      status = quire_sequence_append(e->cache, r->sequence, tokens, error);
      entries[*count] = (quire_batch_entry){r->sequence, tokens, 0, 0};
      members[(*count)++] = r;
      rows += tokens;
    }
  }
  return status;
}

/* One step of all requests. *live becomes 0 when every one has what it wanted. */
static quire_status step(engine *e, int *live, quire_error *error) {
  static int32_t cumulative[PROMPTS + 1], past[PROMPTS], table[PROMPTS][COLUMNS], slots[ROWS];
  static int32_t positions[ROWS], state_read[PROMPTS], state_write[PROMPTS], tokens[ROWS];
  quire_batch_entry entries[PROMPTS];
  request *members[PROMPTS];
  quire_status status = schedule(e, entries, members, live, error);
  if (status != QUIRE_OK || *live == 0) {
    return status;
  }
  quire_batch_group group = {&table[0][0], COLUMNS, slots, NULL, -1};
  quire_batch batch;
  quire_batch_init(&batch);
  batch.row_capacity = ROWS;
  batch.sequence_capacity = PROMPTS;
  batch.groups = &group;
  batch.group_count = 1;
  batch.cumulative_sequence_length = cumulative;
  batch.past_seqlens = past;
  batch.positions = positions;
  batch.state_read = state_read;
  batch.state_write = state_write;
  status = quire_batch_build(e->cache, entries, (size_t)*live, &batch, error);
  if (status != QUIRE_OK) {
    return status;
  }
  for (int i = 0; i < *live; i++) {
    memcpy(tokens + cumulative[i], members[i]->tokens + past[i],
           (size_t)entries[i].new_tokens * sizeof *tokens);
  }
  const lm_step now = {(int)batch.rows, *live, tokens,     positions,  cumulative, past,
                       &table[0][0],    slots, state_read, state_write};
  status = lm_model_run(e->model, &now, e->logits, error);
  for (int i = 0; i < *live && status == QUIRE_OK; i++) {
    request *r = members[i];
    status = quire_sequence_commit(e->cache, r->sequence, r->tokens + past[i],
                                   entries[i].new_tokens, error);
    if (past[i] + entries[i].new_tokens == r->known) { /* its last row tells the next token */
      const float *last = e->logits + (size_t)(cumulative[i + 1] - 1) * LM_VOCABULARY;
      r->tokens[r->known++] = choose(e, last);
      e->generated++;
    }
  }
  return status;
}

static quire_status open_engine(engine *e, const options *o, quire_error *error) {
  if (lm_weights_load(o->weights, &e->weights) != 0) {
    return QUIRE_IO;
  }
  const quire_cache_group group = {PROMPTS * COLUMNS, LM_BLOCK_SIZE, 0};
  const lm_limits limits = {ROWS, PROMPTS, PROMPTS * COLUMNS, COLUMNS};
  quire_cache_options cache;
  quire_cache_options_init(&cache);
  cache.groups = &group;
  cache.group_count = 1;
  cache.sequence_limit = PROMPTS;
  cache.length_limit = LENGTH;
  cache.state_slots = PROMPTS;
  quire_status status = quire_context_create(NULL, &e->context, error);
  if (status == QUIRE_OK) {
    status = quire_device_open(e->context, o->device, NULL, &e->device, error);
  }
  if (status == QUIRE_OK) {
    status = quire_cache_create(&cache, &e->cache, error);
  }
  if (status == QUIRE_OK) {
    e->model = lm_model_create(e->device, &e->weights, &limits, error);
    status = e->model != NULL            ? QUIRE_OK
             : error->status != QUIRE_OK ? error->status
                                         : QUIRE_OUT_OF_MEMORY;
  }
  return status;
}

static void close_engine(engine *e) {
  lm_model_free(e->model);
  quire_cache_release(e->cache);
  quire_device_release(e->device);
  quire_context_release(e->context);
  lm_weights_free(&e->weights);
}

static quire_status generate(engine *e, const options *o, quire_error *error) {
  quire_status status = QUIRE_OK;
  e->count = o->prompt_count;
  e->temperature = o->temperature;
  e->random = o->seed;
  for (int i = 0; i < e->count && status == QUIRE_OK; i++) {
    request *r = &e->requests[i];
    for (const char *c = o->prompts[i]; *c != '\0'; c++) {
      r->tokens[r->known++] = (unsigned char)*c;
    }
    r->goal = r->known + o->tokens < LENGTH ? r->known + o->tokens : LENGTH;
    status = quire_sequence_create(e->cache, NULL, NULL, 0, &r->sequence, NULL, error);
  }
  const clock_t begin = clock();
  struct timespec from, to;
  timespec_get(&from, TIME_UTC);
  for (int live = 1; live > 0 && status == QUIRE_OK;) {
    show(e);
    status = step(e, &live, error);
  }
  timespec_get(&to, TIME_UTC);
  const double seconds =
      difftime(to.tv_sec, from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
  putchar('\n');
  if (status == QUIRE_OK) {
    fprintf(stderr, "%ld tokens in %.2f s: %.0f tokens/s (%.2f s of processor time)\n",
            e->generated, seconds, (double)e->generated / seconds,
            (double)(clock() - begin) / CLOCKS_PER_SEC);
  }
  return status;
}

/* Compares the logits of a text, in chunks as a server would compute them, with PyTorch's. */
static quire_status check(engine *e, const options *o, quire_error *error) {
  lm_weights expected;
  if (lm_weights_load(o->check, &expected) != 0) {
    return QUIRE_IO;
  }
  const size_t rows = lm_weights_count(&expected, "tokens");
  const float *tokens = lm_weights_get(&expected, "tokens", rows);
  const float *logits = lm_weights_get(&expected, "logits", rows * LM_VOCABULARY);
  quire_status status =
      tokens != NULL && logits != NULL && rows < LENGTH ? QUIRE_OK : QUIRE_BAD_VALUE;
  request *r = &e->requests[0];
  e->count = 1;
  double worst = 0, largest = 0;
  if (status == QUIRE_OK) {
    status = quire_sequence_create(e->cache, NULL, NULL, 0, &r->sequence, NULL, error);
  }
  for (size_t done = 0; done < rows && status == QUIRE_OK;) {
    const size_t chunk = rows - done < 40 ? rows - done : 40;
    for (size_t i = 0; i < chunk; i++) {
      r->tokens[done + i] = (int32_t)tokens[done + i];
    }
    int live = 1;
    r->known = (int)(done + chunk);
    r->goal = r->known + 1;
    status = step(e, &live, error);
    for (size_t i = 0; i < chunk * LM_VOCABULARY && status == QUIRE_OK; i++) {
      const double wanted = logits[done * LM_VOCABULARY + i];
      worst = fmax(worst, fabs(e->logits[i] - wanted));
      largest = fmax(largest, fabs(wanted));
    }
    done += chunk;
  }
  lm_weights_free(&expected);
  if (status == QUIRE_OK) {
    const int good = worst <= 1e-4 * largest;
    printf("%zu tokens: largest difference %.2g of logits up to %.2g: %s\n", rows, worst, largest,
           good ? "equal within 1e-4" : "DIFFERENT");
    status = good ? QUIRE_OK : QUIRE_INTERNAL;
  }
  return status;
}

int main(int count, char **arguments) {
  static engine e;
  options o = {HYBRID_LM_FOLDER "/weights.safetensors", "cpu", NULL, 300, 0, 1, {NULL}, 0};
  if (parse(count, arguments, &o) != 0) {
    return usage();
  }
  if (o.prompt_count == 0) {
    o.prompts[o.prompt_count++] = "And the LORD spake unto";
    o.prompts[o.prompt_count++] = "In the beginning";
    o.prompts[o.prompt_count++] = "Blessed is the man that";
  }
  quire_error error = {QUIRE_OK, "", "", ""};
  quire_status status = open_engine(&e, &o, &error);
  if (status == QUIRE_OK) {
    status = o.check != NULL ? check(&e, &o, &error) : generate(&e, &o, &error);
  }
  close_engine(&e);
  if (status != QUIRE_OK) {
    fprintf(stderr, "hybrid_lm: %s: %s\n", quire_status_name(status), error.message);
    return 1;
  }
  return 0;
}
