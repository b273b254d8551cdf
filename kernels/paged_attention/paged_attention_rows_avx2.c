/* Scatter and merge on AVX2. */
#define QUIRE_SCATTER quire_paged_attention_scatter_avx2
#define QUIRE_MERGE quire_paged_attention_merge_avx2
#include "paged_attention_rows_body.h"
