/* Scatter and merge on AVX-512. */
#define QUIRE_SCATTER quire_paged_attention_scatter_avx512
#define QUIRE_MERGE quire_paged_attention_merge_avx512
#include "paged_attention_rows_body.h"
