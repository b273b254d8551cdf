/* MergeAttentionStates on AVX-512. */
#define MERGE_NAME quire_merge_attention_states_avx512
#include "merge_attention_states_body.h"
