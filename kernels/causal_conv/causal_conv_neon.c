/* The convolution on NEON. */
#define QUIRE_CAUSAL_CONV(name) name##_neon
#include "causal_conv_body.h"
