/* The public calls that explain plans. */
#include "described_target.h"
#include "error.h"

/* *refused: the text says why there is no plan, in place of how it is made. */
static quire_status explain_to(const quire_operator *op, const quire_described_call *call,
                               quire_explain_format format, quire_write_function *write, void *user,
                               int *refused, quire_error *error) {
  if (format != QUIRE_EXPLAIN_TEXT && format != QUIRE_EXPLAIN_JSON) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "format", "is %d, which is no format",
                      (int)format);
  }
  quire_text text;
  quire_text_init(&text, op->owner->allocator);
  quire_status status = quire_plan_explain(op->manifest, call->request, call->target, format,
                                           op->owner->allocator, &text, error);
  if (text.failed) {
    status = quire_fail_memory(error);
  } else if (text.length > 0) {
    write(user, quire_text_view(&text), text.length);
    *refused = status != QUIRE_OK;
  }
  quire_text_release(&text);
  return status;
}

quire_status quire_explain(const quire_operator *op, quire_device *device,
                           const quire_device_description *description,
                           const quire_request *request, quire_explain_format format,
                           quire_write_function *write, void *user, quire_error *error) {
  quire_described_call call;
  int refused = 0;
  quire_status status = quire_describe_call(op, device, description, request, write, &call, error);
  if (status == QUIRE_OK) {
    status = explain_to(op, &call, format, write, user, &refused, error);
  }
  quire_described_call_release(&call);
  return status;
}

quire_status quire_explain_json(const quire_operator *op, const char *request, size_t length,
                                quire_explain_format format, quire_write_function *write,
                                void *user, int *refused, quire_error *error) {
  quire_described_call call;
  int ignored = 0;
  refused = refused == NULL ? &ignored : refused;
  *refused = 0;
  quire_status status = quire_describe_json_call(op, request, length, write, &call, error);
  if (status == QUIRE_OK) {
    status = explain_to(op, &call, format, write, user, refused, error);
  }
  quire_described_call_release(&call);
  return status;
}
