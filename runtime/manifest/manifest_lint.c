/* Warnings. */
#include "manifest_loader.h"

void quire_lint(quire_loader *loader) {
  (void)loader;
}
