#include "quire/context.h"

const char *quire_version(void) {
  return QUIRE_VERSION;
}
