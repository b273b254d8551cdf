/* Every allocation of the library fails once: no crash, no leak, a status. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "library_fixture.h"

enum { MOST_SITES = 5000 };

/* Context, device and two calls; what the first failure was. All that was opened is closed. */
static quire_status do_everything(const quire_allocator *allocator, quire_error *error) {
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_context_options options;
  quire_context_options_init(&options);
  options.allocator = allocator;
  quire_device_options device_options;
  quire_device_options_init(&device_options);
  device_options.threads = 1;
  quire_status status = quire_context_create(&options, &context, error);
  if (status == QUIRE_OK) {
    status = quire_device_open(context, "cpu", &device_options, &device, error);
  }
  paged_case paged;
  paged_case_init(&paged);
  if (status == QUIRE_OK) {
    status = quire_paged_attention(device, &paged.args, error);
    assert_true(status == QUIRE_OK || isnan(paged.key_cache[0][0][0][0]));
  }
  linear_case linear;
  linear_case_init(&linear);
  if (status == QUIRE_OK) {
    status = quire_linear_attention(device, &linear.args, error);
    assert_true(status == QUIRE_OK || linear.output[0] == 0);
  }
  if (status == QUIRE_OK) {
    assert_near("output", (double)paged.output[0][0], 21.9928451);
    assert_near("output", (double)linear.output[1], 2.52);
  }
  quire_device_release(device);
  quire_context_release(context);
  return status;
}

static void fail_at_every_site(bool once) {
  counting_allocator counting;
  counting_allocator_init(&counting);
  quire_error error;
  assert_int_equal(do_everything(&counting.allocator, &error), QUIRE_OK);
  size_t sites = atomic_load(&counting.calls);
  assert_true(sites > 0 && sites < MOST_SITES);
  size_t refused = 0;
  for (size_t site = 1; site <= sites; site++) {
    counting_allocator_init(&counting);
    counting.fail_at = site;
    counting.fail_once = once;
    quire_status status = do_everything(&counting.allocator, &error);
    if ((status != QUIRE_OK && status != QUIRE_OUT_OF_MEMORY) ||
        atomic_load(&counting.bytes) != 0) {
      fail_msg("site %zu of %zu: %s: %s; %zu bytes left", site, sites, quire_status_name(status),
               status == QUIRE_OK ? "" : error.message, atomic_load(&counting.bytes));
    }
    refused += status != QUIRE_OK;
  }
  /* A plan that cannot be kept, in each of the two calls, is no failure; everything else is. */
  assert_true(refused + 2 >= sites);
}

static void one_allocation_fails(void **state) {
  (void)state;
  fail_at_every_site(true);
}

static void all_allocations_fail_from_one_on(void **state) {
  (void)state;
  fail_at_every_site(false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_allocation_fails),
      cmocka_unit_test(all_allocations_fail_from_one_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
