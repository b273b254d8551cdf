/* Checks of shader texts that not every implementation makes. Needs no adapter. */
#include "webgpu_shader.h"
#include "webgpu_harness.h"

typedef struct shader_case {
  const char *text;
  quire_status status;
  const char *message; /* a part of it */
} shader_case;

static const shader_case cases[] = {
    {"", QUIRE_OK, ""},
    {"/* never closed", QUIRE_OK, ""},
    {"fn f() { g(&a[i]); }", QUIRE_UNSUPPORTED, "line 1: a pointer to a part"},
    {"fn f() {\n  g(1, &s.m);\n}", QUIRE_UNSUPPORTED, "line 2: a pointer to a part"},
    {"fn f() { g(&a); }", QUIRE_OK, ""},
    {"fn f() { atomicAdd(&a[i], 1u); _ = arrayLength(&s.m); }", QUIRE_OK, ""},
    {"fn f() { let p = &a[3]; if (a & b[1]) { } h((x)&y[1]); }", QUIRE_OK, ""},
    {"fn f() { // g(&a[i]);\n /* g(&a[i]); /* nested */ g(&a[i]); */ }", QUIRE_OK, ""},
    {"fn f() { atomicAdd(&a[g(&b[1])], 1u); }", QUIRE_UNSUPPORTED, "a pointer to a part"},
    {"override W: u32 = 64; @workgroup_size(W) fn main() {}", QUIRE_UNSUPPORTED,
     "the workgroup size is no number"},
    {"override V = 1.0; const W = 64u; @workgroup_size(W, 1, 1) fn main() {}", QUIRE_OK, ""},
    {"var<workgroup> a: array<f32, 4096>;", QUIRE_OK, ""},
    {"var<workgroup> a: array<f32, 4097>;", QUIRE_LIMIT, "take 16400 bytes, at most 16384"},
    {"const N = 128u; const M: u32 = 16; var<workgroup> a: array<array<vec4<f16>, N>, M>;"
     "var<workgroup> b: u32;",
     QUIRE_LIMIT, "take 16400 bytes"},
    {"var<workgroup> a: array<vec3<f32>, 1024>; var<workgroup> b: atomic<u32>;", QUIRE_LIMIT,
     "take 16400 bytes"},
    {"var<workgroup> a: array<vec4f, 1024>; var<private> b: array<f32, 100>;", QUIRE_OK, ""},
    {"var<workgroup> a: array<f32, 99999999999999999999>;", QUIRE_OK, ""}, /* not understood */
    {"var<workgroup> a: array<array<f32, 4000000000>, 4000000000>;", QUIRE_OK, ""},
    {"var<workgroup> a: array<Unknown, N * 2>;", QUIRE_OK, ""},
    {"var<workgroup> a: array<array<array<array<", QUIRE_OK, ""},
};

static void test_cases(void **state) {
  (void)state;
  quire_webgpu gpu;
  memset(&gpu, 0, sizeof gpu);
  gpu.limits.maxComputeWorkgroupStorageSize = 16384;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    quire_error error = {QUIRE_OK, "", "", ""};
    const quire_status status =
        quire_webgpu_check_shader(&gpu, cases[i].text, strlen(cases[i].text), "pass", &error);
    if (status != cases[i].status || strstr(error.message, cases[i].message) == NULL) {
      fail_msg("%s\n%s: %s", cases[i].text, quire_status_name(status), error.message);
    }
  }
}

/* Brackets and types nested without end, and every prefix of a text that has it all. */
static void test_hostile(void **state) {
  (void)state;
  static char text[100000];
  quire_webgpu gpu;
  quire_error error;
  memset(&gpu, 0, sizeof gpu);
  gpu.limits.maxComputeWorkgroupStorageSize = 16384;
  static const char *const repeated[] = {
      "(", "[", "f(&", "array<", "vec4<", "/*", "var<workgroup> a: "};
  for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
    const size_t length = strlen(repeated[i]);
    for (size_t at = 0; at + length < sizeof text; at += length) {
      memcpy(text + at, repeated[i], length);
    }
    (void)quire_webgpu_check_shader(&gpu, text, sizeof text - 1, "pass", &error);
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (size_t length = 0; length < strlen(cases[i].text); length++) {
      (void)quire_webgpu_check_shader(&gpu, cases[i].text, length, "pass", &error);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_hostile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
