/* Attributes, their constraints, and tunables (docs/manifest-language.md 3.3, 15). */
#include <math.h>
#include <string.h>

#include "manifest_loader.h"

bool quire_value_fits(const quire_value *value, quire_value_type type) {
  switch (type) {
    case QUIRE_VALUE_TYPE_INT:
      return value->kind == QUIRE_VALUE_INTEGER;
    case QUIRE_VALUE_TYPE_FLOAT:
      return quire_value_is_number(value);
    case QUIRE_VALUE_TYPE_STRING:
      return value->kind == QUIRE_VALUE_STRING;
    case QUIRE_VALUE_TYPE_BOOL:
      return value->kind == QUIRE_VALUE_BOOLEAN;
    case QUIRE_VALUE_TYPE_NONE:
      break;
  }
  return true;
}

static const struct {
  const char *name;
  quire_value_type type;
} type_names[] = {{"int", QUIRE_VALUE_TYPE_INT},
                  {"float", QUIRE_VALUE_TYPE_FLOAT},
                  {"string", QUIRE_VALUE_TYPE_STRING},
                  {"bool", QUIRE_VALUE_TYPE_BOOL}};

static void load_type(quire_loader *loader, json_t *json, const quire_json_place *place,
                      quire_manifest_attribute *attribute) {
  const char *text = quire_loader_string(loader, json, "type", place);
  if (text == NULL) {
    return;
  }
  for (size_t i = 0; i < sizeof type_names / sizeof *type_names; ++i) {
    if (strcmp(type_names[i].name, text) == 0) {
      attribute->type = type_names[i].type;
      return;
    }
  }
  quire_json_place member = quire_json_member(place, "type");
  quire_loader_fault(loader, &member, "must be \"int\", \"float\", \"string\" or \"bool\"");
}

/* A scalar of the attribute's type; floats are rounded as a request's are. */
static quire_value load_value(quire_loader *loader, json_t *json, const quire_json_place *place,
                              quire_value_type type) {
  quire_value value = quire_loader_scalar(loader, json, place);
  if (value.kind != QUIRE_VALUE_UNDEFINED && !quire_value_fits(&value, type)) {
    quire_loader_fault(loader, place, "is not of the attribute's type");
  } else if (type == QUIRE_VALUE_TYPE_FLOAT && value.kind != QUIRE_VALUE_UNDEFINED) {
    value = quire_value_number((double)(float)quire_value_as_double(&value));
    if (value.kind == QUIRE_VALUE_DOUBLE && !isfinite(value.as.number)) {
      quire_loader_fault(loader, place, "does not fit a 32-bit float");
    }
  }
  return value;
}

static void load_attribute(quire_loader *loader, const char *key, json_t *json,
                           const quire_json_place *place, quire_manifest_attribute *attribute) {
  static const char *const members[] = {"default", "type", "bucket", NULL};
  attribute->name = quire_loader_copy(loader, key);
  attribute->rule.rule = "";
  if (!quire_loader_object(loader, json, place, members)) {
    return;
  }
  load_type(loader, json, place, attribute);
  json_t *value = json_object_get(json, "default");
  if (value != NULL) {
    quire_json_place member = quire_json_member(place, "default");
    attribute->default_value = load_value(loader, value, &member, attribute->type);
  }
  const char *bucket = quire_loader_string(loader, json, "bucket", place);
  if (bucket != NULL) {
    quire_json_place member = quire_json_member(place, "bucket");
    quire_value number = quire_value_integer(0);
    attribute->bucket_pow2 = true;
    if (strcmp(bucket, "pow2") != 0) {
      quire_loader_fault(loader, &member, "must be \"pow2\"");
    } else if (!quire_value_fits(&number, attribute->type) ||
               (attribute->default_value.kind != QUIRE_VALUE_UNDEFINED &&
                !quire_value_same_kind(&number, &attribute->default_value))) {
      quire_loader_fault(loader, &member, "is for numbers only");
    }
  }
}

/* A list of values of one type, the default (unless it is undefined) among them; NULL for none. */
static const quire_value *load_values(quire_loader *loader, json_t *json,
                                      const quire_json_place *place, quire_value_type type,
                                      const quire_value *default_value, const char *name,
                                      size_t *count) {
  *count = quire_loader_list(loader, json, place);
  if (json == NULL) {
    return NULL;
  }
  if (*count == 0 && json_is_array(json)) {
    quire_loader_fault(loader, place, "must list at least one value");
  }
  quire_value *values = quire_loader_array(loader, *count, sizeof *values);
  if (values == NULL) {
    return NULL;
  }
  bool found = default_value->kind == QUIRE_VALUE_UNDEFINED;
  for (size_t i = 0; i < *count; ++i) {
    quire_json_place element = quire_json_element(place, i);
    values[i] = load_value(loader, json_array_get(json, i), &element, type);
    found = found || quire_value_equal(&values[i], default_value);
  }
  if (!found) {
    quire_loader_fault(loader, place, "the default of `%.60s` is not among them", name);
  }
  return values;
}

static void load_constraints(quire_loader *loader, quire_manifest_attribute *attributes) {
  static const char *const members[] = {"required", "values", "rule", "status", NULL};
  quire_manifest *manifest = loader->manifest;
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "attributeConstraints");
  json_t *map = json_object_get(loader->root, "attributeConstraints");
  size_t count = quire_loader_map(loader, map, &place);
  int32_t *order = quire_loader_array(loader, count, sizeof *order);
  if (order == NULL || count == 0) {
    return;
  }
  const char *key = NULL;
  json_t *json = NULL;
  json_object_foreach(map, key, json) {
    if (quire_is_comment(key)) {
      continue;
    }
    quire_json_place member = quire_json_member(&place, key);
    quire_json_place values = quire_json_member(&member, "values");
    int32_t index = quire_manifest_find_attribute(manifest, key);
    if (index < 0) {
      quire_loader_fault(loader, &member, "undeclared attribute");
    }
    if (!quire_loader_object(loader, json, &member, members) || index < 0) {
      continue;
    }
    quire_manifest_attribute *attribute = &attributes[index];
    attribute->required = quire_loader_boolean(loader, json, "required", &member, false);
    attribute->values =
        load_values(loader, json_object_get(json, "values"), &values, attribute->type,
                    &attribute->default_value, attribute->name, &attribute->value_count);
    quire_load_status(loader, json, &member, &attribute->rule);
    order[manifest->constraint_count++] = index;
  }
  manifest->constraint_order = order;
}

void quire_load_attributes(quire_loader *loader) {
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "attributes");
  json_t *map = json_object_get(loader->root, "attributes");
  size_t count = quire_loader_map(loader, map, &place);
  quire_manifest_attribute *attributes = quire_loader_array(loader, count, sizeof *attributes);
  if (attributes == NULL) {
    return;
  }
  loader->manifest->attributes = attributes;
  const char *key = NULL;
  json_t *json = NULL;
  if (count > 0) {
    json_object_foreach(map, key, json) {
      if (!quire_is_comment(key)) {
        quire_json_place member = quire_json_member(&place, key);
        load_attribute(loader, key, json, &member,
                       &attributes[loader->manifest->attribute_count++]);
      }
    }
  }
  load_constraints(loader, attributes);
}

static void load_choices(quire_loader *loader, json_t *json, const quire_json_place *place,
                         quire_manifest_tunable *tunable) {
  quire_json_place member = quire_json_member(place, "choices");
  json_t *list = json_object_get(json, "choices");
  tunable->choices = load_values(loader, list, &member, QUIRE_VALUE_TYPE_NONE, &tunable->value,
                                 tunable->name, &tunable->choice_count);
  for (size_t i = 0; tunable->choices != NULL && i < tunable->choice_count; ++i) {
    if (tunable->choices[i].kind != QUIRE_VALUE_UNDEFINED &&
        !quire_value_same_kind(&tunable->choices[i], &tunable->value)) {
      quire_json_place element = quire_json_element(&member, i);
      quire_loader_fault(loader, &element, "is of another kind than the default");
    }
  }
}

void quire_load_tunables(quire_loader *loader) {
  static const char *const members[] = {"default", "choices", NULL};
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "tunables");
  json_t *map = json_object_get(loader->root, "tunables");
  size_t count = quire_loader_map(loader, map, &place);
  quire_manifest_tunable *tunables = quire_loader_array(loader, count, sizeof *tunables);
  if (tunables == NULL || count == 0) {
    return;
  }
  loader->manifest->tunables = tunables;
  const char *key = NULL;
  json_t *json = NULL;
  json_object_foreach(map, key, json) {
    if (quire_is_comment(key)) {
      continue;
    }
    quire_manifest_tunable *tunable = &tunables[loader->manifest->tunable_count++];
    quire_json_place member = quire_json_member(&place, key);
    quire_json_place value = quire_json_member(&member, "default");
    tunable->name = quire_loader_copy(loader, key);
    if (!quire_loader_object(loader, json, &member, members)) {
      continue;
    }
    if (json_object_get(json, "default") == NULL) {
      quire_loader_fault(loader, &member, "`default` is missing");
      continue;
    }
    tunable->value = quire_loader_scalar(loader, json_object_get(json, "default"), &value);
    load_choices(loader, json, &member, tunable);
  }
}

void quire_load_variant_tunables(quire_loader *loader, json_t *map, const quire_json_place *place,
                                 quire_manifest_variant *variant) {
  static const char *const members[] = {"default", NULL};
  const quire_manifest *manifest = loader->manifest;
  size_t count = quire_loader_map(loader, map, place);
  quire_value *values = quire_loader_array(loader, manifest->tunable_count, sizeof *values);
  if (values == NULL) {
    return;
  }
  for (size_t i = 0; i < manifest->tunable_count; ++i) {
    values[i] = manifest->tunables[i].value;
  }
  variant->tunables = values;
  const char *key = NULL;
  json_t *json = NULL;
  if (count == 0) {
    return;
  }
  json_object_foreach(map, key, json) {
    if (quire_is_comment(key)) {
      continue;
    }
    quire_json_place member = quire_json_member(place, key);
    quire_json_place inner = quire_json_member(&member, "default");
    bool wrapped = json_is_object(json);
    int32_t index = quire_manifest_find_tunable(manifest, key);
    if (wrapped && !quire_loader_object(loader, json, &member, members)) {
      continue;
    }
    quire_value value = quire_loader_scalar(
        loader, wrapped ? json_object_get(json, "default") : json, wrapped ? &inner : &member);
    if (index < 0) {
      quire_loader_fault(loader, &member, "undeclared tunable");
    } else if (value.kind != QUIRE_VALUE_UNDEFINED) {
      if (!quire_value_same_kind(&value, &manifest->tunables[index].value)) {
        quire_loader_fault(loader, &member, "is of another kind than the tunable's default");
      }
      values[index] = value;
    }
  }
}
