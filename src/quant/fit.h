// How encoders choose scales: for a few candidates around the plain one, numbers are rounded to codes, the
// scale (and minimum) that fit these codes best is found by weighted least squares, and the candidate with
// the smallest weighted error wins.
#pragma once

namespace stoa::quant {

// x ~ scale q with codes q of [lowest, highest], lowest < 0. `codes`: of the numbers, or null.
float fit_scale(const float* x, const float* weights, int count, int lowest, int highest);

// x ~ scale q - minimum with codes q of [0, highest] and minimum >= 0.
struct Affine {
  float scale = 0, minimum = 0;
};
Affine fit_affine(const float* x, const float* weights, int count, int highest);

// The nearest code of x for a scale and a minimum, 0 where the scale is 0.
int code_of(float x, float scale, float minimum, int lowest, int highest);

// Scales s of the parts of a block as codes of `highest` and one factor: s ~ factor code. Returns the factor,
// rounded to half precision; what is not finite there (too large a scale) stays so.
float factor_of(const float* scales, int count, int highest);

// Weights of an encoder that is given none: root mean square of the part plus the magnitude, so that large
// numbers count for more. With an importance, as llama.cpp defines it: importance sqrt(mean square + x^2).
void weigh(const float* x, const float* importance, int count, float mean_square, float* weights);
float mean_square(const float* x, int count);

}  // namespace stoa::quant
