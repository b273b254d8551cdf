/* Both forms of the decay for one number of vectors. */
#define STEP_BY_CHANNEL 0
#include "linear_attention_step_tmpl.h"
#define STEP_BY_CHANNEL 1
#include "linear_attention_step_tmpl.h"
#undef STEP_VECTORS
