/*
 * Serving: who owns which cache block and which recurrent state, and the index arrays of a step.
 *
 * A quire_cache holds numbers only, never keys, values or states: the engine keeps those tensors,
 * on whatever device, and one block number serves every layer of a group, one slot number every
 * recurrent layer. It decides nothing about scheduling. A step of an engine:
 *
 *   quire_sequence_create   once per request: finds the longest cached prefix of the prompt
 *   quire_sequence_append   blocks for the tokens to come; OUT_OF_MEMORY: wait, or preempt another
 *   quire_cache_copies      copy-on-write: run them (quire_cache_copy_blocks), then ..._copies_done
 *   quire_batch_build       the arrays of PagedAttention, PagedDecode and LinearAttention
 *   (all layers)
 *   quire_sequence_commit   the step's tokens, or the accepted ones of a draft; full blocks become
 *                           findable for others only now, when their contents exist
 *
 * Letters: NB blocks of a group, P rows of a block, W window of states, B sequences of a batch, T
 * new tokens of a batch. Lengths count tokens.
 *
 * Strong guarantee: a call that does not return QUIRE_OK has changed nothing, whatever the cause.
 * All memory is taken in quire_cache_create(), none later (saving and restoring apart), so
 * OUT_OF_MEMORY later means that a pool is exhausted. Not thread-safe: one call at a time on a
 * cache; caches are independent of each other. Everything is deterministic. Rules (SV-1 to SV-11):
 * docs/serving.md. Present in builds with xxHash (CMake option QUIRE_SERVING).
 */
#ifndef QUIRE_SERVING_H
#define QUIRE_SERVING_H

#include <stddef.h>
#include <stdint.h>

#include "quire/context.h"
#include "quire/device.h"
#include "quire/export.h"
#include "quire/operators.h"
#include "quire/status.h"
#include "quire/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { QUIRE_CACHE_MAX_GROUPS = 8, QUIRE_CACHE_MAX_STATE_WINDOW = 8 };

/*
 * Layers that share a block table: one number of blocks, one block size. Groups never alias: each
 * numbers its own blocks from 0, for its own tensors. The largest block size of a cache must be a
 * multiple of every other: it is the unit in which prefixes are shared.
 */
typedef struct quire_cache_group {
  int64_t block_count; /* NB >= 1 */
  int64_t block_size;  /* P >= 1 */
  int64_t window;      /* 0: layers see every position; V > 0: the last V. Blocks that slid out of
                          sight are given back at commit, and their table entries become -1 */
} quire_cache_group;

/*
 * Who may share: model, adapter, tenant, picture hashes, as the caller likes. Sequences share
 * blocks only if all four words are equal; they are compared, not only hashed.
 */
typedef struct quire_prefix_key {
  uint64_t words[4];
} quire_prefix_key;

/* Replaces xxHash. A bad function costs time, never a wrong hit: the tests use one that is 0. */
typedef uint64_t quire_hash_function(void *user, const void *bytes, size_t size, uint64_t seed);

typedef struct quire_cache_options {
  size_t struct_size;
  const quire_allocator *allocator; /* copied; NULL: the C library's */
  const quire_cache_group *groups;  /* copied; may be NULL if group_count is 0 */
  size_t group_count;               /* 0 for a purely recurrent model */
  int64_t sequence_limit;           /* live sequences at most; 256 */
  int64_t length_limit;             /* tokens of a sequence at most; 0: what the smallest group
                                       without window can hold */
  int64_t rollback_tokens;          /* 0; blocks that a window would give back are kept for this
                                       many tokens more, so that truncation can go back as far */
  int64_t state_slots;              /* 0: no recurrent layers; slots of their state tensors */
  int64_t state_window;             /* 0; W <= 8: LinearAttention's attribute, for drafts */
  int64_t checkpoint_tokens;        /* 0: none; n: a state is kept with the cached prefix every n
                                       tokens, a multiple of the largest block size */
  uint64_t hash_seed;               /* 0; random where prompts come from strangers */
  quire_hash_function *hash;        /* NULL: xxHash */
  void *hash_user;
} quire_cache_options;

QUIRE_API void quire_cache_options_init(quire_cache_options *options);

typedef struct quire_cache quire_cache;

/*
 * On success *cache is the caller's, to be released with quire_cache_release(); on failure it is
 * NULL. Statuses: BAD_REQUEST (NULL, struct_size), BAD_VALUE (SV-1: an option), LIMIT (sizes),
 * OUT_OF_MEMORY.
 */
QUIRE_API quire_status quire_cache_create(const quire_cache_options *options, quire_cache **cache,
                                          quire_error *error);
/* Frees everything, live sequences too; NULL is allowed. */
QUIRE_API void quire_cache_release(quire_cache *cache);

/* Of one pool: a group's blocks, or the state slots. used + cached + free = count. */
typedef struct quire_pool_statistics {
  int64_t count;
  int64_t used;     /* held by sequences, or kept for their sake */
  int64_t cached;   /* held by the prefix index alone: given up when needed, oldest first */
  int64_t free;     /* hold nothing */
  int64_t reserved; /* of cached + free, promised to sequences */
  int64_t shared;   /* used ones with more than one holder, the index counted */
  uint64_t allocated, evicted; /* since creation */
} quire_pool_statistics;

typedef struct quire_cache_statistics {
  int64_t sequences;       /* live */
  int64_t prefixes;        /* entries of the prefix index */
  uint64_t matched_tokens; /* found in the index since creation */
  uint64_t asked_tokens;   /* looked for */
  uint64_t copied_blocks;  /* copy-on-write */
  uint64_t metadata_bytes; /* memory for blocks, slots and index, without token ids */
  uint64_t token_bytes;    /* token ids of the index */
  uint64_t sequence_bytes; /* block tables and records of sequences */
  quire_pool_statistics states;
} quire_cache_statistics;

QUIRE_API void quire_cache_get_statistics(const quire_cache *cache,
                                          quire_cache_statistics *statistics);
/* BAD_VALUE if there is no such group. */
QUIRE_API quire_status quire_cache_get_group(const quire_cache *cache, size_t group,
                                             quire_pool_statistics *statistics, quire_error *error);
/* Forgets cached prefixes that no sequence holds. */
QUIRE_API void quire_cache_forget(quire_cache *cache);

/*
 * Walks all of the cache's books: 1 if they balance. Takes time in proportion to the whole cache:
 * for tests and for suspicions.
 */
QUIRE_API int quire_cache_check(const quire_cache *cache, quire_error *error);

/* ---- sequences ---- */

/*
 * A sequence: number and generation, never a pointer. 0 is none. A handle that was freed, or never
 * given out, is NOT_FOUND (SV-2) everywhere.
 */
typedef uint64_t quire_sequence;

/*
 * Begins a sequence. With a key, the longest prefix of tokens[0..count) that is cached for this key
 * is taken over: *matched tokens (a multiple of the largest block size; NULL if not wanted) need no
 * computing. Pass all tokens but the last, which has to be computed for its output. With key NULL
 * the sequence shares with nobody. Statuses: LIMIT (SV-4: too many sequences, too long a prefix),
 * BAD_REQUEST (count > 0 without tokens), OUT_OF_MEMORY (SV-3: taking over what is cached would
 * break a reservation).
 */
QUIRE_API quire_status quire_sequence_create(quire_cache *cache, const quire_prefix_key *key,
                                             const int32_t *tokens, int64_t count,
                                             quire_sequence *sequence, int64_t *matched,
                                             quire_error *error);
/* What quire_sequence_create() would match, without any change: for schedulers. */
QUIRE_API quire_status quire_cache_match(const quire_cache *cache, const quire_prefix_key *key,
                                         const int32_t *tokens, int64_t count, int64_t *matched,
                                         quire_error *error);

/*
 * Promises blocks for `count` tokens beyond the present length; replaces the sequence's earlier
 * promise, 0 withdraws it. OUT_OF_MEMORY (SV-3).
 */
QUIRE_API quire_status quire_sequence_reserve(quire_cache *cache, quire_sequence sequence,
                                              int64_t count, quire_error *error);

/*
 * Makes the sequence `count` tokens longer. If its last block is partly filled and shared, a copy
 * is ordered (quire_cache_copies). With window groups, append what one step computes, not a whole
 * prompt: until commit nothing slides out. Statuses: BAD_VALUE (count < 0), LIMIT (SV-4 length;
 * SV-9 too many copies are waiting), OUT_OF_MEMORY (SV-3).
 */
QUIRE_API quire_status quire_sequence_append(quire_cache *cache, quire_sequence sequence,
                                             int64_t count, quire_error *error);

/*
 * The first `count` tokens of the sequence's last step have been computed, and these are their ids
 * (NULL: not known, or not shareable; the sequence's later blocks are then never found by others).
 * Fewer than the step had: the rest is refused and taken off the sequence. Statuses: BAD_VALUE
 * (SV-6: more than the step had; fewer than its tokens without the drafts, where a state would be
 * lost).
 */
QUIRE_API quire_status quire_sequence_commit(quire_cache *cache, quire_sequence sequence,
                                             const int32_t *tokens, int64_t count,
                                             quire_error *error);

/* Flags of quire_sequence_truncate(). */
enum {
  QUIRE_TRUNCATE_COPY = 1 /* may end inside a shared block, which the next append then copies */
};

/*
 * Shortens the sequence to `length` tokens and drops a step that was built. Statuses (SV-5):
 * BAD_VALUE if length is negative or beyond the sequence, ends inside a shared block without the
 * flag, lies where a window has slid, or where no state is kept (quire_sequence_rollback_point).
 */
QUIRE_API quire_status quire_sequence_truncate(quire_cache *cache, quire_sequence sequence,
                                               int64_t length, uint32_t flags, quire_error *error);

/* The largest length <= `length` that truncation with QUIRE_TRUNCATE_COPY can reach. */
QUIRE_API quire_status quire_sequence_rollback_point(const quire_cache *cache,
                                                     quire_sequence sequence, int64_t length,
                                                     int64_t *point, quire_error *error);

/*
 * Another sequence with the same tokens. All blocks are shared; a partly filled last one is copied
 * by whoever appends first. The state is shared too: a step reads one slot and writes another, so
 * that none is copied. Statuses: BAD_REQUEST (SV-7: tokens are not committed), LIMIT (SV-4),
 * OUT_OF_MEMORY (SV-3: the parent's promise needs one block more).
 */
QUIRE_API quire_status quire_sequence_fork(quire_cache *cache, quire_sequence parent,
                                           quire_sequence *child, quire_error *error);

/* Ends a sequence; its full blocks stay findable until they are needed. */
QUIRE_API quire_status quire_sequence_free(quire_cache *cache, quire_sequence sequence,
                                           quire_error *error);

typedef struct quire_sequence_facts {
  int64_t length;    /* tokens with a place */
  int64_t committed; /* of them computed */
  int64_t matched;   /* taken over from the index */
  int64_t findable;  /* first tokens that others can take over */
  int32_t state;     /* slot that holds the state after `committed` tokens; -1: zeros */
} quire_sequence_facts;

QUIRE_API quire_status quire_sequence_get_facts(const quire_cache *cache, quire_sequence sequence,
                                                quire_sequence_facts *facts, quire_error *error);

/* The block table of a sequence, *count entries (-1: slid out); valid until the next change. */
QUIRE_API quire_status quire_sequence_get_blocks(const quire_cache *cache, quire_sequence sequence,
                                                 size_t group, const int32_t **blocks,
                                                 int64_t *count, quire_error *error);

/*
 * How many of at most `limit` tokens the next step should take, so that it ends where a checkpoint
 * is due. Without checkpoints: limit.
 */
QUIRE_API quire_status quire_sequence_get_chunk(const quire_cache *cache, quire_sequence sequence,
                                                int64_t limit, int64_t *count, quire_error *error);

/* ---- copies ---- */

typedef struct quire_block_copy {
  int32_t group, source, destination;
} quire_block_copy;

/*
 * Copies of whole blocks that must be done before the next step runs, in this order (a later one
 * may overwrite what an earlier one reads). Valid until the next change. quire_batch_build()
 * refuses to build while any wait.
 */
QUIRE_API const quire_block_copy *quire_cache_copies(const quire_cache *cache, size_t *count);
QUIRE_API void quire_cache_copies_done(quire_cache *cache);

/* A tensor of the engine that a cache's numbers point into. */
typedef struct quire_cache_tensor {
  const char *name;    /* in files: "layers.0.key"; copies need none */
  quire_tensor tensor; /* any strides */
  int32_t group;       /* -1: a state tensor, whose block axis counts slots */
  int32_t block_axis;  /* [NB, P, H, D]: 0; pages [H, C, P, D]: 1 */
  int32_t row_axis;    /* [NB, P, H, D]: 1; pages [H, C, P, D]: 2; states: -1 */
} quire_cache_tensor;

/*
 * Carries out copies in every tensor of their group, in memory of any device; on WebGPU before
 * everything that is submitted later. Statuses: BAD_REQUEST (NULL; strides that put two elements at
 * one place; on WebGPU a block outside the buffer, or its usages), BAD_SHAPE (axes), BAD_VALUE (a
 * block that a tensor does not have), DEVICE, OUT_OF_MEMORY. Nothing is copied unless the checks of
 * every tensor pass.
 */
QUIRE_API quire_status quire_cache_copy_blocks(quire_device *device,
                                               const quire_cache_tensor *tensors,
                                               size_t tensor_count, const quire_block_copy *copies,
                                               size_t copy_count, quire_error *error);

/* ---- batches ---- */

/* Flags of a batch entry. */
enum {
  QUIRE_STEP_KEEP_STATE = 1, /* commit may refuse every token: costs a state slot more */
  QUIRE_STEP_REPLAY = 2 /* the step writes no state; before commit the accepted tokens are replayed
                           (quire.LinearAttentionReplay). Needs no window; commit may refuse all */
};

typedef struct quire_batch_entry {
  quire_sequence sequence;
  int64_t new_tokens; /* appended tokens that this step computes */
  int64_t
      draft_tokens; /* the last of them that commit may refuse; < W with states, if not replayed */
  uint32_t flags;
} quire_batch_entry;

/* Arrays of one group; NULL: not wanted. */
typedef struct quire_batch_group {
  int32_t *block_table;  /* [B, columns]; unused entries are -1 */
  int64_t columns;       /* as many as every sequence needs, or more */
  int32_t *slot_mapping; /* [T]; -1 in padding rows */
  int32_t *prefix_table; /* [prefix_tokens / P]: the blocks of the shared prefix */
  int32_t padding_block; /* -1; what padding sequences have in the table, for calls that are strict:
                            any block that exists */
} quire_batch_group;

/*
 * Where a step's arrays go, and how it is to be padded. Memory is the caller's; NULL: not wanted.
 * B is the number of entries, or padded_sequences; T the sum of their tokens, or padded_rows.
 * Padding sequences follow the real ones, and the first of them has all padding rows: past 0, no
 * state. For PagedDecode use context_lengths: padding rows have 0 and page -1.
 */
typedef struct quire_batch {
  size_t struct_size;
  int64_t row_capacity;      /* of arrays over T */
  int64_t sequence_capacity; /* of arrays over B */
  int64_t padded_rows;       /* 0: as many as there are */
  int64_t padded_sequences;  /* 0: as many as there are */
  int64_t prefix_tokens;     /* 0; tables and lengths begin behind a prefix of this many tokens,
                                whose blocks all sequences share (quire_cache_shared_prefix) */
  quire_batch_group *groups; /* by group number */
  size_t group_count;
  int32_t *cumulative_sequence_length; /* [B+1] */
  int32_t *past_seqlens;               /* [B] */
  int32_t *context_lengths;            /* [B]: past and new tokens */
  int32_t *positions;                  /* [T]: in the sequence, for rotary embedding; padding 0 */
  int32_t *state_read;                 /* [B]: LinearAttention's read_indices */
  int32_t *state_write;                /* [B], or [B, W] if W > 0: write_indices */
  int32_t *state_replay;               /* [B]: write_indices of LinearAttentionReplay; -1: none */
  int64_t rows, sequences;             /* results: T and B */
} quire_batch;

/* Sets every member to its default; groups are the caller's to fill. */
QUIRE_API void quire_batch_init(quire_batch *batch);

/*
 * Builds the arrays of a step and takes the state slots that it writes. A step may be built again
 * before it has run. Statuses: BAD_VALUE (SV-8: more new tokens than appended, drafts, a sequence
 * twice, a prefix that is not shared), LIMIT (SV-8: an array is too small), BAD_REQUEST (SV-9:
 * copies wait; NULL), NOT_FOUND, OUT_OF_MEMORY (SV-3: state slots).
 */
QUIRE_API quire_status quire_batch_build(quire_cache *cache, const quire_batch_entry *entries,
                                         size_t entry_count, quire_batch *batch,
                                         quire_error *error);

/*
 * The longest run of first blocks that all these sequences share in every group, in tokens (a
 * multiple of every block size, at most what each has committed); 0 with window groups.
 */
QUIRE_API quire_status quire_cache_shared_prefix(const quire_cache *cache,
                                                 const quire_batch_entry *entries,
                                                 size_t entry_count, int64_t *tokens,
                                                 quire_error *error);

/* ---- attention over a shared prefix ---- */

/*
 * PagedAttention of a batch whose sequences all begin with the same blocks: every row attends to
 * the prefix once, as one sequence, so that its keys and values are read once for all rows; then to
 * its own suffix; MergeAttentionStates joins both. Equal to the plain call within its tolerance.
 * Letters, types and statuses: quire_paged_attention_args; and BAD_VALUE (a prefix that the table
 * does not hold, an entry that is no block), BAD_ALIAS (scratch over anything, prefix_table over
 * something written), UNSUPPORTED (a device other than the CPU). A refused call has changed nothing
 * but its scratch; where memory or the device fails half-way, the new keys and values may be stored
 * already. Outputs are written last.
 */
typedef struct quire_shared_prefix_args {
  size_t struct_size;
  /* What a plain call would get, built with prefix_tokens: past_seqlens, block_table and (required)
     slot_mapping are of the suffixes. Windows, packed query and cache outputs are UNSUPPORTED. */
  quire_paged_attention_args attention;
  quire_tensor prefix_table; /* int32 [1, prefix_tokens / P], or more columns */
  int64_t prefix_tokens;     /* >= 1, a multiple of P */
  void *scratch;             /* quire_shared_prefix_scratch() bytes, aligned to 64 */
  size_t scratch_bytes;
} quire_shared_prefix_args;

QUIRE_API void quire_shared_prefix_args_init(quire_shared_prefix_args *args);
/* Bytes of scratch for these args, which need none yet. BAD_RANK, BAD_TYPE, LIMIT. */
QUIRE_API quire_status quire_shared_prefix_scratch(const quire_shared_prefix_args *args,
                                                   size_t *bytes, quire_error *error);
QUIRE_API quire_status quire_shared_prefix_attention(quire_device *device,
                                                     const quire_shared_prefix_args *args,
                                                     quire_error *error);

/* ---- files ---- */

/*
 * Writes the committed tokens of a sequence, its blocks' rows and its state to a file in the
 * safetensors layout, checksummed, whole or not at all (temporary file, rename). Tensors lie in
 * host memory, each with a name of its own in ASCII. Statuses: BAD_REQUEST (SV-7: tokens that are
 * not committed), BAD_TYPE, BAD_RANK, BAD_SHAPE, BAD_VALUE (SV-10: a tensor's axes, size, name),
 * UNSUPPORTED (SV-10: a big-endian processor), IO, OUT_OF_MEMORY.
 */
QUIRE_API quire_status quire_sequence_save(const quire_cache *cache, quire_sequence sequence,
                                           const quire_cache_tensor *tensors, size_t tensor_count,
                                           const char *path, quire_error *error);

/*
 * Begins a sequence from a file and fills its blocks and state. The file must have been saved with
 * this key and with tensors of these names, types and row shapes in this order; block counts, block
 * sizes and strides may differ. The checksum is verified before anything is touched. With a key the
 * full blocks become findable: restore only files that are yours, a checksum is no signature. Where
 * a file that was whole cannot be read a second time, prefixes that no sequence holds may be gone.
 * Statuses: NOT_FOUND, IO, BAD_VALUE (SV-11: damaged, or of something else), BAD_REQUEST (SV-10:
 * strides that put two elements of a tensor at one place), those of save and of append.
 */
QUIRE_API quire_status quire_sequence_restore(quire_cache *cache, const quire_prefix_key *key,
                                              const quire_cache_tensor *tensors,
                                              size_t tensor_count, const char *path,
                                              quire_sequence *sequence, quire_error *error);

#ifdef __cplusplus
}
#endif

#endif
