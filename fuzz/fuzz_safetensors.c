/* A file of tensors from a stranger: whatever is accepted must be readable to its last byte. */
#include <stddef.h>
#include <stdint.h>

#include "safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  quire_safetensors tensors;
  if (quire_safetensors_parse(data, size, &tensors, NULL) != QUIRE_OK) {
    return 0;
  }
  volatile unsigned char sink = 0;
  for (size_t i = 0; i < tensors.count; i++) {
    const unsigned char *bytes = tensors.tensors[i].data;
    for (size_t k = 0; k < tensors.tensors[i].bytes; k++) {
      sink = (unsigned char)(sink ^ bytes[k]);
    }
  }
  quire_safetensors_release(&tensors);
  return 0;
}
