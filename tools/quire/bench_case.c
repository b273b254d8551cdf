#include "bench_case.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

enum {
  MOST_CASES = 4096,
  MOST_SEQUENCES = 4096,      /* rows of a batch, too */
  MOST_TOKENS = 16777216,     /* of a sequence, new ones and those before them */
  MOST_TOGETHER = 2147483647, /* tokens of all sequences: offsets and blocks are int32 */
  MOST_HEADS = 4096,
  MOST_HEAD_SIZE = 65536,
  MOST_BLOCK_SIZE = 65536,
  MOST_STATES = 1024,  /* to rotate through; layers of a kind, and states of a window */
  MOST_STREAM = 262144 /* MiB */
};

/* What is being read, for messages. */
typedef struct reader {
  const json_t *object;
  const char *name;
  quire_status status;
  quire_error *error;
} reader;

static void fail(reader *from, const char *field, const char *what) {
  if (from->status == QUIRE_OK) {
    from->status = quire_failure_set(from->error, QUIRE_BAD_REQUEST, "case %.64s: \"%s\" %s",
                                     from->name, field, what);
  }
}

/* A whole number of [minimum, maximum], or `absent`, which must be given if it is below. */
static int64_t number(reader *from, const char *field, int64_t minimum, int64_t maximum,
                      int64_t absent) {
  const json_t *value = json_object_get(from->object, field);
  if (!value && absent >= minimum) {
    return absent;
  }
  if (!json_is_integer(value) || json_integer_value(value) < minimum ||
      json_integer_value(value) > maximum) {
    char what[80];
    (void)snprintf(what, sizeof what, "must be a whole number from %lld to %lld",
                   (long long)minimum, (long long)maximum);
    fail(from, field, what);
    return minimum;
  }
  return json_integer_value(value);
}

static void short_text(reader *from, const char *field, const char *absent,
                       char out[BENCH_TEXT_SIZE]) {
  const json_t *value = json_object_get(from->object, field);
  const char *found = value ? json_string_value(value) : absent;
  if (!found || strlen(found) >= BENCH_TEXT_SIZE) {
    fail(from, field, "must be a short text");
    found = "";
  }
  memcpy(out, found, strlen(found) + 1);
}

static void dtypes(reader *from, const char *field, bench_case *item) {
  static const char *const known[] = {"f32", "f16", "bf16", "i8", "i8t"};
  const json_t *list = json_object_get(from->object, field);
  const size_t count = json_array_size(list);
  if (count == 0 || count > BENCH_MOST_DTYPES) {
    fail(from, field, "must list one to five types");
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const char *name = json_string_value(json_array_get(list, i));
    for (size_t k = 0; name && k < sizeof known / sizeof *known; ++k) {
      if (!strcmp(name, known[k])) {
        strcpy(item->dtypes[item->dtype_count++], name);
      }
    }
  }
  if (item->dtype_count != count) {
    fail(from, field, "has an unknown type; f32, f16, bf16, i8 and i8t are known");
  }
}

static bench_sequence *new_sequences(reader *from, const char *field, size_t count,
                                     bench_attention *attention) {
  if (count == 0 || count > MOST_SEQUENCES) {
    fail(from, field, "must have 1 to 4096 items");
    return NULL;
  }
  attention->sequences = calloc(count, sizeof *attention->sequences);
  if (!attention->sequences) {
    fail(from, field, "needs more memory than there is");
    return NULL;
  }
  attention->sequence_count = count;
  return attention->sequences;
}

static void check_together(reader *from, const char *field, const bench_attention *attention) {
  int64_t tokens = 0;
  for (size_t i = 0; i < attention->sequence_count; ++i) {
    tokens += attention->sequences[i].past + attention->sequences[i].fresh;
  }
  if (tokens > MOST_TOGETHER) {
    fail(from, field, "must have fewer than 2147483648 tokens together");
  }
}

/* "contexts": keys of each sequence, the `fresh` new ones included. */
static void contexts(reader *from, int64_t fresh, bench_attention *attention) {
  const json_t *list = json_object_get(from->object, "contexts");
  bench_sequence *made = new_sequences(from, "contexts", json_array_size(list), attention);
  for (size_t i = 0; made && i < attention->sequence_count; ++i) {
    const json_int_t keys = json_integer_value(json_array_get(list, i));
    if (keys < fresh || keys > MOST_TOKENS) {
      fail(from, "contexts", "must hold lengths, to 16777216, that include the new tokens");
      return;
    }
    made[i] = (bench_sequence){keys - fresh, fresh};
  }
  check_together(from, "contexts", attention);
}

/* "sequences": pairs of past and new tokens. */
static void pairs(reader *from, bench_attention *attention) {
  const json_t *list = json_object_get(from->object, "sequences");
  bench_sequence *made = new_sequences(from, "sequences", json_array_size(list), attention);
  for (size_t i = 0; made && i < attention->sequence_count; ++i) {
    const json_t *pair = json_array_get(list, i);
    const json_int_t past = json_integer_value(json_array_get(pair, 0));
    const json_int_t fresh = json_integer_value(json_array_get(pair, 1));
    if (json_array_size(pair) != 2 || past < 0 || past > MOST_TOKENS || fresh < 0 ||
        fresh > MOST_TOKENS - past) {
      fail(from, "sequences", "must hold pairs of past and new tokens, to 16777216 together");
      return;
    }
    made[i] = (bench_sequence){past, fresh};
  }
  check_together(from, "sequences", attention);
}

static void attention(reader *from, bench_attention *out) {
  out->heads = number(from, "q_heads", 1, MOST_HEADS, 0);
  out->kv_heads = number(from, "kv_heads", 1, MOST_HEADS, 0);
  out->head_size = number(from, "head_dim", 1, MOST_HEAD_SIZE, 0);
  out->block_size = number(from, "block_size", 1, MOST_BLOCK_SIZE, 16);
  out->window = number(from, "window", 0, INT32_MAX, 0);
  out->softcap = json_number_value(json_object_get(from->object, "softcap"));
  out->has_sink = json_is_true(json_object_get(from->object, "sink"));
}

static void linear(reader *from, int64_t batch, int64_t tokens, bench_linear *out) {
  const char *decay = json_string_value(json_object_get(from->object, "decay"));
  const char *state = json_string_value(json_object_get(from->object, "state_dtype"));
  out->batch = batch;
  out->tokens = tokens;
  out->key_heads = number(from, "k_heads", 1, MOST_HEADS, 0);
  out->value_heads = number(from, "v_heads", 1, MOST_HEADS, 0);
  out->key_size = number(from, "dk", 1, MOST_HEAD_SIZE, 0);
  out->value_size = number(from, "dv", 1, MOST_HEAD_SIZE, 0);
  out->state_window = number(from, "state_window", 0, MOST_STATES, 0);
  out->has_channel_decay = decay && !strcmp(decay, "channel");
  out->has_gates = json_is_true(json_object_get(from->object, "gates"));
  out->is_apart = json_is_true(json_object_get(from->object, "state_apart"));
  out->state_dtype = !state || !strcmp(state, "f32") ? QUIRE_FLOAT32
                     : !strcmp(state, "f16")         ? QUIRE_FLOAT16
                                                     : QUIRE_BFLOAT16;
}

static void one_sequence(reader *from, int64_t past, int64_t fresh, size_t rows,
                         bench_attention *out) {
  bench_sequence *made = new_sequences(from, "rows", rows, out);
  for (size_t i = 0; made && i < rows; ++i) {
    made[i] = (bench_sequence){past, fresh};
  }
  check_together(from, "rows", out);
}

static void hybrid(reader *from, bench_case *item) {
  const int64_t rows = number(from, "rows", 1, MOST_SEQUENCES, 1);
  item->attention_layers = number(from, "attention_layers", 0, MOST_STATES, 0);
  item->linear_layers = number(from, "linear_layers", 0, MOST_STATES, 0);
  item->stream_mib = number(from, "stream_mib", 0, MOST_STREAM, 0);
  linear(from, rows, 1, &item->linear);
  item->linear.query_heads = item->linear.key_heads;
  attention(from, &item->attention);
  one_sequence(from, number(from, "context", 1, MOST_TOKENS, 0) - 1, 1, (size_t)rows,
               &item->attention);
  dtypes(from, "kv_dtypes", item);
}

static void by_operator(reader *from, bench_case *item) {
  const char *op = json_string_value(json_object_get(from->object, "op"));
  if (op && !strcmp(op, "gated_delta")) {
    item->linear_layers = 1;
    linear(from, number(from, "batch", 1, MOST_SEQUENCES, 1),
           number(from, "tokens", 1, MOST_TOKENS, 0), &item->linear);
    item->linear.query_heads = number(from, "q_heads", 1, MOST_HEADS, 0);
    dtypes(from, "io_dtypes", item);
  } else if (op && !strcmp(op, "hybrid")) {
    hybrid(from, item);
  } else if (op && (!strcmp(op, "decode") || !strcmp(op, "prefill") || !strcmp(op, "paged"))) {
    item->attention_layers = 1;
    attention(from, &item->attention);
    dtypes(from, !strcmp(op, "prefill") ? "dtypes" : "kv_dtypes", item);
    if (!strcmp(op, "decode")) {
      contexts(from, number(from, "new_tokens", 1, MOST_TOKENS, 1), &item->attention);
    } else if (!strcmp(op, "paged")) {
      pairs(from, &item->attention);
    } else {
      const int64_t tokens = number(from, "tokens", 1, MOST_TOKENS, 0);
      one_sequence(from, number(from, "past", 0, MOST_TOKENS - tokens, 0), tokens, 1,
                   &item->attention);
    }
  } else {
    fail(from, "op", "must be gated_delta, decode, prefill, paged or hybrid");
  }
}

static quire_status parse_case(const json_t *object, bench_case *item, quire_error *error) {
  reader from = {.object = object, .name = "", .error = error};
  short_text(&from, "case", NULL, item->name);
  from.name = item->name;
  short_text(&from, "workload", "", item->workload);
  short_text(&from, "model", "", item->model);
  item->states = number(&from, "states", 1, MOST_STATES, 1);
  by_operator(&from, item);
  const char *excess = from.status == QUIRE_OK ? quire_bench_case_excess(item) : NULL;
  if (excess) {
    char what[80];
    (void)snprintf(what, sizeof what, "makes it need more than %lld bytes",
                   (long long)BENCH_MOST_BYTES);
    fail(&from, excess, what);
  }
  return from.status;
}

quire_status quire_bench_cases_parse(const char *text, size_t length, bench_case_list *list,
                                     quire_error *error) {
  json_error_t fault;
  *list = (bench_case_list){0};
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &fault);
  const json_t *cases = json_object_get(root, "cases");
  const size_t count = json_array_size(cases);
  quire_status status = QUIRE_OK;
  if (!root) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "line %d, column %d: %s", fault.line,
                             fault.column, fault.text);
  }
  if (count == 0 || count > MOST_CASES) {
    status = quire_failure_set(error, QUIRE_BAD_REQUEST, "\"cases\" must be a list of cases");
  } else {
    list->items = calloc(count, sizeof *list->items);
    status = list->items ? QUIRE_OK : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory");
  }
  for (size_t i = 0; list->items && i < count && status == QUIRE_OK; ++i) {
    list->count = i + 1;
    status = parse_case(json_array_get(cases, i), &list->items[i], error);
  }
  json_decref(root);
  if (status != QUIRE_OK) {
    quire_bench_cases_release(list);
  }
  return status;
}

void quire_bench_cases_release(bench_case_list *list) {
  for (size_t i = 0; i < list->count; ++i) {
    free(list->items[i].attention.sequences);
  }
  free(list->items);
  *list = (bench_case_list){0};
}

int quire_bench_case_matches(const bench_case *item, const char *word) {
  if (!word || !strcmp(word, item->workload) || strstr(item->name, word)) {
    return 1;
  }
  return (item->attention_layers > 0 && strstr("com.microsoft.PagedAttention", word)) ||
         (item->linear_layers > 0 && strstr("com.microsoft.LinearAttention", word));
}
