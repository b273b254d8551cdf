/* The recurrence on AVX2. */
#define RECURRENCE_NAME(name) name##_avx2
#include "linear_attention_recurrence_body.h"
