/* The replay on NEON. */
#define QUIRE_REPLAY quire_linear_attention_replay_rows_neon
#include "linear_attention_replay_body.h"
