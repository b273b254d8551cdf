/* Both forms of the decay for one number of vectors. */
#define SWEEP_BY_CHANNEL 0
#include "linear_attention_sweeps_tmpl.h"
#define SWEEP_BY_CHANNEL 1
#include "linear_attention_sweeps_tmpl.h"
#undef SWEEP_VECTORS
