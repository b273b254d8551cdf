#include "differential_registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

/* The library's own list, under another name: this program defines the function of that name. */
void quire_differential_builtin_kernels(
    quire_implementation_list lists[QUIRE_BUILTIN_KERNEL_LISTS]);

/* The context that is being made, and the subject that is running: one at a time. */
static diff_subject *current;
static atomic_uint_fast64_t items_run;
static atomic_uint_fast32_t seen[QUIRE_PASS_MAX_BINDINGS];

static quire_status counted(const quire_pass *pass, const size_t item[3]) {
  const quire_implementation *real = current->real;
  atomic_fetch_add_explicit(&items_run, 1, memory_order_relaxed);
  for (size_t i = 0; i < real->binding_count; ++i) {
    const uint32_t bit = QUIRE_DTYPE_BIT(pass->views[i].dtype);
    if (!(atomic_load_explicit(&seen[i], memory_order_relaxed) & bit)) {
      atomic_fetch_or_explicit(&seen[i], bit, memory_order_relaxed);
    }
  }
  return real->function(pass, item);
}

static bool is_reference(const quire_implementation *one) {
  return one->isa == QUIRE_ISA_SCALAR && one->precision == QUIRE_PRECISION_EXACT;
}

void quire_builtin_kernels(quire_implementation_list lists[QUIRE_BUILTIN_KERNEL_LISTS]) {
  quire_implementation_list real[QUIRE_BUILTIN_KERNEL_LISTS];
  quire_differential_builtin_kernels(real);
  for (size_t i = 0; i < QUIRE_BUILTIN_KERNEL_LISTS; ++i) {
    size_t count = 0;
    for (size_t k = 0; k < real[i].count; ++k) {
      const quire_implementation *one = &real[i].items[k];
      if (one == current->real) {
        current->items[i][count] = *one;
        current->items[i][count].priority = 1000;
        current->items[i][count++].function = counted;
      } else if (is_reference(one)) {
        current->items[i][count++] = *one;
      }
    }
    lists[i] = current->lists[i] = (quire_implementation_list){current->items[i], count};
  }
}

size_t diff_implementations(const quire_implementation *all[], size_t capacity) {
  quire_implementation_list real[QUIRE_BUILTIN_KERNEL_LISTS];
  size_t count = 0;
  quire_differential_builtin_kernels(real);
  for (size_t i = 0; i < QUIRE_BUILTIN_KERNEL_LISTS; ++i) {
    assert_true(real[i].count <= DIFF_MOST_IMPLEMENTATIONS);
    for (size_t k = 0; k < real[i].count; ++k) {
      assert_true(count < capacity);
      all[count++] = &real[i].items[k];
    }
  }
  return count;
}

void diff_subject_open(diff_subject *subject, const quire_implementation *real) {
  quire_error error;
  quire_device_options options;
  *subject = (diff_subject){.real = real};
  current = subject;
  if (quire_context_create(NULL, &subject->context, &error) != QUIRE_OK) {
    fail_msg("no context: %s", error.message);
  }
  quire_device_options_init(&options);
  options.threads = 1;
  if (quire_device_open(subject->context, "cpu", &options, &subject->device, &error) != QUIRE_OK) {
    fail_msg("no device: %s", error.message);
  }
}

void diff_subject_close(diff_subject *subject) {
  quire_device_release(subject->device);
  quire_context_release(subject->context);
}

void diff_subject_begin(diff_subject *subject) {
  current = subject;
  atomic_store(&items_run, 0);
  for (size_t i = 0; i < QUIRE_PASS_MAX_BINDINGS; ++i) {
    atomic_store(&seen[i], 0);
  }
}

void diff_subject_end(diff_subject *subject) {
  subject->items_run += atomic_load(&items_run);
  for (size_t i = 0; i < QUIRE_PASS_MAX_BINDINGS; ++i) {
    subject->seen[i] |= (uint32_t)atomic_load(&seen[i]);
  }
}
