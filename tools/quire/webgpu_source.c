#include "webgpu_source.h"

/* A library is looked for as always. */
void quire_webgpu_source(quire_webgpu_options *options) {
  (void)options;
}
