/* MergeAttentionStates on AVX2. */
#define MERGE_NAME quire_merge_attention_states_avx2
#include "merge_attention_states_body.h"
