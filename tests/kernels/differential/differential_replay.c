/* Random calls of LinearAttentionReplay. */
#include "differential_call.h"

enum { MOST_SEQUENCES = 4 };

void diff_make_replay(diff_call *call, uint64_t seed) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const int64_t sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 64, 100, 128};
  const quire_dtype state = floats[seed % 3];
  diff_call_begin(call, "quire.LinearAttentionReplay", seed);
  const bool is_varlen = diff_once_in(&call->random, 3);
  const bool is_v_major = diff_once_in(&call->random, 3);
  const int64_t sequences = diff_between(&call->random, 1, MOST_SEQUENCES);
  const int64_t batch = is_varlen ? 1 : sequences;
  const int64_t tokens = diff_between(&call->random, 1, 8);
  const int64_t key_heads = diff_between(&call->random, 1, 2);
  const int64_t heads = key_heads * diff_between(&call->random, 1, 3);
  const int64_t key_size = diff_pick(&call->random, sizes, 14);
  const int64_t value_size = diff_pick(&call->random, sizes, 14);
  diff_say(call,
           " state %s, batch %lld, tokens %lld, sequences %lld, heads %lld/%lld, sizes %lld %lld%s",
           quire_dtype_name(state), (long long)batch, (long long)tokens, (long long)sequences,
           (long long)key_heads, (long long)heads, (long long)key_size, (long long)value_size,
           is_v_major ? ", v_major" : "");
  const int64_t keys[3] = {batch, tokens, key_heads * key_size};
  const int64_t values[3] = {batch, tokens, heads * value_size};
  const int64_t decays[3] = {batch, tokens,
                             heads * (diff_once_in(&call->random, 2) ? key_size : 1)};
  (void)diff_add_rows(call, "log_key", QUIRE_FLOAT32, keys, 0.5f);
  (void)diff_add_rows(call, "log_value", QUIRE_FLOAT32, values, 1);
  if (!diff_once_in(&call->random, 4)) {
    (void)diff_add_rows(call, "log_decay", QUIRE_FLOAT32, decays, 0.5f);
  }
  int64_t lengths[MOST_SEQUENCES] = {tokens, tokens, tokens, tokens};
  if (is_varlen) {
    diff_add_offsets(call, sequences, tokens, lengths);
  }
  const diff_tensor *accepted = diff_add(call, "accepted", false, QUIRE_INT32, 1, &sequences, NULL);
  for (int64_t s = 0; s < sequences; ++s) {
    diff_store(accepted, s, (float)diff_between(&call->random, 0, lengths[s]));
  }
  const int64_t dims[4] = {sequences, heads, is_v_major ? value_size : key_size,
                           is_v_major ? key_size : value_size};
  if (diff_once_in(&call->random, 3)) {
    diff_add_pool(call, state, 3, dims + 1, sequences, 0);
  } else {
    diff_tensor *past = NULL;
    if (!diff_once_in(&call->random, 4)) {
      past = diff_add(call, "past_state", false, state, 4, dims, NULL);
      diff_fill(call, past, 0.3f);
    }
    if (past && diff_once_in(&call->random, 2)) {
      diff_add_alias(call, "present_state", past);
    } else {
      (void)diff_add(call, "present_state", true, state, 4, dims, NULL);
    }
  }
  diff_integer(call, "kv_num_heads", heads);
  diff_integer(call, "key_num_heads", key_heads);
  if (is_v_major) {
    diff_word(call, "state_layout", "v_major");
  }
  if (diff_once_in(&call->random, 3)) {
    diff_word(call, "head_mapping", "tiled");
  }
  diff_call_end(call);
}
