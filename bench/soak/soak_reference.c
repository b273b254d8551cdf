#include "soak_reference.h"

#include <stdlib.h>
#include <string.h>

enum {
  REFERENCE_LENGTH = SOAK_LENGTH + SOAK_STEP,
  REFERENCE_SLOTS = 2,
  LAYER_BYTES = 2 * REFERENCE_LENGTH * (SOAK_KV + SOAK_KV_HEADS) * 4
};

bool soak_reference_open(soak_reference *reference) {
  reference->data = calloc(SOAK_LAYERS, LAYER_BYTES);
  return reference->data != NULL;
}

void soak_reference_close(soak_reference *reference) {
  free(reference->data);
}

void soak_reference_begin(soak_reference *reference, const soak_model *model) {
  const int64_t blocks[SOAK_GROUPS] = {1, 1};
  const int64_t sizes[SOAK_GROUPS] = {REFERENCE_LENGTH, REFERENCE_LENGTH};
  soak_memory_form(model, blocks, sizes, REFERENCE_SLOTS, &reference->memory);
  for (int i = 0; i < model->layer_count; ++i) {
    unsigned char *data = reference->data + (size_t)i * LAYER_BYTES;
    for (int k = 0; k < reference->memory.counts[i]; ++k) {
      reference->memory.tensors[i][k].data = data;
      data += (soak_tensor_bytes(&reference->memory.tensors[i][k]) + 63) / 64 * 64;
    }
  }
  reference->length = 0;
  reference->kept = -1;
  reference->current = 0;
}

/* Runs the next tokens; keep: the state before them stays in the other slot. */
static quire_status advance(soak_reference *reference, const soak_model *model,
                            const soak_place *place, const int32_t *tokens, int64_t count,
                            bool keep, soak_rows *rows, quire_error *error) {
  soak_model plain = *model;
  static const soak_arrays empty;
  soak_arrays arrays = empty;
  plain.state_window = 0;
  arrays.rows = count;
  arrays.sequences = 1;
  arrays.cumulative[1] = (int32_t)count;
  arrays.owners[0] = reference->owner;
  arrays.past[0] = (int32_t)reference->length;
  arrays.reads[0] = reference->length > 0 ? reference->current : -1;
  arrays.writes[0] = keep ? 1 - reference->current : reference->current;
  for (int group = 0; group < SOAK_GROUPS; ++group) {
    arrays.columns[group] = 1;
    for (int64_t i = 0; i < count; ++i) {
      arrays.slots[group][i] = (int32_t)(reference->length + i);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    arrays.tokens[i] = tokens[reference->length + i];
    arrays.positions[i] = (int32_t)(reference->length + i);
  }
  if (keep) {
    reference->kept = reference->length;
  }
  reference->current = arrays.writes[0];
  reference->length += count;
  return soak_forward(&plain, place, &reference->memory, &arrays, false, rows, error);
}

static void go_back(soak_reference *reference, int64_t start) {
  if (start >= reference->length) {
    return;
  }
  if (reference->kept >= 0 && reference->kept <= start) {
    reference->length = reference->kept;
    reference->current = 1 - reference->current;
  } else {
    reference->length = 0;
  }
  reference->kept = -1;
}

quire_status soak_reference_run(soak_reference *reference, const soak_model *model,
                                const soak_place *place, soak_random *random, int64_t zone,
                                int32_t owner, const int32_t *tokens, int64_t start, int64_t count,
                                soak_rows *rows, quire_error *error) {
  quire_status status = QUIRE_OK;
  reference->owner = owner;
  go_back(reference, start);
  while (reference->length < start && status == QUIRE_OK) {
    const int64_t left = start - reference->length;
    const int64_t most = left < 8 ? left : 8;
    const int64_t step = reference->length < zone ? SOAK_STEP : soak_between(random, 1, most);
    status = advance(reference, model, place, tokens, step, false, rows, error);
  }
  if (status != QUIRE_OK) {
    return status;
  }
  if (count > 8 || soak_once_in(random, 2)) {
    return advance(reference, model, place, tokens, count, true, rows, error);
  }
  float hidden[SOAK_STEP][SOAK_HIDDEN]; /* one by one */
  for (int64_t i = 0; i < count && status == QUIRE_OK; ++i) {
    status = advance(reference, model, place, tokens, 1, i == 0, rows, error);
    memcpy(hidden[i], rows->hidden[0], sizeof hidden[i]);
  }
  memcpy(rows->hidden, hidden, (size_t)count * sizeof hidden[0]);
  return status;
}
