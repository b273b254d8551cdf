/* Gated delta attention: a prompt, then one token at a time, the state carried from call to call.
 */
#include <stdio.h>
#include <string.h>

#include "quire/quire.h"

/* Tokens of the prompt and of all; heads and their sizes. */
enum { PROMPT = 5, ALL = 8, H = 2, DK = 4, DV = 3 };

static float query[ALL][H * DK], key[ALL][H * DK], value[ALL][H * DV], decay[ALL][H], beta[ALL][H];
static float state[H][DK][DV];

static void fill(float *data, int count, int step, float offset) {
  for (int i = 0; i < count; i++) {
    data[i] = (float)(i * step % 13 - 6) / 16 + offset;
  }
}

/* Runs tokens [first, first + count) from the state, which is updated in place. */
static quire_status attend(quire_device *device, int first, int count, float output[][H * DV],
                           quire_error *error) {
  const int64_t key_shape[] = {1, count, H * DK}, value_shape[] = {1, count, H * DV};
  const int64_t gate_shape[] = {1, count, H}, state_shape[] = {1, H, DK, DV};
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  args.query = (quire_tensor){query[first], 0, QUIRE_FLOAT32, 3, key_shape, NULL};
  args.key = (quire_tensor){key[first], 0, QUIRE_FLOAT32, 3, key_shape, NULL};
  args.value = (quire_tensor){value[first], 0, QUIRE_FLOAT32, 3, value_shape, NULL};
  args.decay = (quire_tensor){decay[first], 0, QUIRE_FLOAT32, 3, gate_shape, NULL};
  args.beta = (quire_tensor){beta[first], 0, QUIRE_FLOAT32, 3, gate_shape, NULL};
  args.past_state = (quire_tensor){state, 0, QUIRE_FLOAT32, 4, state_shape, NULL};
  args.present_state = args.past_state;
  args.output = (quire_tensor){output[first], 0, QUIRE_FLOAT32, 3, value_shape, NULL};
  args.q_num_heads = H;
  args.kv_num_heads = H;
  return quire_linear_attention(device, &args, error);
}

int main(void) {
  static float at_once[ALL][H * DV], in_steps[ALL][H * DV];
  fill(&query[0][0], ALL * H * DK, 5, 0);
  fill(&key[0][0], ALL * H * DK, 7, 0);
  fill(&value[0][0], ALL * H * DV, 3, 0);
  fill(&decay[0][0], ALL * H, 4, -0.5f); /* logarithms of factors below 1 */
  fill(&beta[0][0], ALL * H, 6, 0.5f);

  quire_error error = {QUIRE_OK, "", "", ""};
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_status status = quire_context_create(NULL, &context, &error);
  if (status == QUIRE_OK) {
    status = quire_device_open(context, "cpu", NULL, &device, &error);
  }
  if (status == QUIRE_OK) {
    status = attend(device, 0, ALL, at_once, &error);
  }
  memset(state, 0, sizeof state); /* begin again, now as a model does */
  if (status == QUIRE_OK) {
    status = attend(device, 0, PROMPT, in_steps, &error);
  }
  for (int t = PROMPT; t < ALL && status == QUIRE_OK; t++) {
    status = attend(device, t, 1, in_steps, &error);
  }
  quire_device_release(device);
  quire_context_release(context);
  if (status != QUIRE_OK) {
    fprintf(stderr, "%s: %s\n", quire_status_name(status), error.message);
    return 1;
  }

  for (int t = 0; t < ALL; t++) {
    printf("token %d, head 0: %9.6f %9.6f %9.6f\n", t, (double)in_steps[t][0],
           (double)in_steps[t][1], (double)in_steps[t][2]);
  }
  /* With a float32 state, how a text is cut into calls does not change one bit. */
  return memcmp(at_once, in_steps, sizeof at_once) == 0 ? 0 : 1;
}
