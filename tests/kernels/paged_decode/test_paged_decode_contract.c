/* The contract of PagedDecode, row by row of its validation table. */
#include "contract_changes.h"

#include <math.h>

/* B 2, Hq 4, Hkv 2, D 8, C 3, P 2, MP 2 */

static const contract_form decode_inputs[] = {
    {"query", F16, 3, {2, 4, 8}},          {"key_pages", F16, 4, {2, 3, 2, 8}},
    {"value_pages", F16, 4, {2, 3, 2, 8}}, {"page_table", I32, 2, {2, 2}},
    {"context_lengths", I32, 1, {2}},
};

static const contract_form decode_extras[] = {
    {"head_sink", F16, 1, {4}},        {"head_sink", F16, 1, {3}},
    {"key_scales", F32, 3, {2, 3, 2}}, {"value_scales", F32, 3, {2, 3, 2}},
    {"output", F16, 3, {2, 4, 7}},     {"softmax_lse", F32, 2, {2, 4}},
    {"key_scales", F32, 3, {2, 3, 3}}, {"value_scales", F32, 3, {1, 3, 2}},
    {"key_scales", F16, 3, {2, 3, 2}}, {"value_scales", F32, 2, {2, 6}},
};

static const quire_named_value decode_attributes[] = {
    {"scale", QUIRE_VALUE_TYPE_FLOAT, 0, 0.5, NULL},
};

/* clang-format off */
#define INT8_PAGES                             \
  {"type", "key_pages", I8, 0, 0, NULL, WITH}, \
  {"type", "value_pages", I8, 0, 0, NULL, WITH}
#define SCALED_PAGES                          \
  INT8_PAGES,                                 \
  {"add", "key_scales", 2, 0, 0, NULL, WITH}, \
  {"add", "value_scales", 3, 0, 0, NULL, WITH}
/* clang-format on */

static const contract_change decode_changes[] = {
    {NULL, NULL, 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"without", "scale", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, -1, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, 1e-300, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, (double)NAN, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"float", "scale", 0, 0, (double)INFINITY, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V1", NULL},
    {"int", "partial_blocks", 0, -1, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V2", NULL},
    {"int", "partial_blocks", 0, 1025, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V2", NULL},
    {"int", "partial_blocks", 0, 1024, 0, NULL, QUIRE_OK, NULL, NULL},
    {"int", "context_bound", 0, -1, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PD-V13", NULL},
    {"int", "context_bound", 0, 1000, 0, NULL, QUIRE_OK, NULL, NULL},
    {"drop", "query", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PD-V3", NULL},
    {"drop", "value_pages", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PD-V3", NULL},
    {"drop", "context_lengths", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PD-V3", NULL},
    {"rank", "query", 0, 2, 0, NULL, QUIRE_BAD_RANK, "PD-V4", NULL},
    {"rank", "page_table", 0, 1, 0, NULL, QUIRE_BAD_RANK, "PD-V4", NULL},
    {"type", "value_pages", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "PD-V5", NULL},
    {"type", "key_pages", F32, 0, 0, NULL, WITH},
    {"type", "value_pages", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "PD-V5", "key_pages"},
    {"type", "page_table", QUIRE_UINT32, 0, 0, NULL, QUIRE_BAD_TYPE, "PD-V5", NULL},
    {"dim", "query", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "query", 2, 513, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "key_pages", 0, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "key_pages", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "key_pages", 2, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "page_table", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V6", NULL},
    {"dim", "value_pages", 1, 4, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", NULL},
    {"dim", "query", 2, 7, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", "key_pages"},
    {"dim", "query", 1, 3, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", NULL},
    {"dim", "page_table", 0, 1, 0, NULL, QUIRE_BAD_SHAPE, "PD-V8", NULL},
    {"dim", "context_lengths", 0, 3, 0, NULL, QUIRE_BAD_SHAPE, "PD-V8", NULL},
    {"out", "output", 4, 0, 0, NULL, QUIRE_BAD_SHAPE, "PD-V8", NULL},
    {"stride", "key_pages", 0, INT64_MAX / 4, 0, NULL, QUIRE_LIMIT, "PD-V9", NULL},
    {"stride", "key_pages", 1, 99, 0, NULL, QUIRE_OK, NULL, NULL},
    {"stride", "key_pages", 3, 2, 0, NULL, QUIRE_UNSUPPORTED, "PD-S1", NULL},
    {"stride", "query", 0, 99, 0, NULL, QUIRE_UNSUPPORTED, "PD-S1", NULL},
    {"add", "head_sink", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"add", "head_sink", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "X3", NULL},
    {"add", "key_scales", 2, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X2", NULL},
    {"add", "value_scales", 3, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X2", NULL},
    {"type", "key_pages", I8, 0, 0, NULL, WITH},
    {"type", "value_pages", I8, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X2", "key_scales"},
    INT8_PAGES,
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    INT8_PAGES,
    {"add", "key_scales", 2, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X2", "value_scales"},
    INT8_PAGES,
    {"add", "key_scales", 6, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, QUIRE_BAD_SHAPE, "X2", "key_scales"},
    INT8_PAGES,
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 7, 0, 0, NULL, QUIRE_BAD_SHAPE, "X2", "value_scales"},
    INT8_PAGES,
    {"add", "key_scales", 8, 0, 0, NULL, WITH},
    {"add", "value_scales", 3, 0, 0, NULL, QUIRE_BAD_TYPE, "PD-V5", "key_scales"},
    INT8_PAGES,
    {"add", "key_scales", 2, 0, 0, NULL, WITH},
    {"add", "value_scales", 9, 0, 0, NULL, QUIRE_BAD_RANK, "PD-V4", "value_scales"},
    SCALED_PAGES,
    {"stride", "key_scales", 1, -2, 0, NULL, QUIRE_UNSUPPORTED, "PD-S1", NULL},
    SCALED_PAGES,
    {"stride", "value_scales", 2, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    /* Int8 pages are padded to whole words: 7 channels in 8, and nothing else. */
    SCALED_PAGES,
    {"dim", "query", 2, 7, 0, NULL, QUIRE_OK, NULL, NULL},
    SCALED_PAGES,
    {"dim", "query", 2, 9, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", "key_pages"},
    SCALED_PAGES,
    {"dim", "query", 2, 4, 0, NULL, QUIRE_BAD_SHAPE, "PD-V7", "key_pages"},
    {"out", "softmax_lse", 5, 0, 0, NULL, QUIRE_OK, NULL, NULL},
};

static void test_paged_decode(void **state) {
  (void)state;
  const contract_legal l = {"quire.PagedDecode",      decode_inputs,
                            COUNT(decode_inputs),     decode_attributes,
                            COUNT(decode_attributes), decode_extras};
  contract_check(&l, decode_changes, COUNT(decode_changes));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_paged_decode)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
