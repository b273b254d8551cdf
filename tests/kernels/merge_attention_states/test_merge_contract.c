/* The contract of MergeAttentionStates, row by row of its validation table. */
#include "contract_changes.h"

/* N 2, H 3, D 4 */

static const contract_form merge_inputs[] = {
    {"output_a", F16, 3, {2, 3, 4}},
    {"softmax_lse_a", F32, 2, {2, 3}},
    {"output_b", F16, 3, {2, 3, 4}},
    {"softmax_lse_b", F32, 2, {2, 3}},
};

static const contract_change merge_changes[] = {
    {NULL, NULL, 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"drop", "output_b", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X8b", NULL},
    {"rank", "output_a", 0, 2, 0, NULL, QUIRE_BAD_RANK, "X8b", NULL},
    {"type", "output_b", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "X8b", NULL},
    {"type", "softmax_lse_a", F16, 0, 0, NULL, QUIRE_BAD_TYPE, "X8b", NULL},
    {"dim", "output_b", 2, 5, 0, NULL, QUIRE_BAD_SHAPE, "X8b", NULL},
    {"dim", "softmax_lse_a", 1, 4, 0, NULL, QUIRE_BAD_SHAPE, "X8b", NULL},
    {"dim", "softmax_lse_b", 0, 4, 0, NULL, QUIRE_BAD_SHAPE, "X8b", NULL},
    {"stride", "output_a", 0, 99, 0, NULL, QUIRE_UNSUPPORTED, "X8b", NULL},
};

static void test_merge(void **state) {
  (void)state;
  const contract_legal l = {
      "quire.MergeAttentionStates", merge_inputs, COUNT(merge_inputs), NULL, 0, NULL};
  contract_check(&l, merge_changes, COUNT(merge_changes));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_merge)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
