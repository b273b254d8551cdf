/* Paged decode: two sequences read their pages. Then each context is split in two halves, which are
 * attended to apart, as a second device or an earlier call might have done, and merged. */
#include <math.h>
#include <stdio.h>

#include "quire/quire.h"

/* Rows (one new token each); query and key/value heads, their size; pages, their tokens; columns.
 */
enum { B = 2, HQ = 4, HKV = 2, D = 8, C = 6, P = 4, MP = 2 };

typedef struct part {
  float output[B][HQ][D], softmax_lse[B][HQ];
} part;

/* Which pages each row has, and how many tokens of them. */
typedef struct pages {
  int columns;
  int32_t page_table[B * MP], lengths[B];
} pages;

static float query[B][HQ][D], key_pages[HKV][C][P][D], value_pages[HKV][C][P][D];
static const int64_t output_shape[] = {B, HQ, D}, lse_shape[] = {B, HQ};

static void fill(float *data, int count, int step) {
  for (int i = 0; i < count; i++) {
    data[i] = (float)(i * step % 17 - 8) / 8;
  }
}

static quire_status decode(quire_device *device, pages *past, part *result, quire_error *error) {
  const int64_t page_shape[] = {HKV, C, P, D}, table_shape[] = {B, past->columns}, rows[] = {B};
  quire_paged_decode_args args;
  quire_paged_decode_args_init(&args);
  args.query = (quire_tensor){query, 0, QUIRE_FLOAT32, 3, output_shape, NULL};
  args.key_pages = (quire_tensor){key_pages, 0, QUIRE_FLOAT32, 4, page_shape, NULL};
  args.value_pages = (quire_tensor){value_pages, 0, QUIRE_FLOAT32, 4, page_shape, NULL};
  args.page_table = (quire_tensor){past->page_table, 0, QUIRE_INT32, 2, table_shape, NULL};
  args.context_lengths = (quire_tensor){past->lengths, 0, QUIRE_INT32, 1, rows, NULL};
  args.output = (quire_tensor){result->output, 0, QUIRE_FLOAT32, 3, output_shape, NULL};
  args.softmax_lse = (quire_tensor){result->softmax_lse, 0, QUIRE_FLOAT32, 2, lse_shape, NULL};
  args.scale = 0.35F; /* about 1/sqrt(D) */
  return quire_paged_decode(device, &args, error);
}

static quire_status merge(quire_device *device, part *a, part *b, part *result,
                          quire_error *error) {
  quire_merge_attention_states_args args;
  quire_merge_attention_states_args_init(&args);
  args.output_a = (quire_tensor){a->output, 0, QUIRE_FLOAT32, 3, output_shape, NULL};
  args.softmax_lse_a = (quire_tensor){a->softmax_lse, 0, QUIRE_FLOAT32, 2, lse_shape, NULL};
  args.output_b = (quire_tensor){b->output, 0, QUIRE_FLOAT32, 3, output_shape, NULL};
  args.softmax_lse_b = (quire_tensor){b->softmax_lse, 0, QUIRE_FLOAT32, 2, lse_shape, NULL};
  args.output = (quire_tensor){result->output, 0, QUIRE_FLOAT32, 3, output_shape, NULL};
  args.softmax_lse = (quire_tensor){result->softmax_lse, 0, QUIRE_FLOAT32, 2, lse_shape, NULL};
  return quire_merge_attention_states(device, &args, error);
}

static quire_status run(quire_device *device, part *whole, part *merged, quire_error *error) {
  pages all = {2, {4, 0, 2, 5}, {7, 5}};
  pages begin = {1, {4, 2}, {P, P}}, end = {1, {0, 5}, {7 - P, 5 - P}};
  part first, second;
  quire_status status = decode(device, &all, whole, error);
  if (status == QUIRE_OK) {
    status = decode(device, &begin, &first, error);
  }
  if (status == QUIRE_OK) {
    status = decode(device, &end, &second, error);
  }
  if (status == QUIRE_OK) {
    status = merge(device, &first, &second, merged, error);
  }
  return status;
}

int main(void) {
  static part whole, merged;
  fill(&query[0][0][0], B * HQ * D, 5);
  fill(&key_pages[0][0][0][0], HKV * C * P * D, 7);
  fill(&value_pages[0][0][0][0], HKV * C * P * D, 3);

  quire_error error = {QUIRE_OK, "", "", ""};
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_status status = quire_context_create(NULL, &context, &error);
  if (status == QUIRE_OK) {
    status = quire_device_open(context, "cpu", NULL, &device, &error);
  }
  if (status == QUIRE_OK) {
    status = run(device, &whole, &merged, &error);
  }
  quire_device_release(device);
  quire_context_release(context);
  if (status != QUIRE_OK) {
    fprintf(stderr, "%s: %s\n", quire_status_name(status), error.message);
    return 1;
  }

  float worst = 0;
  for (int b = 0; b < B; b++) {
    for (int h = 0; h < HQ; h++) {
      for (int d = 0; d < D; d++) {
        worst = fmaxf(worst, fabsf(whole.output[b][h][d] - merged.output[b][h][d]));
      }
    }
    printf("row %d, head 0: %9.6f %9.6f %9.6f\n", b, (double)whole.output[b][0][0],
           (double)whole.output[b][0][1], (double)whole.output[b][0][2]);
  }
  printf("halves merged differ by %.1e at most\n", (double)worst);
  return worst < 1e-6F ? 0 : 1;
}
