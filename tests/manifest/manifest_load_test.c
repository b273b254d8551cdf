/* What a loaded manifest holds; names by scope; hostile texts; memory that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "counting_allocator.h"
#include "manifest.h"

static char *read_data(const char *name, size_t *length) {
  char path[512];
  (void)snprintf(path, sizeof path, "%s/lint/%s", QUIRE_TEST_DATA, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = malloc(65536);
  assert_non_null(text);
  *length = fread(text, 1, 65536, file);
  (void)fclose(file);
  return text;
}

static quire_manifest *load_text(const char *text, size_t length) {
  quire_manifest *manifest = NULL;
  quire_error error = {.status = QUIRE_OK};
  if (quire_manifest_load(&quire_default_allocator, text, length, NULL, NULL, &manifest, &error) !=
      QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  return manifest;
}

static quire_manifest *load_data(const char *name) {
  size_t length = 0;
  char *text = read_data(name, &length);
  quire_manifest *manifest = load_text(text, length);
  free(text); /* nothing of it is borrowed */
  return manifest;
}

static void assert_source(const quire_expr *expr, const char *source) {
  size_t length = 0;
  assert_non_null(expr);
  const char *text = quire_expr_source(expr, &length);
  assert_int_equal(length, strlen(source));
  assert_memory_equal(text, source, length);
}

static void every_member_arrives(void **state) {
  (void)state;
  quire_manifest *manifest = load_data("pass_every_extension.json");
  assert_string_equal(manifest->qualified, "quire.Scale");
  assert_int_equal(manifest->since_version, 1);
  assert_int_equal(manifest->input_count, 5);
  assert_int_equal(manifest->output_count, 2);
  assert_int_equal(manifest->key_count, 6);
  int32_t pool = quire_manifest_find_key(manifest, "pool");
  assert_int_equal(manifest->keys[pool].input, 2);
  assert_int_equal(manifest->keys[pool].output, 1);
  assert_int_equal(quire_manifest_find_input(manifest, "pool"), 2);
  assert_int_equal(quire_manifest_find_output(manifest, "pool_out"), 1);
  assert_int_equal(quire_manifest_find_output(manifest, "pool"), -1);
  assert_int_equal(manifest->outputs[0].may_alias, quire_manifest_find_key(manifest, "x"));
  assert_int_equal(manifest->outputs[1].may_alias, -1);
  assert_int_equal(manifest->inputs[3].storage, QUIRE_FLOAT16);
  assert_true(manifest->inputs[3].optional);
  assert_true(manifest->inputs[4].packed8);
  assert_source(manifest->inputs[4].optional_when, "present.seed");

  const quire_manifest_attribute *factor =
      &manifest->attributes[quire_manifest_find_attribute(manifest, "factor")];
  assert_int_equal(factor->type, QUIRE_VALUE_TYPE_FLOAT);
  const quire_manifest_attribute *mode =
      &manifest->attributes[quire_manifest_find_attribute(manifest, "mode")];
  assert_int_equal(mode->value_count, 2);
  assert_string_equal(mode->rule.rule, "SC-V1");
  assert_int_equal(mode->rule.status, QUIRE_BAD_ATTRIBUTE);
  assert_true(
      manifest->attributes[quire_manifest_find_attribute(manifest, "bound_hint")].bucket_pow2);
  assert_string_equal(manifest->rules[QUIRE_RULE_RANK], "SC-V2");
  assert_string_equal(manifest->rules[QUIRE_RULE_ALIAS], "");
  assert_int_equal(manifest->contract_count, 1);
  assert_int_equal(manifest->contract[0].rule.status, QUIRE_BAD_SHAPE);
  assert_string_equal(manifest->contract[0].subject, "lengths");
  quire_manifest_destroy(manifest);
}

static void variants_arrive(void **state) {
  (void)state;
  quire_manifest *manifest = load_data("pass_every_extension.json");
  static const int32_t walk[] = {0, 2, 1};
  assert_int_equal(manifest->variant_count, 3);
  assert_memory_equal(manifest->walk, walk, sizeof walk);
  const quire_manifest_variant *native = &manifest->variants[0];
  assert_string_equal(native->backend, "cpu");
  assert_true(native->passes[0].schedule);
  assert_int_equal(native->passes[1].grid, 1);
  const quire_manifest_binding *bindings = native->passes[1].bindings;
  assert_int_equal(bindings[1].kind, QUIRE_BINDING_SCRATCH);
  assert_false(bindings[1].writable);
  assert_int_equal(bindings[2].axis_count, 2);
  assert_int_equal(bindings[2].axes[0], 1);
  assert_true(bindings[2].writable); /* in place */
  assert_false(bindings[0].writable);
  assert_int_equal(bindings[4].kind, QUIRE_BINDING_UNIFORM);
  assert_string_equal(bindings[4].struct_name, "Params");

  const quire_manifest_variant *shader = &manifest->variants[1];
  assert_string_equal(shader->backend, "webgpu");
  assert_int_equal(shader->requires.limits[0].least, 1025);
  assert_string_equal(manifest->limits[shader->requires.limits[0].limit], "maxBufferSize");
  assert_true(shader->requires.has_subgroup_min_size);
  assert_source(shader->demote_when, "device.backend == \"webgpu\"");
  assert_int_equal(shader->superseded_by[0], 2);
  const quire_manifest_pass *pass = &shader->passes[0];
  assert_string_equal(pass->id, "pass_0");
  assert_string_equal(pass->name, "pass_0");
  assert_int_equal(pass->dispatch_form, QUIRE_DISPATCH_THREADS);
  assert_source(pass->dispatch[1], "64");
  assert_true(pass->bindings[2].optional);
  assert_string_equal(pass->bindings[3].name, "c");
  assert_string_equal(pass->bindings[4].element, "vec4<f32>");
  assert_source(pass->workgroup_bytes, "rowCount * 4");
  assert_int_equal(pass->storage_count, 5);
  assert_int_equal(pass->uniform_count, 0);
  quire_manifest_destroy(manifest);
}

/* Which layer a name means (docs/manifest-language.md 4); `%s` is a variant's derive, then a
 * pass's. */
static const char scope_text[] =
    "{\"domain\": \"\", \"name\": \"N\", \"sinceVersion\": 1,"
    "\"inputs\": {\"x\": {\"dtype\": \"T\"}}, \"outputs\": {\"y\": {\"dtype\": \"T\"}},"
    "\"typeConstraints\": {\"T\": [\"float32\"]}, \"tunables\": {\"U\": {\"default\": 1}},"
    "\"derive\": {\"n\": 1, \"kernel\": \"n + tunables.U\"},"
    "\"bindings\": {\"p\": {\"struct\": [{\"name\": \"a\", \"type\": \"u32\", \"value\": \"n\"}]}},"
    "\"variants\": [{\"derive\": {\"early\": \"n\", \"n\": \"n + 1\", \"late\": \"n + tunables.U\","
    "  \"ahead\": \"behind\", \"behind\": 3, \"test\": \"mine is defined\"},"
    " \"passes\": [{\"shader\": \"s\", \"derive\": {\"mine\": \"T\", \"late\": \"late\"},"
    "  \"bindings\": [\"x\", \"y\", \"p\"], \"dispatch\": {\"x\": \"late\"}}]}]}";

static void names_mean_their_layer(void **state) {
  (void)state;
  quire_manifest *manifest = load_text(scope_text, sizeof scope_text - 1);
  const quire_manifest_variant *variant = &manifest->variants[0];
  const quire_manifest_pass *pass = &variant->passes[0];
  const struct {
    const quire_expr *expr;
    quire_ref_kind kind;
    int32_t layer;
    int32_t index;
  } rows[] = {
      {manifest->derive.names[1].expr, QUIRE_REF_DERIVED, 0, 0},
      {variant->derive.names[0].expr, QUIRE_REF_DERIVED, 0, 0}, /* before the variant's own n */
      {variant->derive.names[1].expr, QUIRE_REF_DERIVED, 0, 0}, /* n + 1: the kernel's */
      {variant->derive.names[2].expr, QUIRE_REF_DERIVED, 1, 1}, /* behind it */
      {variant->derive.names[3].expr, QUIRE_REF_DERIVED, 1, 4}, /* a later one of the same map */
      {variant->derive.names[5].expr, QUIRE_REF_UNKNOWN, 0, 0}, /* the pass is not visible */
      {pass->derive.names[0].expr, QUIRE_REF_SYMBOL, 0, 0},
      {pass->derive.names[1].expr, QUIRE_REF_DERIVED, 1, 2},        /* late: the variant's */
      {pass->dispatch[0], QUIRE_REF_DERIVED, 2, 1},                 /* a place: the innermost */
      {pass->bindings[2].fields[0].value, QUIRE_REF_DERIVED, 1, 1}, /* shared: likewise */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const quire_ref *ref = quire_expr_refs(rows[i].expr);
    if (ref->kind != rows[i].kind || ref->layer != rows[i].layer || ref->index != rows[i].index) {
      fail_msg("row %zu: kind %d layer %d index %d", i, (int)ref->kind, (int)ref->layer,
               (int)ref->index);
    }
  }
  assert_int_equal(quire_expr_refs(manifest->derive.names[1].expr)[1].layer, 0);
  assert_int_equal(quire_expr_refs(variant->derive.names[2].expr)[1].layer, 1);
  assert_string_equal(manifest->qualified, "ai.onnx.N");
  quire_manifest_destroy(manifest);
}

/* ---- hostile texts ---- */

typedef struct text_buffer {
  char *data;
  size_t length;
} text_buffer;

static text_buffer repeated(const char *head, const char *middle, const char *tail, size_t count) {
  size_t head_length = strlen(head);
  size_t middle_length = strlen(middle);
  size_t tail_length = strlen(tail);
  text_buffer text = {malloc(head_length + middle_length * count + tail_length + 1),
                      head_length + middle_length * count + tail_length};
  assert_non_null(text.data);
  memcpy(text.data, head, head_length); /* NOLINT(bugprone-not-null-terminated-result) */
  for (size_t i = 0; i < count; ++i) {
    memcpy(text.data + head_length + i * middle_length, middle, middle_length);
  }
  memcpy(text.data + head_length + count * middle_length, tail, tail_length);
  text.data[text.length] = '\0';
  return text;
}

static void hostile_texts(void **state) {
  (void)state;
  static const struct {
    const char *head, *middle, *tail;
    size_t count;
    const char *message; /* what its message contains */
  } rows[] = {
      {"", "[", "", 100000, "32 deep"},
      {"", "{\"a\":", "", 100000, "32 deep"},
      {"{\"domain\": \"", "x", "\"}", 10000000, "1 MiB"},
      {"{\"domain\": \"", "x", "\"}", 1000000, "`name` is missing"},
      {"{\"derive\": {\"a\": \"", "(", "\"}}", 900000, "is missing"},
      {"{", "\"inputs\": {},", "\"a\": 1}", 2, "duplicate"},
      {"{\"inputs\": [", "1,", "1]}", 300000, "is missing"},
      {"{\"when\": [", "true,", "true]}", 150000, "is missing"},
      {"", "", "", 0, ""},
      {"", "\"", "", 999999, ""},
      {"", "\\", "", 1000, ""},
      {"{\"x-a\":", "[", "]", 31, ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    text_buffer text = repeated(rows[i].head, rows[i].middle, rows[i].tail, rows[i].count);
    quire_manifest *manifest = NULL;
    quire_error error = {.status = QUIRE_OK};
    quire_status status = quire_manifest_load(&quire_default_allocator, text.data, text.length,
                                              NULL, NULL, &manifest, &error);
    assert_int_equal(status, QUIRE_BAD_MANIFEST);
    assert_null(manifest);
    if (strstr(error.message, rows[i].message) == NULL) {
      fail_msg("row %zu: %s", i, error.message);
    }
    free(text.data);
  }
}

static void nesting_of_exactly_the_limit(void **state) {
  (void)state;
  char text[2048];
  char deep[80] = "";
  for (int i = 0; i < 31; ++i) {
    deep[i] = '[';
    deep[31 + i] = ']';
  }
  (void)snprintf(text, sizeof text, "{\"x-deep\": %s, %s", deep, scope_text + 1);
  quire_manifest_destroy(load_text(text, strlen(text)));
}

/* No prefix and no damaged byte does worse than a status. */
static void damaged_texts(void **state) {
  (void)state;
  size_t length = 0;
  char *text = read_data("pass_every_extension.json", &length);
  char *copy = malloc(length);
  assert_non_null(copy);
  quire_manifest *manifest = NULL;
  quire_error error;
  for (size_t i = 0; i + 2 < length; i += 7) { /* the last byte is a line end */
    char *prefix = malloc(i + 1);
    assert_non_null(prefix);
    memcpy(prefix, text, i);
    assert_int_equal(
        quire_manifest_load(&quire_default_allocator, prefix, i, NULL, NULL, &manifest, &error),
        QUIRE_BAD_MANIFEST);
    free(prefix);
  }
  static const char damage[] = "\"{[0,:\\x";
  for (size_t i = 0; i < length; i += 5) {
    memcpy(copy, text, length);
    copy[i] = damage[i / 5 % (sizeof damage - 1)];
    quire_manifest_load(&quire_default_allocator, copy, length, NULL, NULL, &manifest, &error);
    quire_manifest_destroy(manifest);
  }
  free(copy);
  free(text);
}

/* A shared binding costs once a pass: few bytes must not become much memory. */
static void shared_bindings_are_bounded(void **state) {
  (void)state;
  size_t capacity = (size_t)1 << 20;
  char *text = malloc(capacity);
  assert_non_null(text);
  size_t used = (size_t)snprintf(
      text, capacity,
      "{\"domain\": \"\", \"name\": \"N\", \"sinceVersion\": 1, \"inputs\": {\"x\": {\"dtype\": "
      "\"float32\"}}, \"outputs\": {\"y\": {\"dtype\": \"float32\"}}, \"bindings\": {\"p\": "
      "{\"struct\": [");
  for (int i = 0; i < 1000; ++i) {
    used += (size_t)snprintf(text + used, capacity - used,
                             "%s{\"name\": \"f%d\", \"type\": \"u32\", \"value\": 1}",
                             i > 0 ? "," : "", i);
  }
  used += (size_t)snprintf(text + used, capacity - used, "]}}, \"variants\": [{\"passes\": [");
  for (int i = 0; i < 1000; ++i) {
    used += (size_t)snprintf(text + used, capacity - used,
                             "%s{\"shader\": \"s\", \"bindings\": [\"p\"], \"dispatch\": {\"x\": "
                             "1}}",
                             i > 0 ? "," : "");
  }
  used += (size_t)snprintf(text + used, capacity - used, "]}]}");
  quire_manifest *manifest = NULL;
  quire_error error;
  assert_int_equal(
      quire_manifest_load(&quire_default_allocator, text, used, NULL, NULL, &manifest, &error),
      QUIRE_BAD_MANIFEST);
  assert_non_null(strstr(error.message, "too many expressions"));
  free(text);
}

/* ---- memory ---- */

static void ignore(void *user, const quire_finding *finding) {
  (void)user, (void)finding;
}

static void memory_runs_out(void **state) {
  (void)state;
  static const char *const names[] = {"pass_every_extension.json", "warn_fraction.json",
                                      "fail_wrong_kinds.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    size_t length = 0;
    char *text = read_data(names[i], &length);
    quire_status status = QUIRE_OUT_OF_MEMORY;
    for (size_t site = 1; site <= 2000 && status == QUIRE_OUT_OF_MEMORY; ++site) {
      counting_allocator counting;
      counting_allocator_init(&counting);
      counting.fail_at = site;
      quire_manifest *manifest = NULL;
      quire_error error;
      status =
          quire_manifest_load(&counting.allocator, text, length, ignore, NULL, &manifest, &error);
      assert_int_equal(manifest != NULL, status == QUIRE_OK);
      quire_manifest_destroy(manifest);
      assert_int_equal(counting.live, 0);
    }
    assert_int_equal(status, names[i][0] == 'f' ? QUIRE_BAD_MANIFEST : QUIRE_OK);
    free(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_member_arrives),         cmocka_unit_test(variants_arrive),
      cmocka_unit_test(names_mean_their_layer),       cmocka_unit_test(hostile_texts),
      cmocka_unit_test(nesting_of_exactly_the_limit), cmocka_unit_test(damaged_texts),
      cmocka_unit_test(shared_bindings_are_bounded),  cmocka_unit_test(memory_runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
