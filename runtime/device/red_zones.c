#include "red_zones.h"

#include <string.h>

#include "error.h"
#include "workspace.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef WITH_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define WITH_ADDRESS_SANITIZER 0
#endif

enum { PATTERN = 0xB5 };

typedef struct zone {
  unsigned char *first;
  size_t bytes;
  const char *intermediate; /* that lies in front of it; NULL: the zone before all of them */
} zone;

/* Zone i of a plan: 0 leads, i + 1 follows intermediate i. False: not in the part that is used. */
static bool zone_at(const quire_plan *plan, const quire_workspace *workspace, size_t i, zone *out) {
  size_t begin = 0, end = QUIRE_RED_ZONE;
  out->intermediate = NULL;
  if (i > 0) {
    const quire_plan_intermediate *one = &plan->description.intermediates[i - 1];
    begin = plan->offsets[i - 1] + (size_t)one->bytes;
    end = (begin + QUIRE_WORKSPACE_ALIGNMENT - 1) / QUIRE_WORKSPACE_ALIGNMENT *
              QUIRE_WORKSPACE_ALIGNMENT +
          QUIRE_RED_ZONE;
    out->intermediate = one->id;
  }
  out->first = workspace->memory + begin;
  out->bytes = end - begin;
  return end <= workspace->bytes;
}

static size_t zone_count(const quire_plan *plan) {
  const quire_manifest_variant *variant = quire_described_variant(&plan->description);
  return variant->intermediate_count == 0 ? 0 : variant->intermediate_count + 1;
}

/* The caller may use memory of its own between calls: it is never made inaccessible. */
static bool is_poisoned(const quire_workspace *workspace) {
  return WITH_ADDRESS_SANITIZER && workspace->owned;
}

void quire_red_zones_lay(const quire_plan *plan, const quire_workspace *workspace) {
  if (is_poisoned(workspace)) {
    quire_red_zones_lift(workspace->memory, workspace->bytes);
  }
  for (size_t i = 0; i < zone_count(plan); i++) {
    zone one;
    if (!zone_at(plan, workspace, i, &one)) {
      continue;
    }
    if (is_poisoned(workspace)) {
      ASAN_POISON_MEMORY_REGION(one.first, one.bytes);
    } else {
      memset(one.first, PATTERN, one.bytes);
    }
  }
}

static bool is_whole(const zone *one) {
  for (size_t i = 0; i < one->bytes; i++) {
    if (one->first[i] != PATTERN) {
      return false;
    }
  }
  return true;
}

quire_status quire_red_zones_check(const quire_plan *plan, const quire_workspace *workspace,
                                   quire_error *error) {
  for (size_t i = 0; i < zone_count(plan) && !is_poisoned(workspace); i++) {
    zone one;
    if (zone_at(plan, workspace, i, &one) && !is_whole(&one)) {
      return quire_fail(error, QUIRE_INTERNAL, NULL,
                        one.intermediate == NULL ? "workspace" : one.intermediate,
                        "a kernel wrote outside its bytes");
    }
  }
  return QUIRE_OK;
}

void quire_red_zones_lift(void *memory, size_t bytes) {
  if (memory != NULL) {
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
  }
}
