/*
 * What the recurrent operators share: packed sequences, states that are handed over or lie in the
 * slots of a pool. The watched sequence may see its own tokens and the one state that it reads.
 */
#ifndef QUIRE_TESTS_ISOLATION_STATES_H
#define QUIRE_TESTS_ISOLATION_STATES_H

#include "isolation_call.h"

enum { ISO_MOST_SEQUENCES = 4 };

typedef struct iso_states {
  iso_call *call;
  quire_dtype dtype;
  int64_t batch, tokens, sequences; /* tokens of each row of the batch */
  int64_t window;                   /* W; 0: none */
  int32_t ndim;                     /* of one state */
  int64_t dims[3], size;            /* of one state; their product */
  bool is_varlen, has_pool, has_past, has_present, is_alias, is_copied;
  int64_t slots, slot_stride;
  int32_t *offsets, *reads, *writes; /* NULL: none */
  iso_tensor *pool, *pool_out, *past, *present;
} iso_states;

/* Chooses batch, lengths and where states are; `is_plain`: what the standard operators have. */
void iso_states_choose(iso_states *states, iso_call *call, bool is_plain);
/* Adds the tensors of states, after dtype, ndim and dims are set. */
void iso_states_add(iso_states *states);
/* Adds offsets and indices, some of them hostile; the call's last integers. */
void iso_states_make_integers(iso_states *states);
/* Whether they keep the rules X3 and X4; what they say is ISO_FIXED. */
bool iso_states_are_legal(const iso_states *states);
void iso_states_fix_integers(const iso_states *states);

/* Number of the sequence of a token of the batch, and a sequence's tokens. */
int64_t iso_states_sequence(const iso_states *states, int64_t row, int64_t token);
int64_t iso_states_length(const iso_states *states, int64_t sequence);
/* Marks what the states may be read and written for; legal calls only. */
void iso_states_mark(const iso_states *states);

/* Dense rows [batch, tokens, width] of an input: the watched sequence's are ISO_FIXED, those from
   `most` tokens of the sequence on are not. */
void iso_states_fix_rows(const iso_states *states, const char *name, int64_t width, float scale,
                         const int32_t *most);
/* The same of an output. */
void iso_states_mark_rows(const iso_states *states, const char *name, int64_t width);

#endif
