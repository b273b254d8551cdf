/* Mutation of JSON texts by their structure, for bytes of which hardly any random change parses. */
#ifndef QUIRE_FUZZ_MUTATE_JSON_H
#define QUIRE_FUZZ_MUTATE_JSON_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's own. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Changes one value, key or place of the text; its bytes where it is no JSON or grows too large. */
size_t mutate_json(uint8_t *data, size_t size, size_t max_size, unsigned seed);

#endif
