#include "template_fixture.h"

#include <stdio.h>
#include <string.h>

static const char manifest_text[] =
    "{\"domain\": \"test\", \"name\": \"Probe\", \"sinceVersion\": 1,"
    " \"inputs\": {\"x\": {\"dtype\": \"T\", \"rank\": 2},"
    "              \"bias\": {\"dtype\": \"T\", \"rank\": 1, \"optional\": true}},"
    " \"outputs\": {\"y\": {\"dtype\": \"T\", \"shape\": \"shapes.x\"}},"
    " \"attributes\": {\"a\": {\"default\": 3}, \"s\": {\"default\": \"text\"},"
    "                  \"factor\": {\"default\": 0.5}, \"none\": {}},"
    " \"tunables\": {\"tile\": {\"default\": 4}},"
    " \"typeConstraints\": {\"T\": [\"float16\", \"float32\"]},"
    " \"derive\": {\"high\": \"dim(shapes.x, 0)\", \"columns\": \"dim(shapes.x, 1)\","
    "              \"ratio\": \"high / columns\", \"broken\": \"1 + attrs.s\","
    "              \"list\": \"[1, 2, 3]\", \"shadow\": \"\\\"kernel\\\"\","
    "              \"big\": \"9223372036854775807\", \"infinite\": \"1 / 0\"},"
    " \"variants\": [{\"id\": \"only\", \"derive\": {\"shadow\": \"\\\"variant\\\"\"},"
    "   \"tunables\": {\"tile\": 8},"
    "   \"intermediates\": [{\"id\": \"work\", \"dtype\": \"float32\", \"shape\": [\"high\"]}],"
    "   \"passes\": ["
    "     {\"id\": \"first\", \"name\": \"Probe.First\", \"shader\": \"main.wgsl.jinja\","
    "      \"derive\": {\"own\": \"columns * 2\"}, \"workgroup\": [\"attrs.a\", 2, 1],"
    "      \"bindings\": [\"x\", {\"arg\": \"bias\", \"optional\": true}, \"work\", \"y\","
    "        {\"name\": \"params\", \"struct\": [{\"name\": \"n\", \"type\": \"u32\", \"value\": "
    "\"high\"},"
    "          {\"name\": \"scale\", \"type\": \"f32\", \"value\": \"attrs.factor\"}]},"
    "        {\"name\": \"more\", \"structName\": \"More\","
    "         \"struct\": [{\"name\": \"i\", \"type\": \"i32\", \"value\": -1}]}],"
    "      \"dispatch\": {\"x\": 1}},"
    "     {\"id\": \"second\", \"shader\": \"../outside.wgsl\", \"bindings\": [\"work\"],"
    "      \"dispatch\": {\"x\": 1}}]}]}";

static const char request_text[] =
    "{\"inputs\": {\"x\": {\"dtype\": \"float16\", \"shape\": [2, 6]}}, \"attributes\": {},"
    " \"device\": {\"features\": [\"shader-f16\", \"subgroups\"],"
    " \"limits\": {\"maxNovelty\": 77}, \"adapterInfo\": {\"type\": \"CPU\"}}}";

static bool find_file(const void *user, const char *path, const char **text, size_t *length) {
  const template_world *world = user;
  for (const template_file *file = world->files; file->path != NULL; file++) {
    if (strcmp(file->path, path) == 0) {
      *text = file->text;
      *length = strlen(file->text);
      return true;
    }
  }
  return false;
}

void template_world_create(template_world *world) {
  memset(world, 0, sizeof *world);
  quire_error error;
  quire_arena_init(&world->arena, &quire_default_allocator);
  if (quire_manifest_load(&quire_default_allocator, manifest_text, strlen(manifest_text), NULL,
                          NULL, &world->manifest, &error) != QUIRE_OK) {
    fail_msg("the manifest does not load: %s", error.message);
  }
  quire_json_request *request = quire_arena_array(&world->arena, 1, sizeof *request);
  quire_target *target = quire_arena_array(&world->arena, 1, sizeof *target);
  assert_non_null(request);
  assert_non_null(target);
  if (quire_request_parse(request_text, strlen(request_text), &world->arena, request, &error) !=
      QUIRE_OK) {
    fail_msg("the request: %s", error.message);
  }
  quire_target_init(target, &request->device, NULL, QUIRE_ISA_BEST);
  if (quire_plan_describe(world->manifest, &request->request, target, &world->arena,
                          &world->description, &error) != QUIRE_OK) {
    fail_msg("the plan: %s", error.message);
  }
  world->source = (quire_template_source){find_file, world, "pack/age"};
}

void template_world_destroy(template_world *world) {
  quire_arena_release(&world->arena);
  quire_manifest_destroy(world->manifest);
}

const char *template_render_pass(template_world *world, size_t pass,
                                 const quire_allocator *allocator) {
  quire_text out;
  quire_text_init(&out, allocator);
  quire_error error = {0};
  quire_status status =
      quire_template_render(&world->description, pass, &world->source, &out, &error);
  int written = 0;
  if (status == QUIRE_OK) {
    written = snprintf(world->result, sizeof world->result, "%s", quire_text_view(&out));
  } else {
    written = snprintf(world->result, sizeof world->result, "%s %s", quire_status_name(status),
                       error.message);
    assert_int_equal(out.length, 0);
  }
  quire_text_release(&out);
  assert_true(written >= 0 && (size_t)written < sizeof world->result);
  return world->result;
}

const char *template_render(template_world *world, const char *text) {
  static const char quiet[] = "{% set unused = env.wgsl.resourceDeclarations %}\n";
  static char all[1 << 14];
  assert_true(strlen(text) + sizeof quiet < sizeof all);
  (void)snprintf(all, sizeof all, "%s%s", quiet, text);
  world->files[0] = (template_file){"pack/age/main.wgsl.jinja", all};
  return template_render_pass(world, 0, &quire_default_allocator);
}
