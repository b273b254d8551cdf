#include "naive_cache.h"

#include <math.h>
#include <string.h>

static uint64_t mix(uint64_t a, uint64_t b) {
  randomness source = {a * 0x9e3779b97f4a7c15u + b};
  return random_bits(&source);
}

static void fill(float *row, int count, uint64_t history, uint64_t what) {
  randomness source = {mix(history, what)};
  for (int i = 0; i < count; ++i) {
    row[i] = random_float(&source) * 2;
  }
}

void naive_begin(naive_sequence *sequence, int key, uint64_t owner) {
  memset(sequence, 0, sizeof *sequence);
  sequence->is_live = true;
  sequence->key = key;
  sequence->owner = owner;
  sequence->history[0] = mix(owner, 1);
}

void naive_set(naive_sequence *sequence, int64_t at, int32_t token) {
  sequence->tokens[at] = token;
  const uint64_t history = mix(sequence->history[at], (uint64_t)token);
  sequence->history[at + 1] = history;
  for (int group = 0; group < NAIVE_GROUPS; ++group) {
    fill(sequence->key_rows[group][at], NAIVE_ROW, history, 10u + (uint64_t)group);
    fill(sequence->value_rows[group][at], NAIVE_ROW, history, 20u + (uint64_t)group);
  }
  fill(sequence->states[at + 1], NAIVE_STATE, history, 30);
}

void naive_attention(const naive_sequence *sequence, int group, int64_t at, int64_t window,
                     const float *query, int query_heads, float *output) {
  const int64_t first = window > 0 && at + 1 > window ? at + 1 - window : 0;
  for (int head = 0; head < query_heads; ++head) {
    const int column = head / (query_heads / NAIVE_HEADS) * NAIVE_SIZE;
    double scores[NAIVE_LENGTH];
    double largest = -INFINITY;
    double sum = 0;
    double result[NAIVE_SIZE] = {0};
    for (int64_t j = first; j <= at; ++j) {
      scores[j] = 0;
      for (int d = 0; d < NAIVE_SIZE; ++d) {
        scores[j] +=
            (double)query[head * NAIVE_SIZE + d] * (double)sequence->key_rows[group][j][column + d];
      }
      scores[j] /= sqrt(NAIVE_SIZE);
      largest = scores[j] > largest ? scores[j] : largest;
    }
    for (int64_t j = first; j <= at; ++j) {
      const double weight = exp(scores[j] - largest);
      sum += weight;
      for (int d = 0; d < NAIVE_SIZE; ++d) {
        result[d] += weight * (double)sequence->value_rows[group][j][column + d];
      }
    }
    for (int d = 0; d < NAIVE_SIZE; ++d) {
      output[head * NAIVE_SIZE + d] = (float)(result[d] / sum);
    }
  }
}
