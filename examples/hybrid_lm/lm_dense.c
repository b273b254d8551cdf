#include "lm_dense.h"

#include <math.h>

void lm_linear(const float *x, const float *w, float *y, size_t rows, size_t in, size_t out,
               int add) {
  for (size_t r = 0; r < rows; r++) {
    for (size_t o = 0; o < out; o++) {
      float sums[8] = {0}; /* independent, so that a compiler can use vectors */
      size_t i = 0;
      for (; i + 8 <= in; i += 8) {
        for (size_t j = 0; j < 8; j++) {
          sums[j] += x[r * in + i + j] * w[o * in + i + j];
        }
      }
      float sum = 0;
      for (; i < in; i++) {
        sum += x[r * in + i] * w[o * in + i];
      }
      for (size_t j = 0; j < 8; j++) {
        sum += sums[j];
      }
      y[r * out + o] = sum + (add ? y[r * out + o] : 0);
    }
  }
}

void lm_rms_norm(const float *x, const float *weight, float *y, size_t rows, size_t size,
                 double epsilon) {
  for (size_t r = 0; r < rows; r++) {
    double squares = 0;
    for (size_t i = 0; i < size; i++) {
      squares += (double)x[r * size + i] * x[r * size + i];
    }
    const float factor = (float)(1 / sqrt(squares / (double)size + epsilon));
    for (size_t i = 0; i < size; i++) {
      y[r * size + i] = x[r * size + i] * factor * weight[i];
    }
  }
}

float lm_sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

float lm_silu(float x) {
  return x * lm_sigmoid(x);
}

void lm_rotate(float *x, int position, size_t heads, size_t head_size, size_t size, double base) {
  for (size_t c = 0; c < size / 2; c++) {
    const double angle = position * pow(base, -2.0 * (double)c / (double)size);
    const float cosine = (float)cos(angle), sine = (float)sin(angle);
    for (size_t h = 0; h < heads; h++) {
      float *a = x + h * head_size + c, *b = a + size / 2;
      const float first = *a;
      *a = first * cosine - *b * sine;
      *b = *b * cosine + first * sine;
    }
  }
}
