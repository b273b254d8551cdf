/* The replay on AVX2. */
#define QUIRE_REPLAY quire_linear_attention_replay_rows_avx2
#include "linear_attention_replay_body.h"
