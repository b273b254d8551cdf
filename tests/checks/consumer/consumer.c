/* Merges two halves of an attention: enough to need kernels, manifests and the thread pool. */
#include <stdio.h>
#include <string.h>

#include "quire/quire.h"

int main(void) {
  quire_error error;
  memset(&error, 0, sizeof error);
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_status status = quire_context_create(NULL, &context, &error);
  if (status == QUIRE_OK) {
    status = quire_device_open(context, "cpu", NULL, &device, &error);
  }
  float a[2] = {1, 2}, b[2] = {3, 4}, lse_a = 0.5f, lse_b = 0.5f, output[2] = {0, 0}, lse = 0;
  if (status == QUIRE_OK) {
    const int64_t shape[] = {1, 1, 2};
    quire_merge_attention_states_args args;
    quire_merge_attention_states_args_init(&args);
    args.output_a = (quire_tensor){a, 0, QUIRE_FLOAT32, 3, shape, NULL};
    args.softmax_lse_a = (quire_tensor){&lse_a, 0, QUIRE_FLOAT32, 2, shape, NULL};
    args.output_b = (quire_tensor){b, 0, QUIRE_FLOAT32, 3, shape, NULL};
    args.softmax_lse_b = (quire_tensor){&lse_b, 0, QUIRE_FLOAT32, 2, shape, NULL};
    args.output = (quire_tensor){output, 0, QUIRE_FLOAT32, 3, shape, NULL};
    args.softmax_lse = (quire_tensor){&lse, 0, QUIRE_FLOAT32, 2, shape, NULL};
    status = quire_merge_attention_states(device, &args, &error);
  }
  quire_device_release(device);
  quire_context_release(context);
  if (status != QUIRE_OK) {
    (void)fprintf(stderr, "%s: %s\n", quire_status_name(status), error.message);
    return 1;
  }
  printf("quire %s: %g %g\n", quire_version(), (double)output[0], (double)output[1]);
  return output[0] == 2 && output[1] == 3 ? 0 : 1;
}
