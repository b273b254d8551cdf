/*
 * The recurrence for one instruction set: the bits of linear_attention_recurrence.c. The file that
 * includes this defines RECURRENCE_NAME(name), which makes names of this set, and is compiled with
 * the set's flags.
 */
#include "simd.h"

/* What the registers hold, measured: vectors of columns at a time in a tile's sweeps and in the two
   sweeps of a single token. */
#if defined(__AVX2__) && !defined(__AVX512F__) /* 16 registers, the others have 32 */
#define SWEEP_MOST 2
#define SWEEP_LANES_MOST 1
#define STEP_MOST 4
#else
#define SWEEP_MOST 4
#define SWEEP_LANES_MOST 2
#define STEP_MOST 8
#endif

/* SIMD_EACH_PART(M): M(part) for the LANES16_PARTS vectors of 16 lanes. */
#if defined(__AVX512F__)
#define SIMD_EACH_PART(M) M(0)
#define ROWS_JOINT 8 /* rows of a V-major state at a time */
#elif defined(__AVX2__)
#define SIMD_EACH_PART(M) M(0) M(1)
#define ROWS_JOINT 4
#else
#define SIMD_EACH_PART(M) M(0) M(1) M(2) M(3)
#define ROWS_JOINT 4
#endif

#include "linear_attention_key_major_body.h"
#include "linear_attention_value_major_body.h"

static void run_item(const quire_pass *pass, const quire_view *views, const size_t index[3]) {
  _Alignas(64) float tile_memory[LA_TILE_FLOATS];
  _Alignas(64) float row_memory[SEGMENT_FLOATS];
  quire_linear_attention_item item;
  segment rows;
  quire_linear_attention_item_init(&item, pass, views, index);
  const size_t pitch = (item.dk + 15) / 16 * 16;
  float *tile_floats = item.scratch ? item.scratch : tile_memory;
  if (item.scratch) {
    segment_init(&rows, &item, item.scratch + LA_SCRATCH_COLUMNS * pitch,
                 (LA_SCRATCH_ROWS - LA_SCRATCH_COLUMNS) * pitch);
  } else {
    segment_init(&rows, &item, row_memory, SEGMENT_FLOATS);
  }
  quire_linear_attention_zero_unreached(&item);
  size_t done = 0;
  if (item.uniforms->v_major) {
    done = value_step_run(&item, &rows);
  } else {
    done = key_step_run(&item, &rows);
  }
  tiles_run(&item, &rows, tile_floats, done);
}

quire_status RECURRENCE_NAME(quire_linear_attention_recurrence)(const quire_pass *pass,
                                                                const size_t item[3]) {
  run_item(pass, pass->views, item);
  return QUIRE_OK;
}

quire_status RECURRENCE_NAME(quire_linear_attention_recurrence_strict)(const quire_pass *pass,
                                                                       const size_t item[3]) {
  quire_view views[LA_COUNT];
  quire_linear_attention_strict_views(pass, views);
  run_item(pass, views, item);
  return QUIRE_OK;
}
