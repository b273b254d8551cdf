#include <string.h>

#include "described_target.h"
#include "error.h"

static quire_status explain_to(const quire_operator *op, const quire_request *request,
                               const quire_target *target, quire_explain_format format,
                               quire_write_function *write, void *user, int *refused,
                               quire_error *error) {
  quire_text text;
  quire_text_init(&text, op->owner->allocator);
  quire_status status =
      quire_plan_explain(op->manifest, request, target, format, op->owner->allocator, &text, error);
  if (text.failed) {
    status = quire_fail_memory(error);
  } else if (text.length > 0) {
    write(user, quire_text_view(&text), text.length);
    *refused = status != QUIRE_OK;
  }
  quire_text_release(&text);
  return status;
}

static quire_status check_arguments(const quire_operator *op, const void *request,
                                    quire_write_function *write, quire_explain_format format,
                                    quire_error *error) {
  const char *missing =
      op == NULL ? "op" : (request == NULL ? "request" : (write == NULL ? "write" : NULL));
  if (missing != NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, missing, "is NULL");
  }
  if (format != QUIRE_EXPLAIN_TEXT && format != QUIRE_EXPLAIN_JSON) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "format", "is %d, which is no format",
                      (int)format);
  }
  return QUIRE_OK;
}

quire_status quire_explain(const quire_operator *op, quire_device *device,
                           const quire_device_description *description,
                           const quire_request *request, quire_explain_format format,
                           quire_write_function *write, void *user, quire_error *error) {
  QUIRE_TRY(check_arguments(op, request, write, format, error));
  if (request->struct_size < sizeof(*request)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "request", "struct_size is too small");
  }
  quire_arena arena;
  quire_arena_init(&arena, op->owner->allocator);
  quire_described_target described;
  quire_status status = quire_describe_target(op, device, description, &arena, &described, error);
  if (status == QUIRE_OK) {
    int refused = 0;
    status = explain_to(op, request, &described.target, format, write, user, &refused, error);
  }
  quire_arena_release(&arena);
  return status;
}

quire_status quire_explain_json(const quire_operator *op, const char *request, size_t length,
                                quire_explain_format format, quire_write_function *write,
                                void *user, int *refused, quire_error *error) {
  int ignored = 0;
  refused = refused == NULL ? &ignored : refused;
  *refused = 0;
  QUIRE_TRY(check_arguments(op, request, write, format, error));
  quire_arena arena;
  quire_arena_init(&arena, op->owner->allocator);
  quire_json_request parsed;
  memset(&parsed, 0, sizeof(parsed));
  quire_status status = quire_request_parse(request, length, &arena, &parsed, error);
  if (status == QUIRE_OK) {
    quire_target target;
    quire_target_init(&target, &parsed.device, op->owner->registry, QUIRE_ISA_BEST);
    status = explain_to(op, &parsed.request, &target, format, write, user, refused, error);
  }
  quire_arena_release(&arena);
  return status;
}
