/*
 * Packing for the register kernels of prefill, from rows of one element type. Included once for
 * each type by paged_attention_prefill_body.h with QUIRE_ELEMENT (f32, f16, bf16, i8) and
 * QUIRE_ELEMENT_BYTES defined. Everything is widened here, once a tile: the kernels see f32 only.
 */
#define ELEMENT_PASTE_(name, element) name##_##element
#define ELEMENT_PASTE(name, element) ELEMENT_PASTE_(name, element)
#define ELEMENT(name) ELEMENT_PASTE(name, QUIRE_ELEMENT)

/* VEC_LANES channels from `first` on of a row that ends at `size`. */
static inline vec ELEMENT(load_lanes)(const char *row, size_t first, size_t size) {
  const char *from = row + first * QUIRE_ELEMENT_BYTES;
  return first + VEC_LANES <= size ? ELEMENT(load)(from) : ELEMENT(load_first)(from, size - first);
}

/* Keys of a tile, transposed: panel after panel of PANEL keys, each [channel][PANEL]. */
static void ELEMENT(pack_keys)(const prefill_tile *t, size_t size, float *panels) {
  const size_t panel_floats = prefill_padded(size) * PANEL;
  for (size_t group = 0; group < TILE_VECS; ++group) {
    const char *const *rows = t->keys + group * VEC_LANES;
    if ((t->mapped >> (group * VEC_LANES) & VEC_BITS) == 0) {
      continue;
    }
    float *out = panels + group / PANEL_VECS * panel_floats + group % PANEL_VECS * VEC_LANES;
    for (size_t d = 0; d < size; d += VEC_LANES) {
      vec square[VEC_LANES];
      for (size_t i = 0; i < VEC_LANES; ++i) {
        square[i] = rows[i] != NULL ? ELEMENT(load_lanes)(rows[i], d, size) : vec_zero();
      }
      vec_transpose(square);
      for (size_t i = 0; i < VEC_LANES; ++i) {
        vec_store(out + (d + i) * PANEL, square[i]);
      }
    }
  }
}

#ifndef QUIRE_PREFILL_BF16
/*
 * Values of keys [first, end) of a tile: panel after panel of PANEL columns (the last may be
 * narrower), each [key][columns]. Unmapped keys become rows of -0.0: fma(0, -0.0, x) is x, bit for
 * bit.
 */
static void ELEMENT(pack_values)(const prefill_tile *t, size_t first, size_t end, size_t size,
                                 float *panels) {
  const size_t padded = prefill_padded(size);
  for (size_t column = 0; column < padded; column += PANEL) {
    const size_t width = padded - column < PANEL ? padded - column : PANEL;
    for (size_t key = first; key < end; ++key) {
      float *out = panels + column * QUIRE_PAGED_TILE + key * width;
      const char *row = t->values[key];
      for (size_t c = 0; c < width; c += VEC_LANES) {
        vec x = vec_set(-0.0f);
        if (row != NULL && column + c < size) {
          x = ELEMENT(load_lanes)(row, column + c, size);
        }
        vec_store(out + c, x);
      }
    }
  }
}

/* q' = q * f, rounded once (NU-6). */
static void ELEMENT(scale_query)(const char *row, const float *factors, size_t size, float *out) {
  for (size_t d = 0; d < size; d += VEC_LANES) {
    vec_store(out + d, vec_mul(ELEMENT(load_lanes)(row, d, size), vec_load(factors + d)));
  }
}

#endif

#undef ELEMENT
#undef ELEMENT_PASTE
#undef ELEMENT_PASTE_
#undef QUIRE_ELEMENT
#undef QUIRE_ELEMENT_BYTES
