#include "tuning.h"

#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "json_reader.h"
#include "manifest_json.h"
#include "planning.h"

enum { FILE_VERSION = 1, MOST_BYTES = 4 << 20, MOST_NESTING = 8, MOST_ENTRIES = 1024 };

/* ---- reading ---- */

static quire_status read_text(quire_reader *in, const json_t *entry, const char *key,
                              const char **out) {
  const json_t *json = json_object_get(entry, key);
  const size_t outer = quire_reader_enter_key(in, key);
  if (json == NULL) {
    return quire_reader_malformed(in, "is missing");
  }
  QUIRE_TRY(quire_reader_string(in, json, out));
  quire_reader_leave(in, outer);
  return QUIRE_OK;
}

static quire_status read_entry(quire_reader *in, const json_t *json, quire_tuning_entry *entry) {
  static const char *const members[] = {"operator", "manifest", "variant", "adapter",
                                        "class",    "tunables", "measured"};
  QUIRE_TRY(quire_reader_members(in, json, members, sizeof members / sizeof *members));
  QUIRE_TRY(read_text(in, json, "operator", &entry->op));
  QUIRE_TRY(read_text(in, json, "manifest", &entry->manifest));
  QUIRE_TRY(read_text(in, json, "variant", &entry->variant));
  QUIRE_TRY(read_text(in, json, "adapter", &entry->adapter));
  QUIRE_TRY(read_text(in, json, "class", &entry->problem));
  if (json_object_get(json, "tunables") == NULL) {
    (void)quire_reader_enter_key(in, "tunables");
    return quire_reader_malformed(in, "is missing");
  }
  return quire_reader_map(in, json, "tunables", quire_reader_scalar, &entry->tunables,
                          &entry->tunable_count);
}

static bool same_key(const quire_tuning_entry *a, const quire_tuning_entry *b) {
  return strcmp(a->op, b->op) == 0 && strcmp(a->manifest, b->manifest) == 0 &&
         strcmp(a->variant, b->variant) == 0 && strcmp(a->adapter, b->adapter) == 0 &&
         strcmp(a->problem, b->problem) == 0;
}

static quire_status read_entries(quire_reader *in, const json_t *list, quire_tuning *tuning) {
  (void)quire_reader_enter_key(in, "entries");
  if (!json_is_array(list)) {
    return list == NULL ? quire_reader_malformed(in, "is missing")
                        : quire_reader_expected(in, "a list", list);
  }
  const size_t count = json_array_size(list);
  if (count > MOST_ENTRIES) {
    return quire_fail(in->error, QUIRE_LIMIT, NULL, in->path, "has %zu entries, at most %d", count,
                      (int)MOST_ENTRIES);
  }
  quire_tuning_entry *entries = quire_arena_array(in->arena, count, sizeof *entries);
  if (entries == NULL) {
    return quire_fail_memory(in->error);
  }
  for (size_t i = 0; i < count; i++) {
    const size_t outer = quire_reader_enter_index(in, i);
    QUIRE_TRY(read_entry(in, json_array_get(list, i), &entries[i]));
    for (size_t k = 0; k < i; k++) {
      if (same_key(&entries[k], &entries[i])) {
        return quire_reader_malformed(in, "has the key of an entry before it");
      }
    }
    quire_reader_leave(in, outer);
  }
  *tuning = (quire_tuning){entries, count};
  return QUIRE_OK;
}

static quire_status read_root(quire_reader *in, const json_t *root, quire_tuning *tuning) {
  static const char *const members[] = {"format", "version", "entries"};
  const char *format = json_string_value(json_object_get(root, "format"));
  const json_t *version = json_object_get(root, "version");
  if (format == NULL || strcmp(format, "quire-tuning") != 0) {
    return quire_reader_malformed(in, "is no tuning file: its \"format\" is not \"quire-tuning\"");
  }
  if (!json_is_integer(version) || json_integer_value(version) != FILE_VERSION) {
    (void)quire_reader_enter_key(in, "version");
    return quire_reader_malformed(in, "is not 1, the one version that is known");
  }
  QUIRE_TRY(quire_reader_members(in, root, members, sizeof members / sizeof *members));
  return read_entries(in, json_object_get(root, "entries"), tuning);
}

quire_status quire_tuning_parse(const char *text, size_t length, quire_arena *arena,
                                quire_tuning *tuning, quire_error *error) {
  quire_reader in = {.arena = arena, .error = error, .path = "tuning"};
  *tuning = (quire_tuning){NULL, 0};
  if (length > MOST_BYTES) {
    return quire_fail(error, QUIRE_LIMIT, NULL, "tuning", "has %zu bytes, at most %d", length,
                      (int)MOST_BYTES);
  }
  if (quire_json_nesting(text, length) > MOST_NESTING) {
    return quire_fail(error, QUIRE_LIMIT, NULL, "tuning", "is nested more than %d deep",
                      (int)MOST_NESTING);
  }
  json_t *root = NULL;
  QUIRE_TRY(quire_reader_parse(&in, text, length, "tuning", &root));
  const quire_status status = read_root(&in, root, tuning);
  json_decref(root);
  return status;
}

/* ---- keys ---- */

void quire_tuning_write_manifest(const quire_manifest *manifest, quire_text *out) {
  quire_text_format(out, "%" PRId64 "-%016" PRIx64, manifest->since_version, manifest->digest);
}

void quire_tuning_write_adapter(const quire_target *target, quire_text *out) {
  static const char *const names[] = {"vendor", "architecture", "device", "description"};
  const quire_value device = quire_target_adapter(target, "device", strlen("device"));
  if (device.kind != QUIRE_VALUE_STRING || device.length == 0) {
    return;
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const quire_value value = quire_target_adapter(target, names[i], strlen(names[i]));
    quire_text_put(out, i > 0 ? " | " : "");
    if (value.kind == QUIRE_VALUE_STRING) {
      quire_text_append(out, value.as.string, value.length);
    }
  }
}

/* Dimensions above 2^62 stay: nothing of that size is planned anyway. */
static int64_t round_up(int64_t dimension) {
  int64_t power = 1;
  while (power < dimension && power < INT64_C(1) << 62) {
    power *= 2;
  }
  return dimension <= 1 ? dimension : power;
}

static void write_attribute(const quire_manifest_attribute *attribute, const quire_value *value,
                            quire_text *out) {
  quire_text_format(out, " %s=", attribute->name);
  if (attribute->type == QUIRE_VALUE_TYPE_FLOAT || value->kind == QUIRE_VALUE_DOUBLE) {
    quire_text_put(out, quire_value_as_double(value) == 0 ? "0" : "*");
  } else {
    quire_value_write_json(out, value);
  }
}

void quire_tuning_write_problem(const quire_manifest *manifest, const quire_plan_tensor *inputs,
                                const quire_value *attributes, quire_text *out) {
  for (size_t i = 0; i < manifest->input_count; i++) {
    const quire_plan_tensor *input = &inputs[i];
    if (input->present) {
      int64_t shape[QUIRE_MAX_RANK];
      for (int32_t d = 0; d < input->ndim; d++) {
        shape[d] = round_up(input->shape[d]);
      }
      quire_text_format(out, "%s%s:%s", out->length > 0 ? " " : "", manifest->inputs[i].onnx,
                        quire_dtype_name(input->dtype));
      quire_text_int_list(out, shape, input->ndim);
    }
  }
  for (size_t i = 0; i < manifest->attribute_count; i++) {
    if (attributes[i].kind != QUIRE_VALUE_UNDEFINED) {
      write_attribute(&manifest->attributes[i], &attributes[i], out);
    }
  }
}

/* ---- looking up ---- */

/* The texts of a key. */
typedef struct key_texts {
  quire_text manifest, adapter, problem;
} key_texts;

static const quire_tuning_entry *search(const quire_tuning *tuning, const quire_tuning_entry *key) {
  for (size_t i = 0; i < tuning->count; i++) {
    if (same_key(&tuning->entries[i], key)) {
      return &tuning->entries[i];
    }
  }
  return NULL;
}

bool quire_tuning_find(const quire_tuning *tuning, const quire_manifest *manifest, int32_t variant,
                       const quire_target *target, const quire_plan_tensor *inputs,
                       const quire_value *attributes, const quire_allocator *allocator,
                       const quire_tuning_entry **entry) {
  key_texts texts;
  quire_text_init(&texts.manifest, allocator);
  quire_text_init(&texts.adapter, allocator);
  quire_text_init(&texts.problem, allocator);
  quire_tuning_write_manifest(manifest, &texts.manifest);
  quire_tuning_write_adapter(target, &texts.adapter);
  quire_tuning_write_problem(manifest, inputs, attributes, &texts.problem);
  const bool complete = !texts.manifest.failed && !texts.adapter.failed && !texts.problem.failed;
  const quire_tuning_entry key = {.op = manifest->qualified,
                                  .manifest = quire_text_view(&texts.manifest),
                                  .variant = manifest->variants[variant].id,
                                  .adapter = quire_text_view(&texts.adapter),
                                  .problem = quire_text_view(&texts.problem)};
  *entry = complete && texts.adapter.length > 0 ? search(tuning, &key) : NULL;
  quire_text_release(&texts.manifest);
  quire_text_release(&texts.adapter);
  quire_text_release(&texts.problem);
  return complete;
}

const char *quire_tuning_fault(const quire_manifest *manifest, const quire_tuning_entry *entry,
                               const char **tunable) {
  for (size_t i = 0; i < entry->tunable_count; i++) {
    const quire_named_value *named = &entry->tunables[i];
    const int32_t index = quire_manifest_find_tunable(manifest, named->name);
    *tunable = named->name;
    if (index < 0) {
      return "is no tunable";
    }
    const quire_value value = quire_named_value_read(named);
    bool found = false;
    for (size_t k = 0; k < manifest->tunables[index].choice_count; k++) {
      found = found || quire_value_equal(&value, &manifest->tunables[index].choices[k]);
    }
    if (!found) {
      return "has a value that is none of its choices";
    }
  }
  return NULL;
}
