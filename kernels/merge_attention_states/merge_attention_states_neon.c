/* MergeAttentionStates on NEON. */
#define MERGE_NAME quire_merge_attention_states_neon
#include "merge_attention_states_body.h"
