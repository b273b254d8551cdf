#include "lm_weights.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float from_half(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float sign = half & 0x8000 ? -1.0F : 1.0F;
  if (exponent == 31) {
    return fraction != 0 ? NAN : sign * INFINITY;
  }
  return sign * (exponent == 0 ? ldexpf((float)fraction, -24)
                               : ldexpf((float)(fraction + 1024), exponent - 25));
}

static size_t element_size(const char *dtype) {
  return strcmp(dtype, "F16") == 0                                ? 2
         : strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0 ? 4
                                                                  : 0;
}

static float element(const char *dtype, const unsigned char *bytes) {
  if (strcmp(dtype, "F16") == 0) {
    return from_half((uint16_t)(bytes[0] | bytes[1] << 8));
  }
  const uint32_t bits =
      bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
  float value;
  memcpy(&value, &bits, sizeof value);
  return strcmp(dtype, "I32") == 0 ? (float)(int32_t)bits : value;
}

/* Fills one tensor from its entry of the header; -1 if the entry makes no sense. */
static int read_tensor(const char *name, const json_t *entry, const unsigned char *data,
                       size_t bytes, lm_tensor *tensor) {
  const char *dtype = json_string_value(json_object_get(entry, "dtype"));
  const json_t *offsets = json_object_get(entry, "data_offsets");
  const json_int_t first = json_integer_value(json_array_get(offsets, 0));
  const json_int_t last = json_integer_value(json_array_get(offsets, 1));
  const size_t size = dtype != NULL ? element_size(dtype) : 0;
  if (size == 0 || first < 0 || last < first || (size_t)last > bytes) {
    fprintf(stderr, "tensor %s: type or data_offsets are not usable\n", name);
    return -1;
  }
  tensor->count = (size_t)(last - first) / size;
  tensor->name = malloc(strlen(name) + 1);
  tensor->values = malloc((tensor->count + 1) * sizeof *tensor->values);
  if (tensor->name == NULL || tensor->values == NULL) {
    return -1;
  }
  memcpy(tensor->name, name, strlen(name) + 1);
  for (size_t i = 0; i < tensor->count; i++) {
    tensor->values[i] = element(dtype, data + first + i * size);
  }
  return 0;
}

static void read_config(const json_t *metadata, lm_config *config) {
  const char *text = json_string_value(json_object_get(metadata, "config"));
  json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;
  const struct {
    const char *name;
    int *value;
  } members[] = {{"layers", &config->layers},
                 {"attention_every", &config->attention_every},
                 {"width", &config->width},
                 {"feed_forward", &config->feed_forward},
                 {"query_heads", &config->query_heads},
                 {"key_value_heads", &config->key_value_heads},
                 {"head_size", &config->head_size},
                 {"rotary_size", &config->rotary_size},
                 {"key_heads", &config->key_heads},
                 {"state_heads", &config->state_heads},
                 {"state_size", &config->state_size},
                 {"taps", &config->taps}};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    *members[i].value = (int)json_integer_value(json_object_get(json, members[i].name));
  }
  config->rotary_base = json_number_value(json_object_get(json, "rotary_base"));
  config->epsilon = json_number_value(json_object_get(json, "epsilon"));
  json_decref(json);
}

/* A safetensors file is the length of a JSON header in 8 bytes, the header, and the data. */
static int read_file(const unsigned char *file, size_t size, lm_weights *weights) {
  uint64_t length = 0;
  for (size_t i = 0; i < 8 && size >= 8; i++) {
    length |= (uint64_t)file[i] << (8 * i);
  }
  json_t *header = NULL;
  if (size >= 8 && length <= size - 8) {
    header = json_loadb((const char *)file + 8, (size_t)length, 0, NULL);
  }
  if (!json_is_object(header)) {
    fprintf(stderr, "not a safetensors file\n");
    json_decref(header);
    return -1;
  }
  int status = 0;
  const char *name = NULL;
  json_t *entry = NULL;
  weights->tensors = calloc(json_object_size(header) + 1, sizeof *weights->tensors);
  json_object_foreach(header, name, entry) {
    if (strcmp(name, "__metadata__") == 0) {
      read_config(entry, &weights->config);
    } else if (status == 0 && weights->tensors != NULL) {
      const size_t begin = 8 + (size_t)length;
      status =
          read_tensor(name, entry, file + begin, size - begin, &weights->tensors[weights->count++]);
    }
  }
  json_decref(header);
  return weights->tensors != NULL ? status : -1;
}

int lm_weights_load(const char *path, lm_weights *weights) {
  *weights = (lm_weights){0};
  FILE *stream = fopen(path, "rb");
  unsigned char *bytes = NULL;
  size_t size = 0, got = 0;
  do { /* twice as much room each time, until a read falls short */
    unsigned char *grown = stream != NULL ? realloc(bytes, size = 2 * size + 65536) : NULL;
    if (grown == NULL) {
      perror(path);
      break;
    }
    bytes = grown;
    got += fread(bytes + got, 1, size - got, stream);
  } while (got == size);
  const int status = got > 0 ? read_file(bytes, got, weights) : -1;
  if (status != 0) {
    fprintf(stderr, "%s: cannot be read\n", path);
    lm_weights_free(weights);
  }
  free(bytes);
  if (stream != NULL) {
    fclose(stream);
  }
  return status;
}

void lm_weights_free(lm_weights *weights) {
  for (size_t i = 0; i < weights->count; i++) {
    free(weights->tensors[i].name);
    free(weights->tensors[i].values);
  }
  free(weights->tensors);
  *weights = (lm_weights){0};
}

static const lm_tensor *find(const lm_weights *weights, const char *name) {
  for (size_t i = 0; i < weights->count; i++) {
    if (strcmp(weights->tensors[i].name, name) == 0) {
      return &weights->tensors[i];
    }
  }
  return NULL;
}

size_t lm_weights_count(const lm_weights *weights, const char *name) {
  const lm_tensor *tensor = find(weights, name);
  return tensor != NULL ? tensor->count : 0;
}

const float *lm_weights_get(const lm_weights *weights, const char *name, size_t count) {
  const lm_tensor *tensor = find(weights, name);
  if (tensor != NULL && tensor->count == count) {
    return tensor->values;
  }
  fprintf(stderr, "no tensor %s of %zu elements\n", name, count);
  return NULL;
}
