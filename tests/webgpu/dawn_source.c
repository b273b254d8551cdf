/* The command line in a library, with WebGPU's functions given by whoever calls it. */
#include "webgpu_source.h"

#include <stddef.h>

typedef void *resolve_function(void *user, const char *name);

int main(int argc, char **argv);
int quire_dawn_main(resolve_function *resolve, int argc, char **argv);

static resolve_function *resolver;

void quire_webgpu_source(quire_webgpu_options *options) {
  options->resolve = resolver;
}

int quire_dawn_main(resolve_function *resolve, int argc, char **argv) {
  resolver = resolve;
  return main(argc, argv);
}
