/* The forms of linear_attention_step_tmpl.h for one type. STEP_MOST: the most vectors at a time. */
#define STEP_VECTORS 1
#include "linear_attention_step_forms_tmpl.h"
#define STEP_VECTORS 2
#include "linear_attention_step_forms_tmpl.h"
#define STEP_VECTORS 4
#include "linear_attention_step_forms_tmpl.h"
#if STEP_MOST == 8
#define STEP_VECTORS 8
#include "linear_attention_step_forms_tmpl.h"
#endif
#undef STEP_TYPE
#undef STEP_ELEMENT
#undef STEP_LOAD
#undef STEP_STORE
