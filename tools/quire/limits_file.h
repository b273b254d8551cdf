/* --limits FILE: limits, features and adapter properties that are laid over a request. */
#ifndef QUIRE_TOOL_LIMITS_FILE_H
#define QUIRE_TOOL_LIMITS_FILE_H

#include <jansson.h>

#include "quire/device.h"
#include "quire/status.h"

/* The file and the description made of it, which points into it. */
typedef struct quire_limits_file {
  json_t *device; /* {"backend", "limits", "features", "adapterInfo"}, all optional */
  quire_device_description description;
  const char **features;
  quire_named_value *limits, *adapter;
} quire_limits_file;

/* Reads a file of the form of a request's "device" member. On failure nothing is held. */
quire_status quire_limits_open(const char *path, quire_limits_file *limits, quire_error *error);
void quire_limits_release(quire_limits_file *limits);

/*
 * Lays the file over the "device" member of a request in JSON: limits and adapter properties one by
 * one, a list of features in place of the request's. A member of another form is left for the
 * library to refuse.
 */
quire_status quire_limits_lay_over(const quire_limits_file *limits, json_t *request,
                                   quire_error *error);

/* Parses a JSON text, with the position in the message. Status: BAD_REQUEST. */
quire_status quire_limits_parse(const char *text, size_t length, json_t **value,
                                quire_error *error);

#endif
