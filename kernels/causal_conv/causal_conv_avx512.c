/* The convolution on AVX-512. */
#define QUIRE_CAUSAL_CONV(name) name##_avx512
#include "causal_conv_body.h"
