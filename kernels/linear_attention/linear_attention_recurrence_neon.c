/* The recurrence on NEON. */
#define RECURRENCE_NAME(name) name##_neon
#include "linear_attention_recurrence_body.h"
