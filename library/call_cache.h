/*
 * What a device keeps for typed calls: plans by key (least recently used ones go first), and
 * workspaces that no call uses at the moment. Thread-safe.
 *
 * Plans and workspaces hold references to their device, and the device owns this cache. To break
 * that circle, what lies here gives its reference up, and gets it back before it is released.
 */
#ifndef QUIRE_LIBRARY_CALL_CACHE_H
#define QUIRE_LIBRARY_CALL_CACHE_H

#include "backend.h"
#include "call_key.h"
#include "typed_call.h"

typedef struct quire_call_cache quire_call_cache;

/*
 * Gives a device its cache (device->calls, device->calls_destroy), with the operators of the typed
 * calls looked up in the context. BAD_REQUEST (size of the cache), OUT_OF_MEMORY.
 */
quire_status quire_call_cache_attach(quire_context *context, quire_device *device,
                                     quire_error *error);

/* The operator of a kind of call, bound to this device's context. */
const quire_call_binding *quire_call_cache_binding(const quire_call_cache *cache,
                                                   quire_call_kind kind);

/*
 * The plan of a key, or NULL. *workspace, unless it is given, becomes an idle workspace, preferably
 * one that is prepared for the plan, or NULL. The plan is to be released, the workspace to be given
 * back.
 */
quire_plan *quire_call_cache_find(quire_call_cache *cache, const quire_call_key *key,
                                  quire_workspace **workspace);

/*
 * Keeps a plan, whose reference passes to the caller again: release the plan that is returned. That
 * is another one if some thread was faster. Without memory the plan is just not kept.
 */
quire_plan *quire_call_cache_insert(quire_call_cache *cache, const quire_call_key *key,
                                    quire_plan *plan);

/* An idle workspace or a new one. OUT_OF_MEMORY. */
quire_status quire_call_cache_workspace(quire_call_cache *cache, quire_workspace **workspace,
                                        quire_error *error);

/* Takes a workspace back; NULL is allowed. */
void quire_call_cache_give_back(quire_call_cache *cache, quire_workspace *workspace);

#endif
