#include "contract_changes.h"

#include <stdbool.h>
#include <string.h>

#include "cpu_device.h"

enum { MAX_TENSORS = 20, MAX_ATTRIBUTES = 8 };

typedef struct request {
  quire_request request;
  quire_request_tensor inputs[MAX_TENSORS], outputs[6];
  int64_t shapes[MAX_TENSORS + 6][4], strides[MAX_TENSORS][4];
  quire_named_value attributes[MAX_ATTRIBUTES];
} request;

static void put_tensor(quire_request_tensor *tensor, int64_t shape[4], const contract_form *f) {
  for (size_t i = 0; i < 4; ++i) {
    shape[i] = f->shape[i];
  }
  tensor->name = f->name;
  tensor->dtype = f->dtype;
  tensor->ndim = f->ndim;
  tensor->shape = shape;
}

static void request_init(const contract_legal *l, request *r) {
  memset(r, 0, sizeof *r);
  quire_request_init(&r->request);
  for (size_t i = 0; i < l->input_count; ++i) {
    put_tensor(&r->inputs[i], r->shapes[i], &l->inputs[i]);
  }
  for (size_t i = 0; i < l->attribute_count; ++i) {
    r->attributes[i] = l->attributes[i];
  }
  r->request.inputs = r->inputs;
  r->request.input_count = l->input_count;
  r->request.outputs = r->outputs;
  r->request.attributes = r->attributes;
  r->request.attribute_count = l->attribute_count;
}

static size_t find_input(const request *r, const char *name) {
  for (size_t i = 0; i < r->request.input_count; ++i) {
    if (strcmp(r->inputs[i].name, name) == 0) {
      return i;
    }
  }
  fail_msg("no input %s", name);
  return 0;
}

static void set_attribute(request *r, const contract_change *c) {
  size_t i = 0;
  while (i < r->request.attribute_count && strcmp(r->attributes[i].name, c->name) != 0) {
    ++i;
  }
  r->request.attribute_count += i == r->request.attribute_count;
  assert_true(i < MAX_ATTRIBUTES);
  quire_named_value *attribute = &r->attributes[i];
  attribute->name = c->name;
  attribute->i = c->value;
  attribute->f = c->number;
  attribute->s = c->text;
  attribute->type = strcmp(c->what, "int") == 0     ? QUIRE_VALUE_TYPE_INT
                    : strcmp(c->what, "float") == 0 ? QUIRE_VALUE_TYPE_FLOAT
                                                    : QUIRE_VALUE_TYPE_STRING;
}

static void drop_attribute(request *r, const char *name) {
  for (size_t i = 0; i < r->request.attribute_count; ++i) {
    if (strcmp(r->attributes[i].name, name) == 0) {
      r->attributes[i] = r->attributes[--r->request.attribute_count];
      return;
    }
  }
  fail_msg("no attribute %s", name);
}

static void change_input(request *r, const contract_change *c) {
  const size_t i = find_input(r, c->name);
  quire_request_tensor *tensor = &r->inputs[i];
  if (strcmp(c->what, "drop") == 0) {
    *tensor = r->inputs[--r->request.input_count];
  } else if (strcmp(c->what, "type") == 0) {
    tensor->dtype = (quire_dtype)c->axis;
  } else if (strcmp(c->what, "dim") == 0) {
    r->shapes[i][c->axis] = c->value;
  } else if (strcmp(c->what, "rank") == 0) {
    tensor->ndim = (int32_t)c->value;
  } else if (strcmp(c->what, "stride") == 0) {
    int64_t stride = 1;
    for (int32_t axis = tensor->ndim; axis-- > 0;) {
      r->strides[i][axis] = stride;
      stride *= r->shapes[i][axis];
    }
    r->strides[i][c->axis] = c->value;
    tensor->strides = r->strides[i];
  } else {
    fail_msg("no change %s", c->what);
  }
}

static void apply(const contract_legal *l, request *r, const contract_change *c) {
  if (strcmp(c->what, "int") == 0 || strcmp(c->what, "float") == 0 ||
      strcmp(c->what, "text") == 0) {
    set_attribute(r, c);
  } else if (strcmp(c->what, "without") == 0) {
    drop_attribute(r, c->name);
  } else if (strcmp(c->what, "add") == 0) {
    const size_t i = r->request.input_count++;
    put_tensor(&r->inputs[i], r->shapes[i], &l->extras[c->axis]);
  } else if (strcmp(c->what, "out") == 0) {
    const size_t i = r->request.output_count++;
    put_tensor(&r->outputs[i], r->shapes[MAX_TENSORS + i], &l->extras[c->axis]);
  } else {
    change_input(r, c);
  }
}

static bool is_expected(const contract_change *c, quire_status status, const quire_error *error) {
  const char *subject = c->subject != NULL ? c->subject : c->name;
  return status == c->status && (status == QUIRE_OK || (c->rule != NULL && subject != NULL &&
                                                        strcmp(error->rule, c->rule) == 0 &&
                                                        strcmp(error->subject, subject) == 0));
}

void contract_check(const contract_legal *l, const contract_change *changes, size_t count) {
  cpu_device cpu = cpu_open(NULL, NULL);
  quire_error error;
  const quire_operator *op = quire_context_find_operator(cpu.context, l->op);
  assert_non_null(op);
  for (size_t i = 0; i < count; ++i) {
    const contract_change *c = &changes[i];
    request r;
    request_init(l, &r);
    /* Rows without a status belong to the next one that has a status. */
    while (c->status == QUIRE_OK && c->rule != NULL) {
      apply(l, &r, c);
      c = &changes[++i];
    }
    if (c->what != NULL) {
      apply(l, &r, c);
    }
    quire_plan *plan = NULL;
    memset(&error, 0, sizeof error);
    const quire_status status = quire_plan_create(cpu.device, op, &r.request, &plan, &error);
    if (!is_expected(c, status, &error)) {
      fail_msg("row %zu, %s %s: %s, rule '%s', subject '%s': %s\nnot %s, '%s'", i,
               c->what != NULL ? c->what : "legal", c->name != NULL ? c->name : "",
               quire_status_name(status), error.rule, error.subject, error.message,
               quire_status_name(c->status), c->rule != NULL ? c->rule : "");
    }
    quire_plan_release(plan);
  }
  cpu_close(&cpu);
}
