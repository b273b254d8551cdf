#include "isolation_states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void iso_states_choose(iso_states *states, iso_call *call, bool is_plain) {
  diff_random *shape = &call->shape;
  *states = (iso_states){.call = call};
  states->tokens = diff_between(shape, 1, 7);
  states->batch = states->sequences = diff_between(shape, 1, 3);
  states->has_past = !diff_once_in(shape, 4);
  states->has_present = true;
  if (is_plain) {
    return;
  }
  states->has_pool = diff_between(shape, 0, 3) > 0;
  states->window = diff_once_in(shape, 3) ? diff_between(shape, 1, 5) : 0;
  states->is_alias = states->window == 0 && diff_once_in(shape, 2);
  states->is_copied = diff_once_in(shape, 6);
  if (diff_between(shape, 0, 3) > 0) {
    states->is_varlen = true;
    states->batch = 1;
    states->tokens = diff_between(shape, 0, 12);
    states->sequences = diff_between(shape, 1, ISO_MOST_SEQUENCES);
  }
}

static void add_pool(iso_states *states) {
  diff_random *shape = &states->call->shape;
  states->slots = diff_between(shape, 1, 9);
  states->slot_stride = states->size;
  int64_t dims[4] = {states->slots}, strides[4];
  int64_t stride = 1;
  for (int32_t d = states->ndim; d > 0; --d) {
    dims[d] = states->dims[d - 1];
    strides[d] = stride;
    stride *= dims[d];
  }
  const bool is_apart = !states->call->is_device && diff_once_in(shape, 3);
  states->slot_stride += is_apart ? 9 : 0;
  strides[0] = states->slot_stride;
  states->pool = iso_input(states->call, "state_pool", states->dtype, states->ndim + 1, dims,
                           is_apart ? strides : NULL);
  if (states->is_copied) {
    states->pool_out = iso_output(states->call, "state_pool_out", states->dtype, states->ndim + 1,
                                  dims, is_apart ? strides : NULL);
  }
}

void iso_states_add(iso_states *states) {
  states->size = 1;
  int64_t dims[5] = {states->window, states->sequences};
  for (int32_t d = 0; d < states->ndim; ++d) {
    states->size *= states->dims[d];
    dims[d + 2] = states->dims[d];
  }
  if (states->has_pool) {
    add_pool(states);
    return;
  }
  const int skipped = states->window > 0 ? 0 : 1;
  const int32_t ndim = states->ndim + 2 - skipped;
  if (states->has_past) {
    states->past = iso_input(states->call, "past_state", states->dtype, ndim, dims + skipped, NULL);
  }
  if (!states->has_present) {
    return;
  }
  if (states->is_alias && states->has_past) {
    iso_alias(states->call, "present_state", states->past);
    states->present = states->past;
  } else {
    states->present =
        iso_output(states->call, "present_state", states->dtype, ndim, dims + skipped, NULL);
  }
}

static int64_t width_of(const iso_states *states) {
  return states->window > 0 ? states->window : 1;
}

/* Mostly what an engine would say: slots of their own; else any. */
static void make_indices(iso_states *states) {
  diff_random *content = &states->call->content;
  const bool is_orderly = diff_between(content, 0, 3) > 0;
  int32_t next = (int32_t)diff_between(content, 0, states->slots - 1);
  for (int64_t n = 0; n < states->sequences; ++n) {
    states->reads[n] = (int32_t)diff_between(content, -1, states->slots - 1);
    for (int64_t w = 0; w < width_of(states); ++w) {
      const int64_t entry = n * width_of(states) + w;
      states->writes[entry] = (int32_t)diff_between(content, -1, states->slots - 1);
      if (is_orderly) {
        const bool is_left = n * width_of(states) + w < states->slots;
        states->writes[entry] = is_left ? next++ % (int32_t)states->slots : -1;
        states->reads[n] = diff_once_in(content, 3) ? -1 : states->writes[entry];
      }
    }
  }
}

void iso_states_make_integers(iso_states *states) {
  iso_call *call = states->call;
  if (states->is_varlen) {
    states->offsets =
        iso_integers(call, "cu_seqlens", 1, states->sequences + 1, 1, states->tokens + 1);
    iso_make_offsets(call, states->offsets, states->sequences, states->tokens);
  }
  if (states->has_pool) {
    states->reads = iso_integers(call, "read_indices", 1, states->sequences, 1, states->slots);
    states->writes = iso_integers(call, "write_indices", states->window > 0 ? 2 : 1,
                                  states->sequences, states->window, states->slots);
    make_indices(states);
  }
  iso_spoil(call);
}

int64_t iso_states_length(const iso_states *states, int64_t sequence) {
  return states->is_varlen ? states->offsets[sequence + 1] - states->offsets[sequence]
                           : states->tokens;
}

/* The first entry of a window that gets a state. */
static int64_t first_entry(const iso_states *states, int64_t sequence) {
  const int64_t length = iso_states_length(states, sequence);
  const int64_t count = length > 0 ? length : 1;
  return count < width_of(states) ? width_of(states) - count : 0;
}

static bool is_slot(const iso_states *states, int32_t slot) {
  return slot >= -1 && slot < states->slots;
}

bool iso_states_are_legal(const iso_states *states) {
  if (states->is_varlen && !iso_are_offsets(states->offsets, states->sequences, states->tokens)) {
    return false;
  }
  int64_t owners[16] = {0}; /* 0: none */
  const int64_t width = width_of(states);
  for (int64_t i = 0; states->has_pool && i < states->sequences * width; ++i) {
    if (!is_slot(states, states->writes[i]) || !is_slot(states, states->reads[i / width])) {
      return false;
    }
  }
  for (int64_t n = 0; states->has_pool && n < states->sequences; ++n) {
    for (int64_t w = first_entry(states, n); w < width; ++w) {
      const int32_t slot = states->writes[n * width + w];
      if (slot >= 0 && owners[slot] != 0 && owners[slot] != n + 1) {
        return false;
      }
      owners[slot >= 0 ? slot : 15] = n + 1;
    }
  }
  for (int64_t n = 0; states->has_pool && n < states->sequences; ++n) {
    const int32_t slot = states->reads[n];
    if (slot >= 0 && owners[slot] != 0 && owners[slot] != n + 1) {
      return false;
    }
  }
  return true;
}

void iso_states_fix_integers(const iso_states *states) {
  if (states->is_varlen) {
    iso_fix_integers(states->call, "cu_seqlens", 0, states->sequences + 1);
  }
  if (states->has_pool) {
    iso_fix_integers(states->call, "read_indices", 0, states->sequences);
    iso_fix_integers(states->call, "write_indices", 0, states->sequences * width_of(states));
  }
}

int64_t iso_states_sequence(const iso_states *states, int64_t row, int64_t token) {
  if (!states->is_varlen) {
    return row;
  }
  int64_t n = 0;
  while (token >= states->offsets[n + 1]) {
    ++n;
  }
  return n;
}

static void mark_pool(const iso_states *states, int64_t n) {
  const bool is_own = iso_is_own(states->call, n);
  iso_tensor *written = states->is_copied ? states->pool_out : states->pool;
  if (is_own && states->reads[n] >= 0) {
    iso_fix(states->call, states->pool, states->reads[n] * states->slot_stride, states->size, 0.3f);
  }
  const int64_t width = width_of(states);
  for (int64_t w = first_entry(states, n); w < width; ++w) {
    const int64_t slot = states->writes[n * width + w];
    for (int64_t other = w + 1; slot >= 0 && other < width; ++other) {
      states->call->is_racy |= states->writes[n * width + other] == slot;
    }
    if (slot >= 0) {
      iso_mark(written, slot * states->slot_stride, states->size, is_own ? ISO_SAME : ISO_ANY);
    }
  }
}

/* What a copy of the pool holds where nobody writes: what the pool held. */
static void mark_copy(const iso_states *states) {
  for (int64_t slot = 0; slot < states->slots; ++slot) {
    for (int64_t i = slot * states->slot_stride; i < slot * states->slot_stride + states->size;
         ++i) {
      if (states->pool_out->kinds[i] == 0) {
        const bool is_fixed = (states->pool->kinds[i] & ISO_FIXED) != 0;
        iso_mark(states->pool_out, i, 1, is_fixed ? ISO_SAME : ISO_ANY);
      }
    }
  }
}

void iso_states_mark(const iso_states *states) {
  for (int64_t n = 0; n < states->sequences; ++n) {
    const bool is_own = iso_is_own(states->call, n);
    if (states->has_pool) {
      mark_pool(states, n);
      continue;
    }
    const int64_t last = (width_of(states) - 1) * states->sequences + n;
    if (states->past != NULL && is_own) {
      iso_fix(states->call, states->past, last * states->size, states->size, 0.3f);
    }
    for (int64_t w = 0; states->present != NULL && w < width_of(states); ++w) {
      iso_mark(states->present, (w * states->sequences + n) * states->size, states->size,
               is_own ? ISO_SAME : ISO_ANY);
    }
  }
  if (states->pool_out != NULL) {
    mark_copy(states);
  }
}

void iso_states_fix_rows(const iso_states *states, const char *name, int64_t width, float scale,
                         const int32_t *most) {
  iso_tensor *rows = iso_find(states->call, name);
  for (int64_t row = 0; row < states->batch; ++row) {
    for (int64_t token = 0; token < states->tokens; ++token) {
      const int64_t n = iso_states_sequence(states, row, token);
      const int64_t place = states->is_varlen ? token - states->offsets[n] : token;
      if (iso_is_own(states->call, n) && (most == NULL || place < most[n])) {
        iso_fix(states->call, rows, (row * states->tokens + token) * width, width, scale);
      }
    }
  }
}

void iso_states_mark_rows(const iso_states *states, const char *name, int64_t width) {
  iso_tensor *rows = iso_find(states->call, name);
  for (int64_t row = 0; row < states->batch; ++row) {
    for (int64_t token = 0; token < states->tokens; ++token) {
      const int64_t n = iso_states_sequence(states, row, token);
      iso_mark(rows, (row * states->tokens + token) * width, width,
               iso_is_own(states->call, n) ? ISO_SAME : ISO_ANY);
    }
  }
}
