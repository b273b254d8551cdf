#include "ort_plans.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_PLANS = 256,
  MOST_WORKSPACES = 64 /* more than that come back only after a burst of as many runs */
};

typedef struct entry {
  quire_plan *plan; /* NULL: empty */
  int64_t *words;
  size_t word_count;
  uint64_t hash;
  uint64_t used;  /* time of the last use, for the choice of what goes */
  size_t holders; /* leases: what is held stays */
} entry;

struct quire_ort_plans {
  quire_device *device;
  pthread_mutex_t mutex; /* guards everything below */
  uint64_t now;
  size_t newest; /* most runs ask for what was asked for last */
  entry entries[MOST_PLANS];
  size_t count;
  quire_workspace *idle[MOST_WORKSPACES];
  size_t idle_count;
};

quire_ort_plans *quire_ort_plans_create(quire_device *device) {
  quire_ort_plans *plans = calloc(1, sizeof *plans);
  if (plans != NULL && pthread_mutex_init(&plans->mutex, NULL) != 0) {
    free(plans);
    return NULL;
  }
  if (plans != NULL) {
    plans->device = device;
  }
  return plans;
}

void quire_ort_plans_destroy(quire_ort_plans *plans) {
  if (plans == NULL) {
    return;
  }
  for (size_t i = 0; i < plans->count; i++) {
    quire_plan_release(plans->entries[i].plan);
    free(plans->entries[i].words);
  }
  for (size_t i = 0; i < plans->idle_count; i++) {
    quire_workspace_release(plans->idle[i]);
  }
  pthread_mutex_destroy(&plans->mutex);
  quire_device_release(plans->device);
  free(plans);
}

/* ---- keys ---- */

static void add_word(quire_ort_key *key, int64_t word) {
  key->words[key->count++] = word;
  /* Multiplicative hashing (Knuth, The Art of Computer Programming, 6.4) by 2^64 / golden ratio. */
  key->hash = (key->hash ^ (uint64_t)word) * UINT64_C(0x9E3779B97F4A7C15);
  key->hash ^= key->hash >> 32;
}

static void make_key(const quire_ort_form *form, const quire_tensor *inputs, bool aliased,
                     quire_ort_key *key) {
  key->hash = 0;
  key->count = 0;
  add_word(key, (int64_t)(2 * form->id + (aliased ? 1 : 0)));
  for (size_t i = 0; i < form->binding->input_count; i++) {
    if (form->inputs[i] == QUIRE_DTYPE_NONE) {
      continue; /* part of the form */
    }
    add_word(key, inputs[i].ndim);
    for (int32_t d = 0; d < inputs[i].ndim; d++) {
      add_word(key, inputs[i].shape[d]);
    }
  }
}

static bool is_entry_of(const entry *one, const quire_ort_key *key) {
  return one->hash == key->hash && one->word_count == key->count &&
         memcmp(one->words, key->words, key->count * sizeof key->words[0]) == 0;
}

/* ---- under the lock ---- */

static entry *find(quire_ort_plans *plans, const quire_ort_key *key) {
  if (plans->newest < plans->count && is_entry_of(&plans->entries[plans->newest], key)) {
    return &plans->entries[plans->newest];
  }
  for (size_t i = 0; i < plans->count; i++) {
    if (is_entry_of(&plans->entries[i], key)) {
      return &plans->entries[i];
    }
  }
  return NULL;
}

/* A place for a plan: a new one, or that of the longest unused; NULL: all are in use. */
static entry *claim(quire_ort_plans *plans) {
  if (plans->count < MOST_PLANS) {
    return &plans->entries[plans->count++];
  }
  entry *oldest = NULL;
  for (size_t i = 0; i < MOST_PLANS; i++) {
    entry *one = &plans->entries[i];
    if (one->holders == 0 && (oldest == NULL || one->used < oldest->used)) {
      oldest = one;
    }
  }
  return oldest;
}

static void let_go(quire_ort_plans *plans, const quire_ort_lease *lease) {
  if (lease->entry > 0) {
    plans->entries[lease->entry - 1].holders--;
  }
}

/* Hands an entry to a lease, and what that had back. */
static void hold(quire_ort_plans *plans, entry *one, quire_ort_lease *lease) {
  let_go(plans, lease);
  one->holders++;
  one->used = ++plans->now;
  plans->newest = (size_t)(one - plans->entries);
  lease->plan = one->plan;
  lease->entry = plans->newest + 1;
}

/* ---- taking ---- */

static bool take_known(quire_ort_plans *plans, const quire_ort_key *key, quire_ort_lease *lease) {
  pthread_mutex_lock(&plans->mutex);
  entry *one = find(plans, key);
  if (one != NULL) {
    hold(plans, one, lease);
    if (lease->workspace == NULL && plans->idle_count > 0) {
      lease->workspace = plans->idle[--plans->idle_count];
    }
  }
  pthread_mutex_unlock(&plans->mutex);
  return one != NULL;
}

/* Keeps a new plan, unless another run was faster or every place is in use. */
static void keep(quire_ort_plans *plans, const quire_ort_key *key, quire_plan *plan,
                 quire_ort_lease *lease) {
  size_t bytes = key->count * sizeof key->words[0];
  int64_t *words = malloc(bytes);
  quire_plan *spare = plan;
  int64_t *spare_words = words;
  if (words != NULL) {
    memcpy(words, key->words, bytes);
  }
  pthread_mutex_lock(&plans->mutex);
  entry *one = find(plans, key);
  if (one == NULL && words != NULL && (one = claim(plans)) != NULL) {
    spare = one->plan;
    spare_words = one->words;
    *one = (entry){.plan = plan, .words = words, .word_count = key->count, .hash = key->hash};
  }
  if (one != NULL) {
    hold(plans, one, lease);
  } else {
    let_go(plans, lease);
    lease->plan = plan;
    lease->entry = 0;
    spare = NULL;
  }
  pthread_mutex_unlock(&plans->mutex);
  quire_plan_release(spare);
  free(spare_words);
}

quire_status quire_ort_plans_take(quire_ort_plans *plans, const quire_ort_form *form,
                                  const quire_tensor inputs[QUIRE_ORT_MOST_INPUTS], bool aliased,
                                  quire_ort_lease *lease, quire_error *error) {
  quire_ort_key key;
  make_key(form, inputs, aliased, &key);
  quire_plan *unkept = lease->entry == 0 ? lease->plan : NULL;
  if (!take_known(plans, &key, lease)) {
    quire_plan *plan = NULL;
    quire_status status = quire_ort_form_plan(form, plans->device, inputs, aliased, &plan, error);
    if (status != QUIRE_OK) {
      return status;
    }
    keep(plans, &key, plan, lease);
  }
  quire_plan_release(unkept);
  return lease->workspace != NULL
             ? QUIRE_OK
             : quire_workspace_create(plans->device, NULL, &lease->workspace, error);
}

void quire_ort_plans_give_back(quire_ort_plans *plans, quire_ort_lease *lease) {
  quire_workspace *surplus = NULL;
  quire_plan *unkept = lease->entry == 0 ? lease->plan : NULL;
  pthread_mutex_lock(&plans->mutex);
  let_go(plans, lease);
  if (lease->workspace != NULL) {
    if (plans->idle_count < MOST_WORKSPACES) {
      plans->idle[plans->idle_count++] = lease->workspace;
    } else {
      surplus = lease->workspace;
    }
  }
  pthread_mutex_unlock(&plans->mutex);
  quire_plan_release(unkept);
  quire_workspace_release(surplus);
  memset(lease, 0, sizeof *lease);
}
