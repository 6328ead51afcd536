// Random masks of a layer: functions of (seed, purpose, layer name) and the global index of each element.
#pragma once

#include <string_view>

#include "nn/pass.h"
#include "ops/norm.h"

namespace stoa::nn {

// Dropout of a [T, D] tensor of this microbatch, or of this rank's rows of it (`place`: how the stream is
// split); off outside training.
inline ops::Dropout dropout_of(const Pass& pass, float p, RandomPurpose purpose, std::string_view layer,
                               const parallel::TensorPlace& place = {}) {
  ops::Dropout out;
  if (!pass.training || p <= 0) return out;
  out.p = p;
  out.key = philox_key(pass.seed, purpose, layer);
  out.first_token =
      pass.batch.first_sample * pass.batch.length + place.first_row(pass.batch.rows * pass.batch.length);
  return out;
}

}  // namespace stoa::nn
