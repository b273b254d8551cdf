/*
 * One work item of the recurrence: some value columns of one state head of one sequence. Says where
 * its rows and states lie in the call's tensors; the arithmetic is the implementations'.
 */
#ifndef QUIRE_LINEAR_ATTENTION_ITEM_H
#define QUIRE_LINEAR_ATTENTION_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linear_attention_call.h"

/* One state matrix in memory: element (row, column) of its two last axes. */
typedef struct quire_linear_attention_state {
  unsigned char *data; /* NULL: there is none */
  quire_dtype dtype;
  int64_t row_stride; /* in elements; rows are contiguous */
} quire_linear_attention_state;

typedef struct quire_linear_attention_item {
  const quire_view *views; /* LA_COUNT of them */
  const quire_linear_attention_uniforms *uniforms;
  const int64_t *span;
  int64_t tokens;
  int64_t window; /* state slots kept, 0: no window */
  size_t sequence;
  size_t head; /* state head */
  size_t key_head;
  size_t group; /* query heads that read this state */
  size_t dk;
  size_t dv;
  size_t first; /* value column */
  size_t columns;
  float scale;
  float *scratch; /* work memory of this item; NULL if dk <= LA_STACK_CHANNELS */
} quire_linear_attention_item;

/* grid: (blocks of value columns, state heads, sequences). `views`: LA_COUNT of them. */
void quire_linear_attention_item_init(quire_linear_attention_item *item, const quire_pass *pass,
                                      const quire_view *views, const size_t index[3]);

/* The views of a pass of the standard operator, which has none of the extensions. */
void quire_linear_attention_strict_views(const quire_pass *pass, quire_view views[LA_COUNT]);

/* Channel `channel` of row [b, t] of a packed tensor; t counts from the start of the sequence. */
void *quire_linear_attention_token_row(const quire_linear_attention_item *item,
                                       const quire_view *view, int64_t token, size_t channel);

/* The matrix to start from; data NULL: zeros. */
quire_linear_attention_state quire_linear_attention_past(const quire_linear_attention_item *item);
/* The matrix that window slot `window` (0 without a window) is stored to; data NULL: nowhere. */
quire_linear_attention_state quire_linear_attention_present(const quire_linear_attention_item *item,
                                                            int64_t window);
/* 4.3: writes zeros to the item's columns of the leading slots that no token reaches. */
void quire_linear_attention_zero_unreached(const quire_linear_attention_item *item);
/* The slot for the state after `token`, or -1: 4.3. Without a window, 0 for the last token. */
int64_t quire_linear_attention_slot_of(const quire_linear_attention_item *item, int64_t token);

/* X8: whether the call logs its tokens for LinearAttentionReplay. */
bool quire_linear_attention_logs(const quire_linear_attention_item *item);
/* Logs u of step 3 for `columns` value columns from `first` on, if the call logs. */
void quire_linear_attention_log_update(const quire_linear_attention_item *item, int64_t token,
                                       size_t first, size_t columns, const float *update);
/* Logs the key row as used, and the decay factors ([dk], or NULL: `factor` for all channels), if
   the call logs. One of the items that share a row does it. */
void quire_linear_attention_log_token(const quire_linear_attention_item *item, int64_t token,
                                      const float *key, const float *factors, float factor);

/* 4.2 and X7: the output head of query head `member` of this item's group, and the query head. */
size_t quire_linear_attention_output_head(const quire_linear_attention_item *item, size_t member);
size_t quire_linear_attention_query_head(const quire_linear_attention_item *item, size_t member);

/* Whether the decay factors differ between key channels. */
bool quire_linear_attention_decays_by_channel(const quire_linear_attention_item *item);
/* First element for this head of a per-head [Hkv] or per-key-channel [Hkv*dk] row. */
size_t quire_linear_attention_gate_start(const quire_linear_attention_item *item, int64_t width);

#endif
