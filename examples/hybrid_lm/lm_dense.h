/* The parts of a model around Quire's operators, on the host. Rows are tokens. */
#ifndef LM_DENSE_H
#define LM_DENSE_H

#include <stddef.h>

/* y[rows][out] = x[rows][in] * w[out][in]^T; add: y += ... */
void lm_linear(const float *x, const float *w, float *y, size_t rows, size_t in, size_t out,
               int add);

/* y = x / sqrt(mean(x^2) + epsilon) * weight, over rows of `size`; y may be x. */
void lm_rms_norm(const float *x, const float *weight, float *y, size_t rows, size_t size,
                 double epsilon);

float lm_sigmoid(float x);
float lm_silu(float x);

/* Rotates channels c and c + size/2 of every head by position * base^(-2c/size). */
void lm_rotate(float *x, int position, size_t heads, size_t head_size, size_t size, double base);

#endif
