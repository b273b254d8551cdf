/*
 * Typed calls: one function per operator, on top of plans.
 *
 * Each plans the call, or finds the plan in the device's cache (least recently used, keyed by
 * types, shapes, strides, attributes, and which tensors are present or share a buffer), takes a
 * workspace, checks the values and computes. A call with a known plan allocates nothing. All are
 * strict: a block table entry that is used must exist, a slot must exist or be -1
 * (QUIRE_RUN_STRICT).
 *
 * Args structs: call the init function, then set members. A tensor member left zeroed is absent.
 * All memory is borrowed during the call. Strides count elements, NULL means dense; the last axis
 * always has stride 1. Nothing is written unless every check passes.
 *
 * Every call is thread-safe: any number of threads may call on one device at once, as long as they
 * write different memory and no two share a workspace.
 *
 * Statuses of every call: the BAD_* of the operator's contract, with the rule's name; BAD_REQUEST
 * (NULL device or args, struct_size, a tensor without shape, a workspace of another device);
 * NOT_FOUND (no such operator in this build); UNSUPPORTED; LIMIT; OUT_OF_MEMORY; DEVICE.
 */
#ifndef QUIRE_OPERATORS_H
#define QUIRE_OPERATORS_H

#include <stddef.h>
#include <stdint.h>

#include "quire/device.h"
#include "quire/export.h"
#include "quire/plan.h"
#include "quire/status.h"
#include "quire/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * com.microsoft.PagedAttention: stores the new keys and values of a ragged batch in a paged cache,
 * then attends every new token to the cached history of its own sequence.
 *
 * Letters: T new tokens of all sequences; B sequences; Hq, Hkv query and key/value heads (Hkv
 * divides Hq); D head size; NB blocks of the cache; P rows of a block; MB columns of the block
 * table; E one of float32, float16, bfloat16; C the caches' type: E, or int8 if quantised.
 *
 * Strides: caches any (those of scales too), query, key and value a free row stride; all else
 * dense. Aliasing: without *_cache_out (or where it is the very buffer of the input) the cache is
 * updated in place; a disjoint buffer gets a copy of the whole cache first, and the input stays as
 * it is. Every other overlap with something written is BAD_ALIAS. Rules and formulas:
 * docs/paged_attention.md (PA-V1 to PA-V13; section 4, numerics NU-6).
 */
typedef struct quire_paged_attention_args {
  size_t struct_size;

  /* Inputs. */
  quire_tensor query;       /* E [T, Hq*D]; packed with keys and values: [T, (Hq+2*Hkv)*D] */
  quire_tensor key;         /* E [T, Hkv*D]; absent together with value: query is packed */
  quire_tensor value;       /* E [T, Hkv*D] */
  quire_tensor key_cache;   /* C [NB, P, Hkv, D] */
  quire_tensor value_cache; /* C [NB, P, Hkv, D] */
  quire_tensor cumulative_sequence_length; /* int32 [B+1]: 0, prefix sums of new tokens, T */
  quire_tensor past_seqlens;               /* int32 [B]: tokens cached before this call */
  quire_tensor block_table;                /* int32 [B, MB]: logical to physical block */
  quire_tensor slot_mapping; /* int32 [T], optional: row to write; -1: none. Absent: by table */
  quire_tensor head_sink;    /* E [Hq], optional: one more logit in each head's denominator */
  quire_tensor k_scale; /* float32 [1] or [Hkv, 1, D]; k_quant_type PER_TENSOR, PER_CHANNEL only */
  quire_tensor v_scale; /* float32 [1] or [Hkv, 1, D]; v_quant_type PER_TENSOR, PER_CHANNEL only */
  /* Scales of rows of int8 caches: written with the row. */
  quire_tensor k_scale_cache;      /* float32 [NB, P, Hkv]; with k_quant_type PER_TOKEN only */
  quire_tensor v_scale_cache;      /* float32 [NB, P, Hkv]; with v_quant_type PER_TOKEN only */
  quire_tensor attention_metadata; /* int32 [2] or [3], optional: bounds, never part of a result */

  /* Outputs. */
  quire_tensor output;            /* E [T, Hq*D] */
  quire_tensor key_cache_out;     /* C [NB, P, Hkv, D], optional, only with value_cache_out */
  quire_tensor value_cache_out;   /* C [NB, P, Hkv, D], optional, only with key_cache_out */
  quire_tensor k_scale_cache_out; /* float32 [NB, P, Hkv]; with k_scale_cache and key_cache_out */
  quire_tensor v_scale_cache_out; /* float32 [NB, P, Hkv]; with v_scale_cache and value_cache_out */
  quire_tensor softmax_lse;       /* float32 [T, Hq], optional: natural log of the denominators */

  /* Attributes, with their defaults. */
  int64_t num_heads;         /* Hq; must be set */
  int64_t kv_num_heads;      /* Hkv; must be set */
  float scale;               /* 0: 1/sqrt(D) */
  int64_t is_causal;         /* 1; 0: every token sees the whole sequence */
  int64_t local_window_size; /* -1; W > 0: the last W keys, the token's own among them */
  float softcap;             /* 0: off; c > 0: c * tanh(score / c) */
  const char *k_quant_type;  /* "NONE"; "PER_TENSOR", "PER_CHANNEL", "PER_TOKEN": int8 caches */
  const char *v_quant_type;  /* "NONE"; as k_quant_type */

  /* Execution. */
  quire_workspace *workspace;     /* scratch to use; NULL: one of the device's */
  const quire_executor *executor; /* threads for this call; NULL: the device's */
} quire_paged_attention_args;

/* Sets every member to its default: tensors absent, head counts 0. */
QUIRE_API void quire_paged_attention_args_init(quire_paged_attention_args *args);

QUIRE_API quire_status quire_paged_attention(quire_device *device,
                                             const quire_paged_attention_args *args,
                                             quire_error *error);

/*
 * LinearAttention: a matrix state per head, decayed, corrected, written and read once per token.
 *
 * Letters: B batch; T tokens of this call; Hq, Hkv query and state heads; Hk key heads (divides
 * Hkv); Ho = max(Hq, Hkv); dk, dv head sizes; W = state_window; N sequences (B, or those of
 * cu_seqlens); NP slots of the state pool; E and S each one of float32, float16, bfloat16. States
 * are [N, Hkv, dk, dv]; with W > 0 [W, N, Hkv, dk, dv], the newest last; "v_major": [.., dv, dk].
 *
 * Strides: query, key, value, decay and beta any but along their last axis, pool slots may lie
 * apart; all else dense. Aliasing: past_state may be the very buffer of present_state if W = 0; the
 * pool is updated in place. Every other overlap with something written is BAD_ALIAS.
 * Rules and formulas: docs/linear_attention.md (LA-V1 to LA-V13; section 4.1, numerics NU-9).
 */
typedef struct quire_linear_attention_args {
  size_t struct_size;

  /* Inputs. */
  quire_tensor query;      /* E [B, T, Hq*dk] */
  quire_tensor key;        /* E [B, T, Hk*dk] */
  quire_tensor value;      /* E [B, T, Hkv*dv] */
  quire_tensor past_state; /* S, optional: absent means zeros */
  quire_tensor
      decay; /* E [B, T, Hkv] or [B, T, Hkv*dk]: log of the factor; rules gated, gated_delta */
  quire_tensor beta; /* E [B, T, Hkv] or [B, T, 1]: write strength; rules delta, gated_delta */
  quire_tensor cu_seqlens;    /* int32 [N+1], optional: sequences packed along T; B = 1 */
  quire_tensor state_pool;    /* S [NP, Hkv, dk, dv], optional: in place of past and present */
  quire_tensor read_indices;  /* int32 [N], with the pool: slot to start from; -1: zeros */
  quire_tensor write_indices; /* int32 [N] ([N, W] if W > 0), with the pool; -1: no store */
  quire_tensor a_log;         /* float32 [Hkv], with gate_activation "qwen" */
  quire_tensor dt_bias;       /* float32 [Hkv] or [Hkv*dk], with gate_activation "qwen" */

  /* Outputs. */
  quire_tensor output;         /* E [B, T, Ho*dv] */
  quire_tensor present_state;  /* S; absent with a pool or a log only */
  quire_tensor state_pool_out; /* S [NP, Hkv, dk, dv], optional: as the caches of PagedAttention */
  /* A log of the tokens for quire.LinearAttentionReplay: all that the rule has, or none. */
  quire_tensor log_key;   /* float32 [B, T, Hk*dk], optional */
  quire_tensor log_value; /* float32 [B, T, Hkv*dv], optional, only with log_key */
  quire_tensor log_decay; /* float32 [B, T, Hkv], or [B, T, Hkv*dk] where factors differ by key
                             channel; with log_key and a rule that decays */

  /* Attributes, with their defaults. */
  int64_t q_num_heads;         /* Hq; must be set */
  int64_t kv_num_heads;        /* Hkv; must be set */
  const char *update_rule;     /* "gated_delta"; "linear", "gated", "delta" */
  float scale;                 /* 0: 1/sqrt(dk); multiplies what is read, never the state */
  int64_t chunk_size;          /* 64; a hint */
  int64_t state_window;        /* 0; W <= 8: the states after each of the last W tokens */
  const char *gate_activation; /* "none"; "qwen": -exp(a_log) * softplus(decay + dt_bias) */
  const char *beta_activation; /* "none"; "sigmoid", "twice_sigmoid" */
  int64_t qk_l2_norm;          /* 0; 1: query and key rows of a head get length 1 */
  float qk_l2_norm_epsilon;    /* 1e-6 */
  const char *state_layout;    /* "k_major"; "v_major" */
  const char *head_mapping;    /* "blocked"; "tiled" */

  /* Execution. */
  quire_workspace *workspace;     /* scratch to use; NULL: one of the device's */
  const quire_executor *executor; /* threads for this call; NULL: the device's */
} quire_linear_attention_args;

/* Sets every member to its default: tensors absent, head counts 0. */
QUIRE_API void quire_linear_attention_args_init(quire_linear_attention_args *args);

/* com.microsoft.LinearAttention, with all extensions above. */
QUIRE_API quire_status quire_linear_attention(quire_device *device,
                                              const quire_linear_attention_args *args,
                                              quire_error *error);

/*
 * ai.onnx.LinearAttention of opset 27, by its own stricter rules: the inputs up to beta, the first
 * two outputs, and q_num_heads, kv_num_heads, update_rule, scale and chunk_size. Anything else that
 * is set is UNSUPPORTED; decay or beta that the rule does not use is BAD_PRESENCE.
 */
QUIRE_API quire_status quire_onnx_linear_attention(quire_device *device,
                                                   const quire_linear_attention_args *args,
                                                   quire_error *error);

/*
 * quire.PagedDecode: attends one new token of each row to its whole paged context. Reads pages
 * only.
 *
 * Letters: B rows; Hq, Hkv query and key/value heads (Hkv divides Hq); D head size, 1 to 512; C
 * pages; P tokens of a page; MP columns of the page table; E one of float32, float16, bfloat16; Dp
 * the head size of pages: D, and rounded up to a multiple of 4 in int8 pages (what lies behind D is
 * not read). A row's bits do not depend on the other rows. Strides: pages and scales any; all else
 * dense. Aliasing: outputs overlap nothing. A batch may hold padding rows: length 0, and a first
 * page that does not exist
 * (-1); they give zeros. Length 0 in any other row is BAD_VALUE. Rules and formulas:
 * docs/paged_decode.md (PD-V1 to PD-V15; section 4.1, numerics NU-6).
 */
typedef struct quire_paged_decode_args {
  size_t struct_size;

  /* Inputs. */
  quire_tensor query;           /* E [B, Hq, D] */
  quire_tensor key_pages;       /* E or int8 [Hkv, C, P, Dp] */
  quire_tensor value_pages;     /* as key_pages */
  quire_tensor page_table;      /* int32 [B, MP]: logical to physical page */
  quire_tensor context_lengths; /* int32 [B]: tokens of each row, the new one included */
  quire_tensor key_scales;   /* float32 [Hkv, C, P]; with int8 pages only: one a token and head */
  quire_tensor value_scales; /* float32 [Hkv, C, P]; with int8 pages only */
  quire_tensor head_sink;    /* E [Hq], optional: one more logit in each head's denominator */

  /* Outputs. */
  quire_tensor output;      /* E [B, Hq, D] */
  quire_tensor softmax_lse; /* float32 [B, Hq], optional: natural log of the denominators */

  /* Attributes, with their defaults. */
  float scale;               /* must be set; > 0 */
  int64_t partial_blocks;    /* 0: chosen; 1: one pass; 2 to 1024: that many blocks for every row */
  int64_t context_bound;     /* 0: MP*P; bound of all lengths, never part of a result */
  int64_t local_window_size; /* -1; W > 0: the last W tokens */

  /* Execution. */
  quire_workspace *workspace;     /* scratch to use; NULL: one of the device's */
  const quire_executor *executor; /* threads for this call; NULL: the device's */
} quire_paged_decode_args;

/* Sets every member to its default: tensors absent, scale 0. */
QUIRE_API void quire_paged_decode_args_init(quire_paged_decode_args *args);

QUIRE_API quire_status quire_paged_decode(quire_device *device, const quire_paged_decode_args *args,
                                          quire_error *error);

/*
 * quire.MergeAttentionStates: joins the attention of one query over two disjoint sets of keys.
 *
 * Letters: N rows; H heads; D head size; E one of float32, float16, bfloat16. With
 * M = max(lse_a, lse_b) and w = exp(lse - M) (0 for -inf), output = (w_a o_a + w_b o_b)/(w_a + w_b)
 * and lse = M + ln(w_a + w_b); both -inf: 0 and -inf. A sink must be counted in one of the parts
 * only. All tensors are dense; outputs overlap nothing. Rules: docs/paged_attention.md, X8b.
 */
typedef struct quire_merge_attention_states_args {
  size_t struct_size;

  /* Inputs. */
  quire_tensor output_a;      /* E [N, H, D] */
  quire_tensor softmax_lse_a; /* float32 [N, H] */
  quire_tensor output_b;      /* E [N, H, D] */
  quire_tensor softmax_lse_b; /* float32 [N, H] */

  /* Outputs. */
  quire_tensor output;      /* E [N, H, D] */
  quire_tensor softmax_lse; /* float32 [N, H] */

  /* Execution. */
  quire_workspace *workspace;     /* scratch to use; NULL: one of the device's */
  const quire_executor *executor; /* threads for this call; NULL: the device's */
} quire_merge_attention_states_args;

/* Sets every member to its default: tensors absent. */
QUIRE_API void quire_merge_attention_states_args_init(quire_merge_attention_states_args *args);

QUIRE_API quire_status quire_merge_attention_states(quire_device *device,
                                                    const quire_merge_attention_states_args *args,
                                                    quire_error *error);

/*
 * quire.LinearAttentionReplay: rollback after speculative decoding. A call of LinearAttention that
 * verifies drafted tokens writes a log instead of a state (log_key, log_value, log_decay); this
 * repeats the n accepted ones of them on the old state. An f32 state gets the bits of having
 * decoded the accepted tokens one by one.
 *
 * Letters: as LinearAttention; the log has the T tokens of that call. Strides: log_key, log_value
 * and log_decay any but along their last axis, pool slots may lie apart; all else dense. Aliasing:
 * past_state may be the very buffer of present_state; the pool is updated in place. Every other
 * overlap with something written is BAD_ALIAS. Rules: docs/linear_attention.md, section 11 (LR-V1
 * to LR-V13).
 */
typedef struct quire_linear_attention_replay_args {
  size_t struct_size;

  /* Inputs. */
  quire_tensor log_key;       /* float32 [B, T, Hk*dk] */
  quire_tensor log_value;     /* float32 [B, T, Hkv*dv] */
  quire_tensor log_decay;     /* float32 [B, T, Hkv] or [B, T, Hkv*dk], optional: no decay */
  quire_tensor accepted;      /* int32 [N]: tokens to replay, 0 up to the sequence's own length */
  quire_tensor past_state;    /* S [N, Hkv, dk, dv], optional: absent means zeros */
  quire_tensor cu_seqlens;    /* int32 [N+1], optional: as in the call that logged */
  quire_tensor state_pool;    /* S [NP, Hkv, dk, dv], optional: in place of past and present */
  quire_tensor read_indices;  /* int32 [N], with the pool: slot to start from; -1: zeros */
  quire_tensor write_indices; /* int32 [N], with the pool; -1: no store */

  /* Outputs. */
  quire_tensor present_state;  /* S [N, Hkv, dk, dv]; absent with a pool only */
  quire_tensor state_pool_out; /* S [NP, Hkv, dk, dv], optional: as the caches of PagedAttention */

  /* Attributes, with their defaults. */
  int64_t kv_num_heads;     /* Hkv; must be set */
  int64_t key_num_heads;    /* Hk; 0: Hkv */
  const char *state_layout; /* "k_major"; "v_major": states are [., Hkv, dv, dk] */
  const char *head_mapping; /* "blocked"; "tiled" */

  /* Execution. */
  quire_workspace *workspace;     /* scratch to use; NULL: one of the device's */
  const quire_executor *executor; /* threads for this call; NULL: the device's */
} quire_linear_attention_replay_args;

/* Sets every member to its default: tensors absent, kv_num_heads 0. */
QUIRE_API void quire_linear_attention_replay_args_init(quire_linear_attention_replay_args *args);

QUIRE_API quire_status quire_linear_attention_replay(quire_device *device,
                                                     const quire_linear_attention_replay_args *args,
                                                     quire_error *error);

/*
 * CausalConvWithState: the short causal convolution in front of recurrent layers. Every channel has
 * taps of its own, and carries its last inputs from call to call.
 *
 * Letters: B batch; C channels; T tokens of this call; K taps; L = (K-1)*dilation; W =
 * state_window; N sequences (B, or those of cu_seqlens); NP slots of the state pool; E one of
 * float32, float16, bfloat16. Tensors of channels and tokens are [B, C, T] and [N, C, L], or with
 * channels_last [B, T, C] and [N, L, C]; with W > 0 states are [W, N, ., .], the newest last.
 *
 * Strides: input any but along its last axis, pool slots may lie apart; all else dense. Aliasing:
 * past_state may be the very buffer of present_state if W = 0; the pool is updated in place. Every
 * other overlap with something written is BAD_ALIAS. States are copied inputs: cutting a call
 * anywhere changes no bit. Rules and formulas: docs/causal_conv.md (CC-V1 to CC-V10; section 4,
 * numerics NU-11).
 */
typedef struct quire_causal_conv_with_state_args {
  size_t struct_size;

  /* Inputs. */
  quire_tensor input;         /* E [B, C, T] or [B, T, C] */
  quire_tensor weight;        /* E [C, 1, K]: the last tap meets the token itself */
  quire_tensor bias;          /* E [C], optional */
  quire_tensor past_state;    /* E, optional: absent means zeros */
  quire_tensor cu_seqlens;    /* int32 [N+1], optional: sequences packed along T; B = 1 */
  quire_tensor state_pool;    /* E [NP, C, L] or [NP, L, C], optional: in place of the states */
  quire_tensor read_indices;  /* int32 [N], with the pool: slot to start from; -1: zeros */
  quire_tensor write_indices; /* int32 [N] ([N, W] if W > 0), with the pool; -1: no store */

  /* Outputs. */
  quire_tensor output;         /* E, the shape of input */
  quire_tensor present_state;  /* E; absent with a pool only */
  quire_tensor state_pool_out; /* E, optional: as the caches of PagedAttention */

  /* Attributes, with their defaults. */
  const char *activation; /* "none"; "silu", "swish": y * sigmoid(y) */
  int64_t ndim;           /* 1; nothing else is supported */
  int64_t dilation;       /* 1; tokens between two taps */
  int64_t channels_last;  /* 0; 1: tokens before channels */
  int64_t state_window;   /* 0; W <= 8: the states after each of the last W tokens */

  /* Execution. */
  quire_workspace *workspace;     /* scratch to use; NULL: one of the device's */
  const quire_executor *executor; /* threads for this call; NULL: the device's */
} quire_causal_conv_with_state_args;

/* Sets every member to its default: tensors absent. */
QUIRE_API void quire_causal_conv_with_state_args_init(quire_causal_conv_with_state_args *args);

/* com.microsoft.CausalConvWithState, with all extensions above. */
QUIRE_API quire_status quire_causal_conv_with_state(quire_device *device,
                                                    const quire_causal_conv_with_state_args *args,
                                                    quire_error *error);

/*
 * ai.onnx.CausalConvWithState of opset 27: the inputs up to past_state, the first two outputs, and
 * activation. Anything else that is set is UNSUPPORTED.
 */
QUIRE_API quire_status quire_onnx_causal_conv_with_state(
    quire_device *device, const quire_causal_conv_with_state_args *args, quire_error *error);

#ifdef __cplusplus
}
#endif

#endif
