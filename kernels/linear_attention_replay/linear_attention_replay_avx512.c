/* The replay on AVX-512. */
#define QUIRE_REPLAY quire_linear_attention_replay_rows_avx512
#include "linear_attention_replay_body.h"
