/* The public calls that print shaders. */
#include <string.h>

#include "described_target.h"
#include "error.h"
#include "template.h"

/* Id, or number from 0; -1: there is none. */
static int64_t find_pass(const quire_manifest_variant *variant, const char *pass) {
  int64_t number = 0;
  for (size_t i = 0; i < variant->pass_count; i++) {
    if (strcmp(variant->passes[i].id, pass) == 0) {
      return (int64_t)i;
    }
  }
  for (const char *c = pass; *c != '\0'; c++) {
    if (*c < '0' || *c > '9' || number > (int64_t)variant->pass_count) {
      return -1;
    }
    number = number * 10 + (*c - '0');
  }
  return *pass != '\0' && number < (int64_t)variant->pass_count ? number : -1;
}

static quire_status render_one(const quire_operator *op, const quire_plan_description *description,
                               const char *pass, quire_text *out, quire_error *error) {
  const quire_manifest_variant *variant = quire_described_variant(description);
  int64_t index = find_pass(variant, pass);
  if (index < 0) {
    return quire_fail(error, QUIRE_NOT_FOUND, NULL, "pass", "variant %s has no pass `%s`",
                      variant->id, pass);
  }
  if (variant->passes[index].shader == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "pass",
                      "%s of variant %s is the native kernel %s, no shader",
                      variant->passes[index].id, variant->id, variant->passes[index].native);
  }
  return quire_template_render(description, (size_t)index, op->templates, out, error);
}

static quire_status render_all(const quire_operator *op, const quire_plan_description *description,
                               quire_text *out, quire_error *error) {
  const quire_manifest_variant *variant = quire_described_variant(description);
  bool any = false;
  for (size_t i = 0; i < variant->pass_count; i++) {
    if (variant->passes[i].shader == NULL) {
      continue;
    }
    quire_text_format(out, "%s// pass %zu: %s\n", any ? "\n" : "", i, variant->passes[i].id);
    any = true;
    QUIRE_TRY(quire_template_render(description, i, op->templates, out, error));
  }
  if (!any) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "pass", "variant %s has native kernels only",
                      variant->id);
  }
  return QUIRE_OK;
}

static quire_status render_to(const quire_operator *op, quire_described_call *call,
                              const char *pass, quire_write_function *write, void *user,
                              quire_error *error) {
  quire_plan_description description;
  QUIRE_TRY(quire_plan_describe(op->manifest, call->request, call->target, &call->arena,
                                &description, error));
  quire_text text;
  quire_text_init(&text, op->owner->allocator);
  quire_status status = pass != NULL ? render_one(op, &description, pass, &text, error)
                                     : render_all(op, &description, &text, error);
  if (status == QUIRE_OK && text.failed) {
    status = quire_fail_memory(error);
  }
  if (status == QUIRE_OK) {
    write(user, quire_text_view(&text), text.length);
  }
  quire_text_release(&text);
  return status;
}

quire_status quire_render(const quire_operator *op, quire_device *device,
                          const quire_device_description *description, const quire_request *request,
                          const char *pass, quire_write_function *write, void *user,
                          quire_error *error) {
  quire_described_call call;
  quire_status status = quire_describe_call(op, device, description, request, write, &call, error);
  if (status == QUIRE_OK) {
    status = render_to(op, &call, pass, write, user, error);
  }
  quire_described_call_release(&call);
  return status;
}

quire_status quire_render_json(const quire_operator *op, const char *request, size_t length,
                               const char *pass, quire_write_function *write, void *user,
                               quire_error *error) {
  quire_described_call call;
  quire_status status = quire_describe_json_call(op, request, length, write, &call, error);
  if (status == QUIRE_OK) {
    status = render_to(op, &call, pass, write, user, error);
  }
  quire_described_call_release(&call);
  return status;
}
