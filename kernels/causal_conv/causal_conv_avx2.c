/* The convolution on AVX2. */
#define QUIRE_CAUSAL_CONV(name) name##_avx2
#include "causal_conv_body.h"
