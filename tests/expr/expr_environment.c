#include "expr_environment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Plain references, by index. */
static const char *const plain_names[] = {
    "attrs.none", "attrs.i", "attrs.f", "attrs.s", "attrs.b", "shapes.x",           "ranks.x",
    "present.x",  "inf",     "nan",     "big",     "least",   "device.limits.size",
};

static quire_value plain_value(int32_t index) {
  static quire_value shape[2];
  shape[0] = quire_value_integer(5);
  shape[1] = quire_value_integer(12);
  switch (index) {
    case 1:
      return quire_value_integer(17);
    case 2:
      return quire_value_number(2.5);
    case 3:
      return quire_value_string("gated", 5);
    case 4:
      return quire_value_boolean(true);
    case 5:
      return quire_value_list(shape, 2);
    case 6:
      return quire_value_integer(2);
    case 7:
      return quire_value_boolean(true);
    case 8:
      return quire_value_number((double)INFINITY);
    case 9:
      return quire_value_number((double)NAN);
    case 10:
      return quire_value_integer(INT64_MAX);
    case 11:
      return quire_value_integer(INT64_MIN);
    case 12:
      return quire_value_integer(16384);
    default:
      return quire_value_undefined();
  }
}

static bool same(const char *a, const char *b, size_t b_length) {
  return strlen(a) == b_length && memcmp(a, b, b_length) == 0;
}

static const char *resolve(void *user, const char *path, size_t length, bool in_defined,
                           quire_ref *ref) {
  environment *world = user;
  memset(ref, 0, sizeof *ref);
  for (size_t i = 0; i < sizeof plain_names / sizeof *plain_names; ++i) {
    if (same(plain_names[i], path, length)) {
      ref->kind = i == 5 ? QUIRE_REF_SHAPE : QUIRE_REF_ATTRIBUTE;
      ref->index = (int32_t)i;
      return NULL;
    }
  }
  for (size_t i = 0; i < world->derived_count; ++i) {
    if (same(world->derived_name[i], path, length)) {
      ref->kind = QUIRE_REF_DERIVED;
      ref->index = (int32_t)i;
      return NULL;
    }
  }
  if (same("DISPATCH_FOLD_WIDTH", path, length)) {
    ref->kind = QUIRE_REF_FOLD_WIDTH;
    return NULL;
  }
  ref->kind = QUIRE_REF_UNKNOWN;
  return in_defined ? NULL : "unknown name";
}

static quire_expr_code load(quire_expr_env *env, const quire_ref *ref, quire_value *value,
                            quire_expr_fault *fault) {
  environment *world = env->user;
  if (ref->kind == QUIRE_REF_DERIVED) {
    return quire_expr_evaluate(world->derived[ref->index], env, value, fault);
  }
  *value = plain_value(ref->index);
  return QUIRE_EXPR_OK;
}

static bool has(quire_expr_env *env, quire_space space, const char *key, size_t length) {
  (void)env;
  return space == QUIRE_SPACE_ATTRS    ? same("i", key, length)
         : space == QUIRE_SPACE_LIMITS ? same("size", key, length)
                                       : same("vendor", key, length);
}

static bool feature(quire_expr_env *env, const char *name, size_t length) {
  (void)env;
  return same("subgroups", name, length);
}

static const quire_expr *definition(quire_expr_env *env, const quire_ref *ref) {
  environment *world = env->user;
  return ref->kind == QUIRE_REF_DERIVED ? world->derived[ref->index] : NULL;
}

void environment_create(environment *world) {
  memset(world, 0, sizeof *world);
  quire_arena_init(&world->arena, &quire_default_allocator);
  world->env = (quire_expr_env){.user = world,
                                .load = load,
                                .has = has,
                                .feature = feature,
                                .definition = definition,
                                .arena = &world->arena,
                                .steps_left = 1000000};
}

void environment_destroy(environment *world) {
  quire_arena_release(&world->arena);
}

const quire_expr *environment_compile(environment *world, const char *text, size_t length,
                                      quire_compile_error *error) {
  bool out_of_memory = false;
  return quire_expr_compile(&world->arena, text, length, resolve, world, error, &out_of_memory);
}

void environment_derive(environment *world, const char *name, const char *text) {
  quire_compile_error error;
  const quire_expr *expr = environment_compile(world, text, strlen(text), &error);
  if (expr == NULL || world->derived_count == MAX_DERIVED) {
    (void)fprintf(stderr, "%s: %s\n", name, expr == NULL ? error.message : "too many");
    abort();
  }
  world->derived_name[world->derived_count] = name;
  world->derived[world->derived_count++] = expr;
}

const char *environment_evaluate(environment *world, const char *text) {
  quire_compile_error error;
  quire_text out;
  quire_text_init(&out, &quire_default_allocator);
  const quire_expr *expr = environment_compile(world, text, strlen(text), &error);
  if (expr == NULL) {
    quire_text_format(&out, "does not compile at %zu: %s", error.offset, error.message);
  } else {
    quire_value value = quire_value_undefined();
    quire_expr_fault fault = {.at = NULL};
    quire_expr_code code = quire_expr_evaluate(expr, &world->env, &value, &fault);
    if (code == QUIRE_EXPR_OK) {
      quire_value_write_json(&out, &value);
    } else {
      quire_text_format(&out, "error %s at %.*s", quire_expr_code_name(code), (int)fault.at_length,
                        fault.at);
    }
  }
  const char *result = quire_arena_copy(&world->arena, quire_text_view(&out), out.length);
  quire_text_release(&out);
  return result;
}
