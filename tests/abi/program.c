/*
 * A program that was built against the interface of Quire 0.1 and runs with today's library: no
 * function writes behind a struct as the program knows it, a call gives its result, and a struct
 * that is too small is refused.
 */
#include <stdio.h>
#include <string.h>

#include "interface_0_1.h"

enum { GUARD = 512, PATTERN = 0xC7 };

static int failures;

static void expect(int is_true, const char *what) {
  if (!is_true) {
    (void)fprintf(stderr, "not so: %s\n", what);
    failures++;
  }
}

/* A struct with bytes behind it that nobody may write. */
#define GUARDED(type)           \
  struct {                      \
    type value;                 \
    unsigned char guard[GUARD]; \
  }

static int is_whole(const unsigned char *guard) {
  for (size_t i = 0; i < GUARD; i++) {
    if (guard[i] != PATTERN) {
      return 0;
    }
  }
  return 1;
}

/* Calls NAME_init on a guarded struct `variable`. */
#define CHECK_INIT(variable, name)                                                        \
  do {                                                                                    \
    memset(&(variable), PATTERN, sizeof(variable));                                       \
    name##_init(&(variable).value);                                                       \
    expect((variable).value.struct_size == sizeof(name), #name " has its size");          \
    expect(is_whole((variable).guard), #name "_init() writes nothing behind the struct"); \
  } while (0)

static float query[1][2] = {{1, 0}}, keys[1][1][2][2], values[1][1][2][2] = {{{{1, 2}, {3, 4}}}};
static float output[1][2];
static int32_t table[1][1], lengths[1] = {2};

static void fill(quire_paged_decode_args *args, quire_workspace *workspace) {
  static const int64_t query_shape[] = {1, 1, 2}, pages[] = {1, 1, 2, 2}, one[] = {1, 1};
  args->query = (quire_tensor){query, 0, 1, 3, query_shape, NULL};
  args->key_pages = (quire_tensor){keys, 0, 1, 4, pages, NULL};
  args->value_pages = (quire_tensor){values, 0, 1, 4, pages, NULL};
  args->page_table = (quire_tensor){table, 0, 7, 2, one, NULL};
  args->context_lengths = (quire_tensor){lengths, 0, 7, 1, one, NULL};
  args->output = (quire_tensor){output, 0, 1, 3, query_shape, NULL};
  args->scale = 1;
  args->workspace = workspace;
}

static void decode(quire_device *device, quire_workspace *workspace) {
  quire_error error;
  GUARDED(quire_paged_decode_args) args;
  CHECK_INIT(args, quire_paged_decode_args);
  fill(&args.value, workspace);
  const quire_status status = quire_paged_decode(device, &args.value, &error);
  expect(status == 0, status == 0 ? "" : error.message);
  expect(output[0][0] == 2 && output[0][1] == 3, "two equal keys give the mean of their values");
  args.value.struct_size--;
  expect(quire_paged_decode(device, &args.value, &error) == 13, "a smaller struct is refused");
  expect(error.status == 13 && strstr(error.message, "struct_size") != NULL,
         "and the error says so");
}

int main(void) {
  quire_error error = {0, "", "", ""};
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_workspace *workspace = NULL;
  GUARDED(quire_context_options) context_options;
  GUARDED(quire_device_options) device_options;
  GUARDED(quire_workspace_options) workspace_options;
  GUARDED(quire_run_options) run_options;
  GUARDED(quire_workspace_counters) counters;
  CHECK_INIT(context_options, quire_context_options);
  CHECK_INIT(device_options, quire_device_options);
  CHECK_INIT(workspace_options, quire_workspace_options);
  CHECK_INIT(run_options, quire_run_options);
  device_options.value.threads = 2;
  if (quire_context_create(&context_options.value, &context, &error) != 0 ||
      quire_device_open(context, "cpu", &device_options.value, &device, &error) != 0 ||
      quire_workspace_create(device, &workspace_options.value, &workspace, &error) != 0) {
    (void)fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  decode(device, workspace);
  memset(&counters, PATTERN, sizeof counters);
  quire_workspace_get_counters(workspace, &counters.value);
  expect(counters.value.prepared == 1 && is_whole(counters.guard), "the counters fit");
  quire_workspace_release(workspace);
  quire_device_release(device);
  quire_context_release(context);
  return failures == 0 ? 0 : 1;
}
