/* Step 2: kinds, defaults, rounding and constraints of attributes. */
#include <math.h>
#include <string.h>

#include "planning.h"

static const char *kind_text(const quire_value *value) {
  return quire_value_is_number(value)        ? "a number"
         : value->kind == QUIRE_VALUE_STRING ? "a string"
                                             : "a boolean";
}

static quire_status refuse(quire_planning *p, const quire_manifest_attribute *attribute,
                           const char *reason, const char *detail) {
  quire_status status = attribute->rule.status;
  return quire_refuse(
      p, &(quire_refusal){.stage = "attributes",
                          .failing = quire_planning_format(p, "attributes.%s", attribute->name),
                          .reason = reason,
                          .status = status != QUIRE_OK ? status : QUIRE_BAD_ATTRIBUTE,
                          .rule = attribute->rule.rule,
                          .subject = attribute->name,
                          .detail = detail,
                          .variant = -1});
}

static bool kind_matches_default(const quire_value *value, const quire_value *by_default) {
  return by_default->kind == QUIRE_VALUE_UNDEFINED || quire_value_same_kind(value, by_default);
}

static const char *type_text(quire_value_type type) {
  switch (type) {
    case QUIRE_VALUE_TYPE_INT:
      return "an integer";
    case QUIRE_VALUE_TYPE_STRING:
      return "a string";
    case QUIRE_VALUE_TYPE_BOOL:
      return "a boolean";
    default:
      return "a number";
  }
}

static quire_status check_kind(quire_planning *p, const quire_manifest_attribute *attribute,
                               const quire_value *value) {
  if (value->kind == QUIRE_VALUE_UNDEFINED) {
    return QUIRE_OK;
  }
  const char *expected = NULL;
  if (!quire_value_fits(value, attribute->type)) {
    expected = type_text(attribute->type);
  } else if (!kind_matches_default(value, &attribute->default_value)) {
    expected = kind_text(&attribute->default_value);
  } else {
    return QUIRE_OK;
  }
  const char *got = attribute->type == QUIRE_VALUE_TYPE_INT && value->kind == QUIRE_VALUE_DOUBLE
                        ? "not a whole number"
                        : kind_text(value);
  return refuse(p, attribute, "type",
                quire_planning_format(p, "is %s, %s is expected", got, expected));
}

/* A float is rounded to f32; false if it is not finite then. */
static bool round_float(quire_value *value) {
  float rounded = (float)quire_value_as_double(value);
  if (!isfinite(rounded)) {
    return false;
  }
  *value = quire_value_number((double)rounded);
  return true;
}

/* Least power of two >= value; bounds above 2^62 stay as they are. */
static void bucket(quire_value *value) {
  if (value->kind == QUIRE_VALUE_INTEGER) {
    int64_t power = 1;
    if (value->as.integer <= 0 || value->as.integer > (int64_t)1 << 62) {
      return;
    }
    while (power < value->as.integer) {
      power *= 2;
    }
    *value = quire_value_integer(power);
  } else if (value->as.number > 0) {
    int exponent = 0;
    double fraction = frexp(value->as.number, &exponent);
    *value = quire_value_number(value->as.number <= 1 ? 1
                                : fraction == 0.5     ? value->as.number
                                                      : ldexp(1, exponent));
  }
}

static quire_status enter(quire_planning *p, const quire_manifest_attribute *attribute,
                          quire_value *value) {
  if (!quire_value_is_number(value)) {
    return QUIRE_OK;
  }
  bool finite = value->kind == QUIRE_VALUE_INTEGER || isfinite(value->as.number);
  if (finite && attribute->type == QUIRE_VALUE_TYPE_FLOAT) {
    finite = round_float(value);
  }
  if (!finite) {
    return refuse(p, attribute, "value", "is not a finite number");
  }
  if (attribute->bucket_pow2) {
    bucket(value);
  }
  return QUIRE_OK;
}

static bool is_allowed(const quire_manifest_attribute *attribute, const quire_value *value) {
  if (attribute->values == NULL) {
    return true;
  }
  for (size_t i = 0; i < attribute->value_count; i++) {
    quire_value allowed = attribute->values[i];
    if (attribute->type == QUIRE_VALUE_TYPE_FLOAT && quire_value_is_number(&allowed)) {
      (void)round_float(&allowed);
    }
    if (quire_value_equal(value, &allowed)) {
      return true;
    }
  }
  return false;
}

static const char *not_allowed_text(quire_planning *p, const quire_manifest_attribute *attribute,
                                    const quire_value *value) {
  quire_text text;
  quire_text_init(&text, p->scratch->allocator);
  quire_text_put(&text, "is ");
  quire_value_write_json(&text, value);
  quire_text_put(&text, attribute->value_count == 1 ? ", it must be " : ", it must be one of ");
  for (size_t i = 0; i < attribute->value_count; i++) {
    quire_text_put(&text, i > 0 ? ", " : "");
    quire_value_write_json(&text, &attribute->values[i]);
  }
  return quire_planning_keep(p, &text);
}

static quire_status check_constraint(quire_planning *p, const quire_manifest_attribute *attribute,
                                     const quire_value *value) {
  if (value->kind == QUIRE_VALUE_UNDEFINED) {
    return attribute->required ? refuse(p, attribute, "missing", "is required") : QUIRE_OK;
  }
  if (!is_allowed(attribute, value)) {
    return refuse(p, attribute, "value", not_allowed_text(p, attribute, value));
  }
  return QUIRE_OK;
}

quire_status quire_planning_read_attributes(quire_planning *p) {
  const quire_manifest *manifest = p->manifest;
  for (size_t i = 0; i < manifest->attribute_count; i++) {
    const quire_manifest_attribute *attribute = &manifest->attributes[i];
    quire_status status = check_kind(p, attribute, &p->attributes[i]);
    if (status != QUIRE_OK) {
      return status;
    }
    if (p->attributes[i].kind == QUIRE_VALUE_UNDEFINED) {
      p->attributes[i] = attribute->default_value;
    }
    status = enter(p, attribute, &p->attributes[i]);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  for (size_t i = 0; i < manifest->constraint_count; i++) {
    int32_t index = manifest->constraint_order[i];
    quire_status status = check_constraint(p, &manifest->attributes[index], &p->attributes[index]);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  return QUIRE_OK;
}
