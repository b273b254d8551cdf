/* quire ops, quire devices, quire version: what is there. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "commands.h"
#include "failure.h"
#include "quire/webgpu.h"

/* Opens a session and prints. */
static int with_session(const quire_text_list *names,
                        int (*print)(quire_session *, const quire_text_list *)) {
  quire_session session;
  quire_error error;
  if (quire_session_open(&session, &error) != QUIRE_OK) {
    quire_failure_print(NULL, &error);
    return QUIRE_EXIT_FAILURE;
  }
  const int code = print(&session, names);
  quire_session_close(&session);
  return code;
}

static void print_value(const quire_named_value *value) {
  switch (value->type) {
    case QUIRE_VALUE_TYPE_INT:
      printf("%" PRId64, value->i);
      break;
    case QUIRE_VALUE_TYPE_BOOL:
      printf("%s", value->i ? "true" : "false");
      break;
    case QUIRE_VALUE_TYPE_FLOAT:
      printf("%.9g", value->f);
      break;
    case QUIRE_VALUE_TYPE_STRING:
      printf("\"%s\"", value->s);
      break;
    case QUIRE_VALUE_TYPE_NONE:
      printf("none");
      break;
  }
}

static void print_slots(const quire_operator *op) {
  for (size_t i = 0; i < quire_operator_slot_count(op); ++i) {
    quire_slot slot;
    quire_slot input;
    if (quire_operator_slot(op, i, &slot) != QUIRE_OK) {
      continue;
    }
    printf("  %2zu %-6s %s", i, slot.is_output ? "output" : "input", slot.name);
    if (strcmp(slot.name, slot.key) != 0 && slot.alias < 0) {
      printf(" (manifest key %s)", slot.key);
    }
    if (slot.alias >= 0 && quire_operator_slot(op, (size_t)slot.alias, &input) == QUIRE_OK) {
      printf(" (%s updated in place)", input.name);
    } else if (slot.is_optional) {
      printf(" (optional)");
    }
    printf("\n");
  }
}

static void print_attributes(const quire_operator *op) {
  static const char *const kinds[] = {"any", "int", "float", "string", "bool"};
  for (size_t i = 0; i < quire_operator_attribute_count(op); ++i) {
    quire_named_value attribute;
    quire_value_type type = QUIRE_VALUE_TYPE_NONE;
    if (quire_operator_attribute(op, i, &attribute, &type) == QUIRE_OK) {
      printf("  attribute %s: %s, default ", attribute.name, kinds[type]);
      print_value(&attribute);
      printf("\n");
    }
  }
}

static void print_operator(const quire_operator *op) {
  printf("%s version %" PRId64 "\n", quire_operator_name(op), quire_operator_since_version(op));
  for (size_t i = 0; i < quire_operator_variant_count(op); ++i) {
    printf("  variant %s (%s)\n", quire_operator_variant_name(op, i),
           quire_operator_variant_backend(op, i));
  }
  print_slots(op);
  print_attributes(op);
}

static int print_ops(quire_session *session, const quire_text_list *names) {
  quire_error error;
  for (size_t i = 0; i < names->count; ++i) {
    const quire_operator *op = quire_context_find_operator(session->context, names->items[i]);
    if (!op) {
      quire_failure_set(&error, QUIRE_NOT_FOUND, "no such operator");
      quire_failure_print(names->items[i], &error);
      return QUIRE_EXIT_FAILURE;
    }
    print_operator(op);
  }
  for (size_t i = 0; names->count == 0 && i < quire_context_operator_count(session->context); ++i) {
    print_operator(quire_context_operator(session->context, i));
  }
  return QUIRE_EXIT_OK;
}

static int run_ops(void *const *values, const quire_text_list *positional) {
  (void)values;
  return with_session(positional, print_ops);
}

const quire_command quire_command_ops = {
    .name = "ops",
    .summary = "Lists the built-in operators with their variants, slots and attributes.",
    .usage = "[OPERATOR...]",
    .positional_maximum = 100000,
    .positional_name = "OPERATOR",
    .run = run_ops,
};

static void print_description(const quire_device_description *description) {
  printf("  features:");
  for (size_t i = 0; i < description->feature_count; ++i) {
    printf(" %s", description->features[i]);
  }
  printf("%s\n", description->feature_count ? "" : " none");
  if (description->limit_count == 0) {
    printf("  limits: none\n");
  }
  for (size_t i = 0; i < description->limit_count; ++i) {
    printf("  limit %s: ", description->limits[i].name);
    print_value(&description->limits[i]);
    printf("\n");
  }
  for (size_t i = 0; i < description->adapter_count; ++i) {
    printf("  adapter %s: ", description->adapter[i].name);
    print_value(&description->adapter[i]);
    printf("\n");
  }
}

static void print_device(quire_session *session, const char *name) {
  quire_call_options options = {.device = name};
  quire_error error;
  if (quire_session_open_device(session, &options, &error) != QUIRE_OK) {
    char text[QUIRE_MESSAGE_SIZE + 64];
    quire_failure_text(&error, text, sizeof text);
    printf("%s: not usable: %s\n", name, text);
    return;
  }
  quire_device_facts facts;
  quire_device_get_facts(session->device, &facts);
  printf("%s: %s\n", facts.name, facts.model[0] ? facts.model : "unknown model");
  if (facts.threads > 0) {
    printf("  threads: %zu\n", facts.threads);
    printf("  instruction set in use: %s\n", facts.isa);
    printf("  caches: level 1 %zu KiB, level 2 %zu KiB, level 3 %zu KiB\n", facts.l1_bytes / 1024,
           facts.l2_bytes / 1024, facts.l3_bytes / 1024);
  }
  print_description(quire_device_describe(session->device));
  quire_device_release(session->device);
  session->device = NULL;
}

static void print_adapter(void *user, const quire_webgpu_adapter *adapter) {
  (void)user;
  printf("  --adapter %d: %s (%s, %s)%s%s\n", (int)adapter->index, adapter->name, adapter->type,
         adapter->backend, adapter->driver[0] ? ", " : "", adapter->driver);
}

static int print_devices(quire_session *session, const quire_text_list *names) {
  (void)names;
  for (size_t i = 0; quire_device_name(i); ++i) {
    print_device(session, quire_device_name(i));
    if (!strcmp(quire_device_name(i), "webgpu")) {
      (void)quire_webgpu_list_adapters(NULL, print_adapter, NULL, NULL);
    }
  }
  return QUIRE_EXIT_OK;
}

static int run_devices(void *const *values, const quire_text_list *positional) {
  (void)values;
  return with_session(positional, print_devices);
}

const quire_command quire_command_devices = {
    .name = "devices",
    .summary = "Lists the devices of this machine with their features, limits and cache sizes.",
    .usage = "",
    .run = run_devices,
};

static int print_version(quire_session *session, const quire_text_list *names) {
  (void)session;
  (void)names;
  printf("quire %s\n", quire_version());
  return QUIRE_EXIT_OK;
}

static int run_version(void *const *values, const quire_text_list *positional) {
  (void)values;
  return with_session(positional, print_version);
}

const quire_command quire_command_version = {
    .name = "version",
    .summary = "Prints the version.",
    .usage = "",
    .run = run_version,
};
