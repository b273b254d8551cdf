/* The forms of linear_attention_value_rows_tmpl.h for one type. */
#define ROWS ROWS_JOINT
#define ROWS_BY_CHANNEL 0
#include "linear_attention_value_rows_tmpl.h"
#define ROWS_BY_CHANNEL 1
#include "linear_attention_value_rows_tmpl.h"
#undef ROWS
#define ROWS 1
#define ROWS_BY_CHANNEL 0
#include "linear_attention_value_rows_tmpl.h"
#define ROWS_BY_CHANNEL 1
#include "linear_attention_value_rows_tmpl.h"
#undef ROWS
#undef ROWS_TYPE
#undef ROWS_ELEMENT
#undef ROWS_LOAD
#undef ROWS_STORE
