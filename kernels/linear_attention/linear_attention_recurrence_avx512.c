/* The recurrence on AVX-512. */
#define RECURRENCE_NAME(name) name##_avx512
#include "linear_attention_recurrence_body.h"
