/* Both orders of the reductions and both forms of the decay for one number of vectors. */
#if SWEEP_VECTORS <= SWEEP_MOST
#define SWEEP_BY_LANES 0
#define SWEEP_BY_CHANNEL 0
#include "linear_attention_sweeps_tmpl.h"
#define SWEEP_BY_CHANNEL 1
#include "linear_attention_sweeps_tmpl.h"
#undef SWEEP_BY_LANES
#endif
#if SWEEP_VECTORS <= SWEEP_LANES_MOST
#define SWEEP_BY_LANES 1
#define SWEEP_BY_CHANNEL 0
#include "linear_attention_sweeps_tmpl.h"
#define SWEEP_BY_CHANNEL 1
#include "linear_attention_sweeps_tmpl.h"
#undef SWEEP_BY_LANES
#endif
#undef SWEEP_VECTORS
