#include "isolation_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quire/webgpu.h"

/* A GPU's tensor begins behind canaries, where a storage binding may begin. */
enum { GPU_OFFSET = 256, MOST_SLOTS = 48 };

volatile const char *iso_running;
static char running_text[256];

/* ---- devices ---- */

static bool open_device(iso_bench *bench, const char *name, quire_isa isa, size_t threads) {
  iso_device *one = &bench->devices[bench->device_count];
  quire_device_options options;
  quire_error error;
  quire_device_options_init(&options);
  options.isa = isa;
  options.threads = threads;
  *one = (iso_device){0};
  const quire_status status = quire_device_open(bench->context, bench->is_gpu ? "webgpu" : "cpu",
                                                &options, &one->device, &error);
  if (status != QUIRE_OK) {
    print_message("%s: %s\n", name, error.message);
    return false;
  }
  one->name = name;
  bench->device_count += 1;
  return true;
}

static void open_buffers(iso_bench *bench) {
  quire_error error;
  const size_t bytes = ISO_MOST_BYTES + 2 * GPU_OFFSET;
  for (int i = 0; i <= ISO_TENSORS; ++i) {
    void **buffer = i < ISO_TENSORS ? &bench->buffers[i] : &bench->transfer;
    if (quire_buffer_create(bench->devices[0].device, i < ISO_TENSORS ? bytes : bytes * ISO_TENSORS,
                            buffer, &error) != QUIRE_OK) {
      fail_msg("%s", error.message);
    }
  }
  bench->sent = malloc(bytes * ISO_TENSORS);
  bench->got = malloc(bytes * ISO_TENSORS);
  assert_non_null(bench->sent);
  assert_non_null(bench->got);
}

bool iso_bench_open(iso_bench *bench, bool is_gpu) {
  quire_error error;
  *bench = (iso_bench){.is_gpu = is_gpu};
  if (quire_context_create(NULL, &bench->context, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  if (is_gpu) {
    if (!open_device(bench, "webgpu", QUIRE_ISA_BEST, 0)) {
      return false;
    }
    open_buffers(bench);
  } else {
    (void)open_device(bench, "scalar", QUIRE_ISA_SCALAR, 1);
    (void)open_device(bench, "avx2", QUIRE_ISA_AVX2, 1);
    (void)open_device(bench, "avx512", QUIRE_ISA_AVX512, 2);
    (void)open_device(bench, "neon", QUIRE_ISA_NEON, 2);
    for (int i = 0; i < ISO_TENSORS; ++i) {
      iso_arena_open(&bench->arenas[i], ISO_MOST_BYTES);
    }
  }
  for (int i = 0; i < ISO_TENSORS; ++i) {
    bench->expected[i] = malloc(ISO_MOST_BYTES);
    assert_non_null(bench->expected[i]);
  }
  return bench->device_count > 0;
}

void iso_bench_forget(iso_bench *bench) {
  for (int i = 0; i < bench->device_count; ++i) {
    quire_workspace_release(bench->devices[i].workspace);
    quire_plan_release(bench->devices[i].plan);
    bench->devices[i].workspace = NULL;
    bench->devices[i].plan = NULL;
    iso_arena_close(&bench->devices[i].scratch);
  }
}

void iso_bench_close(iso_bench *bench) {
  iso_bench_forget(bench);
  for (int i = 0; i < ISO_TENSORS; ++i) {
    free(bench->expected[i]);
    iso_arena_close(&bench->arenas[i]);
    quire_buffer_destroy(bench->devices[0].device, bench->buffers[i]);
  }
  quire_buffer_destroy(bench->devices[0].device, bench->transfer);
  free(bench->sent);
  free(bench->got);
  for (int i = 0; i < bench->device_count; ++i) {
    quire_device_release(bench->devices[i].device);
  }
  quire_context_release(bench->context);
}

/* ---- planning ---- */

static quire_status create_plan(iso_device *device, const quire_operator *op, const iso_call *call,
                                quire_error *error) {
  quire_request_tensor inputs[ISO_TENSORS], outputs[ISO_TENSORS];
  quire_request request;
  quire_request_init(&request);
  for (int i = 0; i < call->tensor_count; ++i) {
    const iso_tensor *one = &call->tensors[i];
    const quire_request_tensor form = {
        one->name, one->dtype, one->ndim, one->shape, one->is_dense ? NULL : one->strides,
        one->alias};
    if (one->is_output) {
      outputs[request.output_count++] = form;
    } else {
      inputs[request.input_count++] = form;
    }
  }
  request.inputs = inputs;
  request.outputs = outputs;
  request.attributes = call->attributes;
  request.attribute_count = (size_t)call->attribute_count;
  return quire_plan_create(device->device, op, &request, &device->plan, error);
}

static void create_workspace(const iso_bench *bench, iso_device *device) {
  quire_workspace_options options;
  quire_workspace_need need;
  quire_error error;
  quire_workspace_options_init(&options);
  quire_plan_workspace(device->plan, &need);
  if (!bench->is_gpu && need.bytes > 0) {
    need.bytes = (need.bytes + 63) / 64 * 64;
    iso_arena_open(&device->scratch, need.bytes);
    options.memory = iso_arena_place(&device->scratch, need.bytes, true);
    options.bytes = need.bytes;
  }
  if (quire_workspace_create(device->device, options.memory != NULL ? &options : NULL,
                             &device->workspace, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

bool iso_bench_plan(iso_bench *bench, const iso_call *call) {
  const quire_operator *op = quire_context_find_operator(bench->context, call->op);
  if (call->run != NULL) {
    return true;
  }
  for (int i = 0; i < bench->device_count && op != NULL; ++i) {
    iso_device *device = &bench->devices[i];
    quire_error error;
    if (device->plan != NULL) {
      continue;
    }
    const quire_status status = create_plan(device, op, call, &error);
    if (bench->is_gpu && (status == QUIRE_UNSUPPORTED || status == QUIRE_LIMIT)) {
      bench->left_out += 1;
      return false;
    }
    if (status != QUIRE_OK) {
      fail_msg("%s seed %llu: %s: %s", call->op, (unsigned long long)call->seed, error.rule,
               error.message);
    }
    create_workspace(bench, device);
  }
  return op != NULL;
}

/* ---- placing data ---- */

static size_t bytes_of(const iso_tensor *tensor) {
  return tensor->span * quire_dtype_size(tensor->dtype);
}

/* How many elements from this one on are of its kind. */
static size_t run_of(const iso_tensor *tensor, size_t first) {
  size_t end = first + 1;
  while (end < tensor->span && tensor->kinds[end] == tensor->kinds[first]) {
    ++end;
  }
  return end - first;
}

/* Fills memory that begins `ahead` bytes before the tensor: secrets, and what is ISO_FIXED. */
static void fill(const iso_tensor *tensor, int world, unsigned char *memory, size_t ahead,
                 size_t bytes) {
  const size_t size = quire_dtype_size(tensor->dtype);
  iso_secrets(tensor->dtype, world, memory, bytes);
  for (size_t i = 0, count; i < tensor->span; i += count) {
    count = run_of(tensor, i);
    if ((tensor->kinds[i] & ISO_FIXED) != 0) {
      memcpy(memory + ahead + i * size, tensor->values + i * size, count * size);
    }
  }
}

static void set_tensor(const iso_call *call, const quire_operator *op, int index, void *data,
                       uint64_t offset, quire_tensor *tensors) {
  const iso_tensor *one = &call->tensors[index];
  const int32_t slot =
      call->run != NULL ? index : quire_operator_find_slot(op, one->name, one->is_output);
  assert_true(slot >= 0 && slot < MOST_SLOTS);
  tensors[slot] = (quire_tensor){data,      offset,     one->dtype,
                                 one->ndim, one->shape, one->is_dense ? NULL : one->strides};
  for (int i = 0; i < call->tensor_count; ++i) { /* who shares its buffer */
    const iso_tensor *other = &call->tensors[i];
    if (other->alias != NULL && strcmp(other->alias, one->name) == 0) {
      tensors[quire_operator_find_slot(op, other->name, 1)] = tensors[slot];
    }
  }
}

static void place(iso_bench *bench, const iso_call *call, const quire_operator *op, int world,
                  quire_tensor *tensors) {
  for (int i = 0; i < call->tensor_count; ++i) {
    const iso_tensor *one = &call->tensors[i];
    iso_arena *arena = &bench->arenas[i];
    if (one->alias != NULL) {
      continue;
    }
    const bool at_end = (call->seed >> (i % 8) & 3) != 0;
    unsigned char *data = iso_arena_place(arena, bytes_of(one), at_end);
    fill(one, world, arena->window, (size_t)(data - arena->window), arena->window_bytes);
    iso_arena_keep(arena);
    set_tensor(call, op, i, data, 0, tensors);
  }
}

static size_t gpu_bytes(const iso_tensor *tensor) {
  return (bytes_of(tensor) + 3) / 4 * 4 + (size_t)2 * GPU_OFFSET;
}

/* One write and one list of copies, however many tensors there are. */
static void send(iso_bench *bench, const iso_call *call, const quire_operator *op, int world,
                 quire_tensor *tensors) {
  quire_buffer_copy_range ranges[ISO_TENSORS];
  quire_error error;
  size_t count = 0, at = 0;
  for (int i = 0; i < call->tensor_count; ++i) {
    const iso_tensor *one = &call->tensors[i];
    if (one->alias != NULL) {
      continue;
    }
    assert_true(gpu_bytes(one) <= ISO_MOST_BYTES + 2 * GPU_OFFSET);
    fill(one, world, bench->sent + at, GPU_OFFSET, gpu_bytes(one));
    ranges[count++] =
        (quire_buffer_copy_range){bench->transfer, at, bench->buffers[i], 0, gpu_bytes(one)};
    at += gpu_bytes(one);
    set_tensor(call, op, i, bench->buffers[i], GPU_OFFSET, tensors);
  }
  quire_device *device = bench->devices[0].device;
  if (quire_buffer_write(device, bench->transfer, 0, bench->sent, at, &error) != QUIRE_OK ||
      quire_buffer_copy(device, ranges, count, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

static void receive(iso_bench *bench, const iso_call *call) {
  quire_buffer_copy_range ranges[ISO_TENSORS];
  quire_error error;
  size_t count = 0, at = 0;
  for (int i = 0; i < call->tensor_count; ++i) {
    if (call->tensors[i].alias == NULL) {
      const size_t bytes = gpu_bytes(&call->tensors[i]);
      ranges[count++] = (quire_buffer_copy_range){bench->buffers[i], 0, bench->transfer, at, bytes};
      at += bytes;
    }
  }
  quire_device *device = bench->devices[0].device;
  if (quire_buffer_copy(device, ranges, count, &error) != QUIRE_OK ||
      quire_buffer_read(device, bench->transfer, 0, bench->got, at, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

/* ---- comparison ---- */

static void expect_kept(const iso_tensor *tensor, const unsigned char *before,
                        const unsigned char *after, size_t bytes, const char *what) {
  for (size_t i = 0; i < bytes && memcmp(before, after, bytes) != 0; ++i) {
    if (before[i] != after[i]) {
      fail_msg("%s\n  %s: byte %zu of what lies %s was written", running_text, tensor->name, i,
               what);
    }
  }
}

static void fail_element(const iso_tensor *tensor, size_t first, size_t count, const void *expected,
                         const void *got, const char *what) {
  const size_t size = quire_dtype_size(tensor->dtype);
  const unsigned char *one = expected, *other = got;
  uint32_t bits[2] = {0, 0};
  size_t i = 0;
  while (i + 1 < count && memcmp(one + i * size, other + i * size, size) == 0) {
    ++i;
  }
  memcpy(&bits[0], one + i * size, size < 4 ? size : 4);
  memcpy(&bits[1], other + i * size, size < 4 ? size : 4);
  fail_msg("%s\n  %s: element %zu is %08x, not %08x: %s", running_text, tensor->name, first + i,
           bits[1], bits[0], what);
}

/* Elements after a legal call; `before` and `after` begin with the tensor. */
static void check_elements(iso_bench *bench, const iso_tensor *tensor, int index, bool is_first,
                           bool has_result, const unsigned char *before,
                           const unsigned char *after) {
  const size_t size = quire_dtype_size(tensor->dtype);
  for (size_t i = 0, count; i < tensor->span; i += count) {
    count = run_of(tensor, i);
    const unsigned kinds = tensor->kinds[i];
    const size_t at = i * size, bytes = count * size;
    unsigned char *expected = (has_result ? tensor->after : bench->expected[index]) + at;
    if ((kinds & (ISO_ANY | ISO_SAME)) == 0 && memcmp(before + at, after + at, bytes) != 0) {
      fail_element(tensor, i, count, before + at, after + at, "nobody may write it");
    }
    if ((kinds & ISO_ANY) == 0 && (kinds & ISO_SAME) != 0) {
      if (is_first && !has_result) {
        memcpy(expected, after + at, bytes);
      } else if (memcmp(expected, after + at, bytes) != 0) {
        fail_element(tensor, i, count, expected, after + at, "a secret shows");
      }
    }
  }
}

static void check(iso_bench *bench, const iso_call *call, bool is_run, bool is_first) {
  size_t at = 0;
  for (int i = 0; i < call->tensor_count; ++i) {
    const iso_tensor *one = &call->tensors[i];
    const size_t bytes = bytes_of(one);
    if (one->alias != NULL) {
      continue;
    }
    const iso_arena *arena = &bench->arenas[i];
    const unsigned char *before = bench->is_gpu ? bench->sent + at : arena->before;
    const unsigned char *after = bench->is_gpu ? bench->got + at : arena->window;
    const size_t whole = bench->is_gpu ? gpu_bytes(one) : arena->window_bytes;
    const bool at_end = (call->seed >> (i % 8) & 3) != 0;
    const size_t ahead = bench->is_gpu ? GPU_OFFSET : at_end ? whole - bytes : 0;
    const size_t end = bench->is_gpu ? whole - GPU_OFFSET : ahead + bytes;
    at += whole;
    if (!is_run) {
      expect_kept(one, before, after, whole, "within it or around");
      continue;
    }
    expect_kept(one, before, after, ahead, "before it");
    expect_kept(one, before + end, after + end, whole - end, "behind it");
    check_elements(bench, one, i, is_first, call->run != NULL, before + ahead, after + ahead);
  }
}

/* What lies before a CPU's workspace; a forbidden page follows it. */
static void check_scratch(const iso_device *device, int world) {
  unsigned char canary[ISO_CANARY_BYTES];
  const size_t bytes = device->scratch.canary_bytes;
  iso_secrets(QUIRE_FLOAT32, world, canary, bytes);
  if (bytes > 0 && memcmp(canary, device->scratch.window, bytes) != 0) {
    fail_msg("%s\n  memory before the workspace was written", running_text);
  }
}

/* ---- running ---- */

/* A tensor that is not what was planned, or lies where it must not. Returns false if none can. */
static bool spoil_tensors(iso_call *call, const quire_operator *op, quire_tensor *tensors,
                          size_t *count) {
  static const int64_t negative[QUIRE_MAX_RANK] = {-1, -1, -1, -1, -1, -1, -1, -1};
  const iso_tensor *one = &call->tensors[diff_between(&call->content, 0, call->tensor_count - 1)];
  const int32_t slot = quire_operator_find_slot(op, one->name, one->is_output);
  const int32_t other = quire_operator_find_slot(op, call->tensors[0].name, 0);
  if (one->alias != NULL || one->span == 0 || call->tensors[0].span == 0) {
    return false;
  }
  switch (diff_between(&call->content, 0, 6)) {
    case 0:
      tensors[slot].dtype = QUIRE_FLOAT64;
      return true;
    case 1:
      tensors[slot].ndim += 1;
      return true;
    case 2:
      tensors[slot].shape = negative;
      return true;
    case 3:
      tensors[slot].strides = negative;
      return one->span > 1; /* else they mean nothing */
    case 4:                 /* over the first input, which is read */
      if (!one->is_output) {
        return false;
      }
      tensors[slot].data = tensors[other].data;
      tensors[slot].byte_offset = tensors[other].byte_offset;
      return true;
    case 5:
      if (one->is_output && strstr(one->name, "_out") != NULL) {
        return false; /* may be left empty: in place */
      }
      tensors[slot].data = NULL;
      return true;
    default:
      *count = 1;
      return true;
  }
}

static void run_once(iso_bench *bench, iso_call *call, iso_device *device, int world, bool is_first,
                     bool is_spoiled) {
  const quire_operator *op = quire_context_find_operator(bench->context, call->op);
  quire_tensor tensors[MOST_SLOTS] = {{0}};
  size_t count = op != NULL ? quire_operator_slot_count(op) : 0;
  quire_run_options options;
  quire_error error = {0};
  (void)snprintf(running_text, sizeof running_text,
                 "%s, form %llu, seed %llu, own %lld, %s, world %d%s", call->op,
                 (unsigned long long)call->form, (unsigned long long)call->seed,
                 (long long)call->own, device->name, world, is_spoiled ? ", spoiled" : "");
  iso_running = running_text;
  if (bench->is_gpu) {
    send(bench, call, op, world, tensors);
  } else {
    place(bench, call, op, world, tensors);
    iso_secrets(QUIRE_FLOAT32, world, device->scratch.window, device->scratch.window_bytes);
  }
  const diff_random kept = call->content; /* the same fault in every run */
  const bool is_faulty = is_spoiled && op != NULL && spoil_tensors(call, op, tensors, &count);
  call->content = kept;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_STRICT | QUIRE_RUN_CHECK_VALUES;
  const quire_status status =
      call->run != NULL
          ? call->run(device->device, tensors, &error)
          : quire_plan_run(device->plan, tensors, count, device->workspace, &options, &error);
  const bool is_expected = call->is_legal && !is_faulty;
  if ((status == QUIRE_OK) != is_expected) {
    fail_msg("%s\n  %s, but: %s %s", running_text, is_expected ? "legal" : "not legal",
             quire_status_name(status), status == QUIRE_OK ? "" : error.message);
  }
  if (bench->is_gpu) {
    receive(bench, call);
  }
  check(bench, call, status == QUIRE_OK, is_first);
  check_scratch(device, world);
  bench->refused += status != QUIRE_OK && is_first;
  bench->spoiled += is_faulty && is_first;
  iso_running = NULL;
}

void iso_bench_run(iso_bench *bench, iso_call *call) {
  const bool is_spoiled = diff_once_in(&call->content, 16);
  bool is_first = true;
  if (bench->is_gpu && call->is_racy && call->is_legal) {
    return;
  }
  bench->calls += 1;
  for (int d = 0; d < bench->device_count; ++d) {
    for (int world = 0; world < ISO_WORLDS; ++world) {
      run_once(bench, call, &bench->devices[d], world, is_first, is_spoiled);
      is_first = false;
    }
  }
}
