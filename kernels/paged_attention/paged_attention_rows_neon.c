/* Scatter and merge on NEON. */
#define QUIRE_SCATTER quire_paged_attention_scatter_neon
#define QUIRE_MERGE quire_paged_attention_merge_neon
#include "paged_attention_rows_body.h"
