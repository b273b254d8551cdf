/* Tuning files: tuned values by class of call, in JSON (docs/webgpu.md). */
#ifndef QUIRE_TOOL_TUNE_FILE_H
#define QUIRE_TOOL_TUNE_FILE_H

#include <jansson.h>

#include "files.h"
#include "tune_search.h"

enum { QUIRE_LONGEST_TUNING = 16 * 1024 * 1024 };

/*
 * Reads a tuning file for quire_device_options.tuning; NULL: none. An absent file is IO, not
 * NOT_FOUND, which is what absent devices are.
 */
quire_status tune_file_read(const char *path, quire_file_bytes *bytes, quire_error *error);

/* The file's JSON; a new one if there is no such file. Its text was found sound before. */
quire_status tune_file_open(const quire_file_bytes *bytes, json_t **root, quire_error *error);

/* Puts a result in, in place of one with the same key. */
quire_status tune_file_put(json_t *root, const tune_result *result, quire_error *error);

/* Replaces the file as a whole, or leaves it as it is. */
quire_status tune_file_write(const char *path, const json_t *root, quire_error *error);

#endif
