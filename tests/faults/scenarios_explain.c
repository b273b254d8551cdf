/* Explanations and shaders. */
#include <string.h>

#include "fault_forms.h"

typedef struct explanation {
  const fault_form *form;
  quire_explain_format format;
  bool described; /* for a device that is not there */
} explanation;

static const char *const features[] = {"shader-f16", "subgroups"};
static const quire_named_value limits[] = {
    {"maxComputeWorkgroupStorageSize", QUIRE_VALUE_TYPE_INT, 32768, 0, NULL}};
static const quire_named_value adapter[] = {{"type", QUIRE_VALUE_TYPE_STRING, 0, 0, "CPU"},
                                            {"subgroupMinSize", QUIRE_VALUE_TYPE_INT, 8, 0, NULL}};
static const quire_device_description webgpu = {sizeof webgpu, "webgpu", features, 2,
                                                limits,        1,        adapter,  2};

static const char request_text[] =
    "{\"inputs\": {\"output_a\": {\"dtype\": \"float16\", \"shape\": [2, 3, 4]},"
    " \"softmax_lse_a\": {\"dtype\": \"float32\", \"shape\": [2, 3]},"
    " \"output_b\": {\"dtype\": \"float16\", \"shape\": [2, 3, 4], \"strides\": [12, 4, 1]},"
    " \"softmax_lse_b\": {\"dtype\": \"float32\", \"shape\": [2, 3]}},"
    " \"outputs\": {\"output\": {\"dtype\": \"float16\"}, \"softmax_lse\": {}},"
    " \"attributes\": {}, \"tunables\": {}, \"dtypes\": {\"E\": \"float16\"},"
    " \"device\": {\"backend\": \"webgpu\", \"features\": [\"shader-f16\", \"subgroups\"],"
    "  \"limits\": {\"maxBufferSize\": 1000000}, \"adapterInfo\": {\"type\": \"CPU\", \"size\": "
    "8}}}";

static const quire_operator *merge_operator(const fault_world *world) {
  return quire_context_find_operator(world->context, "quire.MergeAttentionStates");
}

static quire_status explain(fault_world *world, quire_error *error) {
  const explanation *what = world->scenario->argument;
  const quire_request request = fault_request(what->form);
  return quire_explain(fault_operator(world, what->form), what->described ? NULL : world->device,
                       what->described ? &webgpu : NULL, &request, what->format, fault_write, world,
                       error);
}

/* Over the description of a device that is there, as far as it differs. */
static quire_status explain_laid_over(fault_world *world, quire_error *error) {
  const quire_request request = fault_request(&fault_linear_form);
  quire_device_description description = webgpu;
  description.backend = world->device_name;
  return quire_explain(fault_operator(world, &fault_linear_form), world->device, &description,
                       &request, QUIRE_EXPLAIN_TEXT, fault_write, world, error);
}

static quire_status explain_json(fault_world *world, quire_error *error) {
  int refused = 0;
  return quire_explain_json(merge_operator(world), request_text, sizeof request_text - 1,
                            QUIRE_EXPLAIN_JSON, fault_write, world, &refused, error);
}

static quire_status explain_bad_json(fault_world *world, quire_error *error) {
  static const char text[] = "{\"inputs\": {\"output_a\": {\"dtype\": \"float16\", \"shape\": [2,}";
  return quire_explain_json(merge_operator(world), text, sizeof text - 1, QUIRE_EXPLAIN_TEXT,
                            fault_write, world, NULL, error);
}

static quire_status render(fault_world *world, quire_error *error) {
  const quire_request request = fault_request(world->scenario->argument);
  return quire_render(fault_operator(world, world->scenario->argument), NULL, &webgpu, &request,
                      NULL, fault_write, world, error);
}

static quire_status render_json(fault_world *world, quire_error *error) {
  return quire_render_json(merge_operator(world), request_text, sizeof request_text - 1, "0",
                           fault_write, world, error);
}

/* ---- what manifests rarely have ---- */

static const char rare_text[] =
    "{\"domain\": \"test\", \"name\": \"Rare\", \"sinceVersion\": 1,"
    " \"inputs\": {\"x\": {\"dtype\": \"float32\", \"rank\": 1}},"
    " \"outputs\": {\"y\": {\"dtype\": \"float32\", \"shape\": \"shapes.x\"}},"
    " \"attributes\": {\"a\": {\"default\": 1}},"
    " \"derive\": {\"quoted\": \"'it\\\\'s'\", \"n\": \"dim(shapes.x, 0)\","
    "  \"deep\": \"[n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, "
    "[n, [n,"
    " [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, [n, "
    "n]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\"},"
    " \"contract\": ["
    "  {\"rule\": \"R1\", \"status\": \"BAD_VALUE\", \"subject\": \"x\", \"require\": "
    "\"deep != [1] and (attrs.a == 1 or numel(deep) > 0)\"},"
    "  {\"rule\": \"R2\", \"status\": \"BAD_SHAPE\", \"subject\": \"x\", \"require\": \"n > 5 or "
    "attrs.a > 9 or quoted "
    "== 'x'\"}],"
    " \"variants\": [{\"id\": \"only\", \"passes\": [{\"id\": \"one\", \"shader\": "
    "\"rare.wgsl.jinja\","
    "  \"bindings\": [\"x\", \"y\", {\"name\": \"params\", \"struct\": ["
    "   {\"name\": \"n\", \"type\": \"u32\", \"value\": \"n\"}]}], \"dispatch\": {\"x\": 1}}]}]}";

static quire_status read_rare(void *user, const char *path, quire_write_function *write,
                              void *write_user) {
  static const char text[] = "// {{ bindings.params.fields | join(\"+\") }} {{ quoted }}\n";
  (void)user;
  (void)path;
  write(write_user, text, sizeof text - 1);
  return QUIRE_OK;
}

static quire_status load_rare(fault_world *world, quire_error *error) {
  quire_package_options options;
  quire_package_options_init(&options);
  options.read = read_rare;
  return quire_operator_load_package(world->context, rare_text, sizeof rare_text - 1, &options,
                                     &world->op, error);
}

static void make_rare(fault_world *world) {
  quire_error error;
  fault_must(load_rare(world, &error), &error);
}

static quire_status explain_rare(fault_world *world, quire_error *error) {
  const char *text = world->scenario->argument;
  return quire_explain_json(world->op, text, strlen(text), QUIRE_EXPLAIN_TEXT, fault_write, world,
                            NULL, error);
}

static quire_status render_rare(fault_world *world, quire_error *error) {
  const char *text = world->scenario->argument;
  return quire_render_json(world->op, text, strlen(text), NULL, fault_write, world, error);
}

#define RARE(shape, a)                                               \
  "{\"inputs\": {\"x\": {\"dtype\": \"float32\", \"shape\": [" shape \
  "]}}, \"attributes\": "                                            \
  "{\"a\": " a "}}"

static const explanation cpu_text = {&fault_paged_form, QUIRE_EXPLAIN_TEXT, false};
static const explanation cpu_json = {&fault_linear_form, QUIRE_EXPLAIN_JSON, false};
static const explanation webgpu_text = {&fault_linear_form, QUIRE_EXPLAIN_TEXT, true};
static const explanation webgpu_json = {&fault_decode_form, QUIRE_EXPLAIN_JSON, true};
static const explanation strided_text = {&fault_strided_form, QUIRE_EXPLAIN_TEXT, false};
static const explanation refused_text = {&fault_refused_form, QUIRE_EXPLAIN_TEXT, false};
static const explanation refused_json = {&fault_refused_form, QUIRE_EXPLAIN_JSON, true};

static const fault_scenario items[] = {
    {.name = "explain", .functions = "quire_explain", .call = explain, .argument = &cpu_text},
    {.name = "explain in JSON",
     .functions = "quire_explain",
     .call = explain,
     .argument = &cpu_json},
    {.name = "explain for WebGPU",
     .functions = "quire_explain",
     .call = explain,
     .argument = &webgpu_text},
    {.name = "explain for WebGPU in JSON",
     .functions = "quire_explain",
     .call = explain,
     .argument = &webgpu_json},
    {.name = "explain strided tensors",
     .functions = "quire_explain",
     .call = explain,
     .argument = &strided_text,
     .expected = FAULT_ANY_STATUS}, /* WebGPU has no variant for it */
    {.name = "explain a refusal",
     .functions = "quire_explain",
     .call = explain,
     .argument = &refused_text,
     .expected = QUIRE_BAD_ATTRIBUTE},
    {.name = "explain a refusal in JSON",
     .functions = "quire_explain",
     .call = explain,
     .argument = &refused_json,
     .expected = QUIRE_BAD_ATTRIBUTE},
    {.name = "explain with a description over it",
     .functions = "quire_explain",
     .call = explain_laid_over},
    {.name = "explain from JSON", .functions = "quire_explain_json", .call = explain_json},
    {.name = "explain from JSON with a fault",
     .functions = "quire_explain_json",
     .call = explain_bad_json,
     .expected = QUIRE_BAD_REQUEST},
    {.name = "render paged_attention",
     .functions = "quire_render",
     .call = render,
     .argument = &fault_paged_form},
    {.name = "render linear_attention",
     .functions = "quire_render",
     .call = render,
     .argument = &fault_linear_form},
    {.name = "render paged_decode",
     .functions = "quire_render",
     .call = render,
     .argument = &fault_decode_form},
    {.name = "render from JSON", .functions = "quire_render_json", .call = render_json},
    {.name = "load what is rare", .functions = "quire_operator_load_package", .call = load_rare},
    {.name = "explain an error in a rule",
     .functions = "quire_explain_json",
     .make = make_rare,
     .call = explain_rare,
     .argument = RARE("6", "0"),
     .expected = QUIRE_BAD_VALUE},
    {.name = "explain alternatives",
     .functions = "quire_explain_json",
     .make = make_rare,
     .call = explain_rare,
     .argument = RARE("3", "1"),
     .expected = QUIRE_BAD_SHAPE},
    {.name = "render the fields of a struct",
     .functions = "quire_render_json",
     .make = make_rare,
     .call = render_rare,
     .argument = RARE("6", "1")},
};

const fault_scenarios fault_explain_scenarios = {items, sizeof items / sizeof *items};
