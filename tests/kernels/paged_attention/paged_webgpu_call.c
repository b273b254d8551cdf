#include "paged_webgpu_call.h"

#include <math.h>
#include <string.h>

static int64_t keys_of(const paged_row *r, int64_t n) {
  return r->past[n] + r->fresh[n];
}

/* Blocks in descending order; columns behind the live length hold what must not be used. */
static void add_table(paged_problem *p, const paged_row *r) {
  p->columns = 1;
  p->blocks = 2;
  for (int64_t n = 0; n < r->sequences; n++) {
    const int64_t used = (keys_of(r, n) + r->block - 1) / r->block;
    p->columns = used + 1 > p->columns ? used + 1 : p->columns;
    p->blocks += used;
  }
  const int64_t shape[] = {r->sequences, p->columns};
  int32_t *table = variant_add(&p->base, "block_table", QUIRE_INT32, 2, shape);
  p->table = table;
  int64_t next = p->blocks - 2;
  for (int64_t n = 0; n < r->sequences; n++) {
    for (int64_t c = 0; c < p->columns; c++) {
      const bool used = c * r->block < keys_of(r, n);
      table[n * p->columns + c] = (int32_t)(used ? next-- : p->blocks + c % 2 * 1000000);
    }
  }
  if (r->holes) {
    table[1] = -1;
    table[(keys_of(r, 0) - 1) / r->block] = (int32_t)p->blocks;
  }
}

/* Puts numbers into the rows, of `width` elements, where keys of the sequences lie. */
static void fill_keys(paged_problem *p, const paged_row *r, quire_dtype dtype, void *data,
                      int64_t width) {
  for (int64_t n = 0; n < r->sequences; n++) {
    const int64_t blocks = (keys_of(r, n) + r->block - 1) / r->block;
    const int64_t keys = p->whole_blocks ? blocks * r->block : keys_of(r, n);
    for (int64_t j = 0; j < keys; j++) {
      const int64_t block = p->table[n * p->columns + j / r->block];
      if (block >= 0 && block < p->blocks) {
        variant_fill(&p->base, dtype, data, (block * r->block + j % r->block) * width, width);
      }
    }
  }
}

/* NaN wherever no key of a sequence lies. */
static void add_caches(paged_problem *p, const paged_row *r) {
  const quire_dtype dtype = r->quantised != NULL ? QUIRE_INT8 : r->type;
  const int64_t shape[] = {p->blocks, r->block, r->kv_heads, r->size};
  const int64_t width = r->kv_heads * r->size;
  static const char *const names[] = {"key_cache", "value_cache"};
  for (size_t i = 0; i < 2; i++) {
    void *cache = variant_add(&p->base, names[i], dtype, 4, shape);
    for (int64_t e = 0; e < p->blocks * r->block * width; e++) {
      variant_store(dtype, cache, e, NAN);
    }
    fill_keys(p, r, dtype, cache, width);
  }
}

static void add_rows(paged_problem *p, const paged_row *r) {
  const int64_t queries = r->heads * r->size;
  const int64_t keys = r->kv_heads * r->size;
  const int64_t width = r->packed ? queries + 2 * keys : queries;
  const int64_t query_shape[] = {p->tokens, width};
  (void)variant_add_floats(&p->base, "query", r->type, 2, query_shape, -1, 1);
  if (!r->packed) {
    const int64_t shape[] = {p->tokens, keys};
    (void)variant_add_floats(&p->base, "key", r->type, 2, shape, -1, 1);
    void *value = variant_add_floats(&p->base, "value", r->type, 2, shape, -1, 1);
    for (int64_t e = (p->tokens - 1) * keys; r->poison && e < p->tokens * keys; e++) {
      variant_store(r->type, value, e, NAN);
    }
  }
  if (r->unbounded) { /* the last row's last elements are the last value's, packed or not */
    const variant_tensor *last = &p->base.call.inputs[p->base.call.input_count - 1];
    variant_store(r->type, p->base.owned[p->base.owned_count - 1], p->tokens * last->shape[1] - 1,
                  INFINITY);
  }
}

static void add_lengths(paged_problem *p, const paged_row *r) {
  const int64_t ends = r->sequences + 1;
  int32_t *cumulative = variant_add(&p->base, "cumulative_sequence_length", QUIRE_INT32, 1, &ends);
  int32_t *past = variant_add(&p->base, "past_seqlens", QUIRE_INT32, 1, &r->sequences);
  int32_t *slots =
      r->slots ? variant_add(&p->base, "slot_mapping", QUIRE_INT32, 1, &p->tokens) : NULL;
  for (int64_t n = 0; n < r->sequences; n++) {
    past[n] = (int32_t)r->past[n];
    cumulative[n + 1] = cumulative[n] + (int32_t)r->fresh[n];
    for (int64_t i = 0; slots != NULL && i < r->fresh[n]; i++) {
      const int64_t at = r->past[n] + i;
      slots[cumulative[n] + i] =
          (int32_t)(p->table[n * p->columns + at / r->block] * r->block + at % r->block);
    }
  }
  if (slots != NULL) { /* stored nowhere, or where no sequence sees it */
    slots[0] = -1;
    slots[1] = (int32_t)((p->blocks - 1) * r->block);
  }
}

static const char *quantisation(const paged_row *r, size_t side) {
  return side == 1 && r->values != NULL ? r->values : r->quantised;
}

/* Powers of two: their reciprocals are exact, so that the CPU's rounding is the only one. */
static void add_scales(paged_problem *p, const paged_row *r) {
  static const char *const given[] = {"k_scale", "v_scale"};
  static const char *const cached[] = {"k_scale_cache", "v_scale_cache"};
  for (size_t i = 0; i < 2; i++) {
    const bool by_channel = strcmp(quantisation(r, i), "PER_CHANNEL") == 0;
    const bool by_row = strcmp(quantisation(r, i), "PER_TOKEN") == 0;
    const int64_t channels[] = {by_channel ? r->kv_heads : 1, 1, r->size};
    const int64_t rows_of[] = {p->blocks, r->block, r->kv_heads};
    const int64_t count =
        by_row ? p->blocks * r->block * r->kv_heads : (by_channel ? r->kv_heads * r->size : 1);
    float *scale = variant_add(&p->base, (by_row ? cached : given)[i], QUIRE_FLOAT32,
                               by_row || by_channel ? 3 : 1, by_row ? rows_of : channels);
    for (int64_t e = 0; e < count; e++) {
      scale[e] = by_row ? NAN : e % 5 == 4 ? 0 : ldexpf(1, -5 - (int)(e % 3));
    }
    if (by_row) {
      fill_keys(p, r, QUIRE_FLOAT32, scale, r->kv_heads);
    }
  }
}

static void set_float(variant_call *call, const char *name, double value) {
  call->attributes[call->attribute_count++] =
      (quire_named_value){.name = name, .type = QUIRE_VALUE_TYPE_FLOAT, .f = value};
}

static void set_values(variant_call *call, const paged_row *r) {
  variant_set_int(call->attributes, &call->attribute_count, "num_heads", r->heads);
  variant_set_int(call->attributes, &call->attribute_count, "kv_num_heads", r->kv_heads);
  variant_set_int(call->attributes, &call->attribute_count, "is_causal", !r->non_causal);
  variant_set_int(call->attributes, &call->attribute_count, "local_window_size", r->window);
  set_float(call, "scale", r->scale);
  set_float(call, "softcap", r->softcap);
  if (r->quantised != NULL) {
    variant_set_text(call->attributes, &call->attribute_count, "k_quant_type", quantisation(r, 0));
    variant_set_text(call->attributes, &call->attribute_count, "v_quant_type", quantisation(r, 1));
  }
  const struct {
    const char *name;
    int64_t value;
  } tunables[] = {{"rangeKeys", r->range}, {"tileRows", r->rows}, {"prefillKeys", r->keys}};
  for (size_t i = 0; i < sizeof tunables / sizeof *tunables; i++) {
    if (tunables[i].value != 0) {
      variant_set_int(call->tunables, &call->tunable_count, tunables[i].name, tunables[i].value);
    }
  }
}

static void make(paged_problem *p, const paged_row *r, uint64_t seed, bool whole_blocks) {
  *p = (paged_problem){.whole_blocks = whole_blocks};
  variant_begin(&p->base, "com.microsoft.PagedAttention", seed);
  for (int64_t n = 0; n < r->sequences; n++) {
    p->tokens += r->fresh[n];
  }
  add_table(p, r);
  add_rows(p, r);
  add_caches(p, r);
  add_lengths(p, r);
  if (r->quantised != NULL) {
    add_scales(p, r);
  }
  if (r->sink) {
    (void)variant_add_floats(&p->base, "head_sink", r->type, 1, &r->heads, -1, 1);
  }
  if (r->lse) {
    variant_want(&p->base, "softmax_lse");
  }
  set_values(&p->base.call, r);
}

void paged_make(paged_problem *p, const paged_row *r, uint64_t seed) {
  make(p, r, seed, false);
}

/* ---- values that break the contract ---- */

/* Replaces about one value in `rarity` by one of the choices. */
static void spoil(paged_problem *p, int32_t *values, int64_t count, uint32_t rarity,
                  const int32_t *choices, uint32_t choice_count) {
  for (int64_t i = 0; i < count; i++) {
    if (variant_random(&p->base, rarity) == 0) {
      values[i] = choices[variant_random(&p->base, choice_count)];
    }
  }
}

enum { CHOICES = 6 };

static void spoil_all(paged_problem *p, const paged_row *r) {
  const int32_t tokens = (int32_t)p->tokens;
  const int32_t blocks = (int32_t)p->blocks;
  const int32_t capacity = (int32_t)(p->columns * r->block);
  const int32_t entries[CHOICES] = {INT32_MIN, -1, blocks, blocks + 1, 1 << 30, INT32_MAX};
  const int32_t ends[CHOICES] = {INT32_MIN, -1, 0, tokens / 2, tokens + 1, INT32_MAX};
  const int32_t pasts[CHOICES] = {INT32_MIN, -1, 0, capacity - 1, capacity, INT32_MAX};
  const int32_t rows = blocks * (int32_t)r->block;
  const int32_t slots[CHOICES] = {INT32_MIN, -2, -1, rows, rows + 7, INT32_MAX};
  spoil(p, p->table, r->sequences * p->columns, 5, entries, CHOICES);
  spoil(p, variant_data(&p->base, "cumulative_sequence_length"), r->sequences + 1, 3, ends,
        CHOICES);
  spoil(p, variant_data(&p->base, "past_seqlens"), r->sequences, 3, pasts, CHOICES);
  if (r->slots) {
    spoil(p, variant_data(&p->base, "slot_mapping"), p->tokens, 4, slots, CHOICES);
  }
}

/* The values that a device must take in place of the given ones. Rows without an owner become those
   of one more sequence, which has no blocks; a sequence with a negative past has none either. */
static void make_harmless(const paged_problem *p, const paged_row *r, variant_problem *harmless) {
  const int64_t capacity = p->columns * r->block;
  const int64_t columns = p->columns + (p->tokens + r->window) / r->block + 2;
  const int64_t sequences = r->sequences + 1;
  const int64_t ends_shape = sequences + 1;
  const int64_t table_shape[] = {sequences, columns};
  const int32_t *given_ends = variant_data(&p->base, "cumulative_sequence_length");
  const int32_t *given_past = variant_data(&p->base, "past_seqlens");
  variant_begin(harmless, p->base.call.op, 0);
  int32_t *ends = variant_add(harmless, "cumulative_sequence_length", QUIRE_INT32, 1, &ends_shape);
  int32_t *past = variant_add(harmless, "past_seqlens", QUIRE_INT32, 1, &sequences);
  int32_t *table = variant_add(harmless, "block_table", QUIRE_INT32, 2, table_shape);
  int32_t *slots =
      r->slots ? variant_add(harmless, "slot_mapping", QUIRE_INT32, 1, &p->tokens) : NULL;
  for (int64_t i = 0; i < sequences * columns; i++) {
    table[i] = -1;
  }
  for (int64_t n = 0; n < sequences; n++) {
    const int32_t tokens = (int32_t)p->tokens;
    const int32_t end =
        n == r->sequences || given_ends[n + 1] > tokens ? tokens : given_ends[n + 1];
    const bool is_void = n == r->sequences || given_past[n] < 0;
    const int64_t most = capacity + r->window;
    ends[n + 1] = end > ends[n] ? end : ends[n];
    past[n] = is_void ? 0 : (int32_t)(given_past[n] > most ? most : given_past[n]);
    if (!is_void) {
      memcpy(table + n * columns, p->table + n * p->columns, (size_t)p->columns * sizeof *table);
    }
    for (int64_t t = ends[n]; slots != NULL && t < ends[n + 1]; t++) {
      slots[t] = is_void ? -1 : ((int32_t *)variant_data(&p->base, "slot_mapping"))[t];
    }
  }
}

void paged_make_hostile(paged_problem *p, const paged_row *r, uint64_t seed,
                        variant_problem *harmless) {
  make(p, r, seed, true);
  spoil_all(p, r);
  make_harmless(p, r, harmless);
  const variant_call own = harmless->call;
  harmless->call = p->base.call;
  for (size_t i = 0; i < own.input_count; i++) {
    for (size_t k = 0; k < p->base.call.input_count; k++) {
      if (strcmp(own.inputs[i].name, p->base.call.inputs[k].name) == 0) {
        harmless->call.inputs[k] = own.inputs[i];
      }
    }
  }
}
