#include "builtin_kernels.h"

#include "causal_conv_kernels.h"
#include "linear_attention_kernels.h"
#include "linear_attention_replay_kernels.h"
#include "merge_attention_states_kernels.h"
#include "paged_attention_kernels.h"
#include "paged_decode_kernels.h"

void quire_builtin_kernels(quire_implementation_list lists[QUIRE_BUILTIN_KERNEL_LISTS]) {
  lists[0] = quire_kernels_paged_attention;
  lists[1] = quire_kernels_paged_decode;
  lists[2] = quire_kernels_merge_attention_states;
  lists[3] = quire_kernels_linear_attention;
  lists[4] = quire_kernels_causal_conv;
  lists[5] = quire_kernels_linear_attention_replay;
}
