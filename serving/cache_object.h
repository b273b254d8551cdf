/*
 * What a quire_cache is made of.
 *
 * Pools number items: the blocks of a group, or state slots. An item has holders: sequences, and at
 * most one entry of the prefix index, its owner. The index is a tree: an entry is one unit (the
 * largest block size) of tokens below the entry of the unit before it; below a root that stands for
 * a key. So an entry is known by comparing its own tokens and its parent: no hash is ever trusted.
 *
 * An entry's pins count the sequences whose cursor is at it or below it. Without pins it is in the
 * list of entries that may go, oldest first. It joins that list after everything below it, since
 * pins(parent) >= pins(child) and cursors let go from the bottom up: so the first of the list never
 * has children.
 *
 * Pools come in two kinds. Items of a firm pool (groups without window) go with their entry. Items
 * of a loose pool (window groups, states) may be taken from an entry that stays: whoever matches
 * needs only the last few. An item is idle if the index alone holds it and it may go now:
 *
 *   firm:  holders == 1 and its owner is in the list
 *   loose: holders == 1 and it has an owner
 *
 * Invariants (quire_cache_check): free + idle >= reserved; every holder is counted.
 */
#ifndef QUIRE_SERVING_CACHE_OBJECT_H
#define QUIRE_SERVING_CACHE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quire/serving.h"
#include "serving_support.h"

enum {
  QUIRE_NONE = -1,
  QUIRE_UNLISTED = -2, /* `previous` of what is in no list */
  QUIRE_POOL_LIMIT = QUIRE_CACHE_MAX_GROUPS + 1,
  QUIRE_ARRAY_LIMIT = 64
};

typedef struct quire_links {
  int32_t previous, next;
} quire_links;

typedef struct quire_pool {
  int32_t count;
  int32_t block_size; /* states: the unit */
  int32_t window;     /* 0: none */
  int32_t per_unit;   /* items of an entry */
  bool is_loose;
  uint32_t *holders;    /* of an item; if it is free, the next free one (as int32_t) */
  int32_t *owner;       /* entry of the index, or NONE */
  quire_links *links;   /* loose: idle items, oldest first */
  int32_t *entry_items; /* [entries][per_unit]: items of each entry, or NONE */
  int32_t first_free, free_count;
  int32_t first_idle, last_idle, idle_count;
  int32_t reserved;
  int32_t shared_count;
  uint64_t allocated, evicted;
} quire_pool;

typedef struct quire_entry {
  uint32_t hash;
  int32_t parent; /* NONE: a root */
  int32_t next_in_bucket;
  int32_t pins;
  quire_links links; /* the list of those that may go */
} quire_entry;

typedef struct quire_prefix_index {
  quire_entry *entries;
  int32_t *buckets;
  unsigned char *tokens; /* of each entry: its unit's ids, or a root's key */
  size_t token_stride;
  int32_t entry_count; /* also the number of buckets */
  int32_t used_count;
  int32_t first_free; /* by next_in_bucket */
  int32_t first_listed, last_listed;
} quire_prefix_index;

typedef struct quire_record {
  uint32_t generation;
  bool is_live;
  bool is_indexing; /* what it commits can still be found: cursor and tail are right */
  int32_t next_free;
  int32_t length, committed, matched;
  int32_t indexed; /* tokens above and at the cursor; committed - indexed are in the tail */
  int32_t cursor;  /* entry, or NONE: shares with nobody */
  int32_t step_tokens, step_drafts;
  bool is_replay; /* writes[0] gets the state after the accepted tokens, just before commit */
  uint64_t step_mark;
  int32_t state; /* slot read next, or NONE */
  int32_t write_count;
  int32_t writes[QUIRE_CACHE_MAX_STATE_WINDOW]; /* slots of the step, oldest first; the first may be
                                                   `state` itself */
  int32_t first_live[QUIRE_CACHE_MAX_GROUPS];   /* blocks before it have slid out */
  int32_t first_row[QUIRE_CACHE_MAX_GROUPS];    /* rows before it were in no file: a restored
                                                   sequence's first block may begin with them */
  int32_t reserved[QUIRE_CACHE_MAX_GROUPS];
} quire_record;

typedef struct quire_owned_array {
  void *memory;
  size_t count, size;
} quire_owned_array;

struct quire_cache {
  quire_allocator allocator;
  quire_owned_array arrays[QUIRE_ARRAY_LIMIT];
  size_t array_count;

  int32_t group_count;
  int32_t pool_count; /* groups, then states if there are any */
  quire_pool pools[QUIRE_POOL_LIMIT];
  quire_pool *states; /* NULL: none */
  int32_t state_window, checkpoint_tokens, rollback_tokens;
  int32_t unit;

  quire_prefix_index index;
  uint64_t hash_seed;
  quire_hash_function *hash;
  void *hash_user;

  quire_record *records;
  int32_t *tables[QUIRE_CACHE_MAX_GROUPS]; /* [sequences][columns] */
  int32_t columns[QUIRE_CACHE_MAX_GROUPS];
  int32_t *tails; /* [sequences][unit]: ids of committed tokens below the cursor */
  int32_t sequence_limit, length_limit;
  int32_t live_count, first_free_record;

  quire_block_copy *copies;
  int32_t copy_count, copy_limit;
  uint64_t build_mark;
  uint64_t matched_tokens, asked_tokens, copied_blocks;
  uint64_t metadata_bytes, token_bytes, sequence_bytes;
};

/* ---- pools: cache_pool.c ---- */

/* Items that may still be promised or taken by whoever has no promise. */
int32_t quire_pool_available(const quire_pool *pool);
/* A free item with one holder; takes idle ones from the index if none is free. Must be available.
 */
int32_t quire_pool_take(quire_cache *cache, quire_pool *pool);
void quire_pool_hold(quire_cache *cache, quire_pool *pool, int32_t item);
void quire_pool_drop(quire_cache *cache, quire_pool *pool, int32_t item);
/* Gives an item of the sequence's step to the index, which becomes its owner and one more holder.
 */
void quire_pool_own(quire_cache *cache, quire_pool *pool, int32_t item, int32_t entry,
                    int32_t place);
/* The reverse. */
void quire_pool_disown(quire_cache *cache, quire_pool *pool, int32_t item);
/* For the index: an entry's items of a firm pool become idle, or cease to be. */
void quire_pool_count_entry(quire_pool *pool, int32_t entry, int32_t sign);

/* Where the pool keeps the items of an entry. */
static inline int32_t *quire_pool_items(const quire_pool *pool, int32_t entry) {
  return pool->entry_items + (size_t)entry * (size_t)pool->per_unit;
}

/* ---- index: prefix_index.c ---- */

int32_t quire_index_find_root(const quire_cache *cache, const quire_prefix_key *key);
/* The entry of `unit` tokens below parent, or NONE. */
int32_t quire_index_find_child(const quire_cache *cache, int32_t parent, const int32_t *tokens);
/* New entries, with one pin for the caller's cursor; NONE if there is no room. Entries that nobody
 * holds make room. */
int32_t quire_index_add_root(quire_cache *cache, const quire_prefix_key *key);
int32_t quire_index_add_child(quire_cache *cache, int32_t parent, const int32_t *tokens);
const int32_t *quire_index_tokens(const quire_cache *cache, int32_t entry);
void quire_index_pin(quire_cache *cache, int32_t entry);
void quire_index_unpin(quire_cache *cache, int32_t entry);
/* The same for an entry and all above it, from the bottom up. */
void quire_index_pin_path(quire_cache *cache, int32_t entry);
void quire_index_unpin_path(quire_cache *cache, int32_t entry);
/* Removes the oldest entry that may go; there must be one. */
void quire_index_evict(quire_cache *cache);

static inline bool quire_index_is_listed(const quire_cache *cache, int32_t entry) {
  return cache->index.entries[entry].links.previous != QUIRE_UNLISTED;
}

/* ---- sequences: sequence_common.c ---- */

/* The live record, or NOT_FOUND (SV-2). Also refuses a NULL cache. */
quire_status quire_record_find(const quire_cache *cache, quire_sequence sequence,
                               quire_record **record, quire_error *error);
quire_sequence quire_record_handle(const quire_cache *cache, const quire_record *record);
/* Takes a record off the free list; there must be one. */
quire_record *quire_record_take(quire_cache *cache);
/* Gives up all that a record holds, and the record. */
void quire_record_release(quire_cache *cache, quire_record *record);
int32_t *quire_record_table(const quire_cache *cache, const quire_record *record, int32_t group);
int32_t *quire_record_tail(const quire_cache *cache, const quire_record *record);
/* Blocks that `length` tokens take. */
int32_t quire_pool_blocks(const quire_pool *pool, int32_t length);
/* First position that a layer of the pool sees from position `length` on. */
int32_t quire_pool_first_visible(const quire_pool *pool, int64_t length);
/* First position whose rows a sequence has. */
int64_t quire_record_first_row(const quire_cache *cache, const quire_record *record, int32_t group);
/* Forgets a step that was built: its state slots go back. */
void quire_record_drop_step(quire_cache *cache, quire_record *record);
/* Gives up blocks behind `length`, and makes that the length; committed tokens stay. */
void quire_record_cut(quire_cache *cache, quire_record *record, int32_t length);
void quire_record_set_reserved(quire_cache *cache, quire_record *record, int32_t group,
                               int32_t count);
/* Blocks that `count` more tokens need in a group, a copy of the shared last one included. */
int32_t quire_record_need(const quire_cache *cache, const quire_record *record, int32_t group,
                          int32_t count, bool *is_copy);
quire_status quire_fail_exhausted(const quire_cache *cache, const quire_pool *pool, int64_t need,
                                  int64_t available, quire_error *error);
/* Lets the next `count` tokens take blocks, with nothing shared among them and no check. */
void quire_record_extend(quire_cache *cache, quire_record *record, int32_t count);
/* Makes committed tokens findable, unit by unit. tokens NULL: ends that. */
void quire_record_index(quire_cache *cache, quire_record *record, const int32_t *tokens,
                        int32_t count);

#endif
