// A bottleneck adapter (1902.00751, 2005.00052, 2110.04366): scale (U f(D r + d) + u), of D [width, hidden]
// and U [hidden, width]. Every rank of a tensor-parallel group has all of it and computes it for its rows of
// the stream. Nothing is kept for the backward pass but r, which the caller has.
#pragma once

#include <string>

#include "nn/module.h"
#include "ops/activation.h"

namespace stoa::nn {

// What a bottleneck reads of y = x + h, where h is what a sublayer makes of the stream x.
enum class BottleneckReads : std::uint8_t {
  kBranch,  // h (Houlsby et al.)
  kSum,     // x + h, or its norm where a norm follows (Pfeiffer et al.)
  kStream   // x, next to the sublayer (He et al.)
};

struct BottleneckOptions {
  std::string name;  // "layers.0.mlp.adapter"
  BottleneckReads reads = BottleneckReads::kBranch;
  std::int64_t hidden = 0, width = 0;
  ops::ActivationKind activation = ops::ActivationKind::kRelu;
  double scale = 1;
  ParamInit down, up;  // of the matrices; biases start at zero
  parallel::TensorPlace place;
};

class Bottleneck {
 public:
  // Ends of names, with ".weight" or ".bias".
  static constexpr const char *kDown = ".down", *kUp = ".up";

  explicit Bottleneck(const BottleneckOptions& options) : options_(options) {}

  void declare(ParamList& params);
  const BottleneckOptions& options() const { return options_; }

  // y [T, hidden] += what it makes of r [T, hidden].
  void forward(Pass& pass, TensorView r, TensorView y) const;
  // dr from dy; with `weights` also into the main gradients.
  void backward(Pass& pass, bool weights, TensorView r, TensorView dy, TensorView dr) const;

 private:
  Param add(ParamList& params, const std::string& end, const Shape& shape, const ParamInit& init) const;
  // D r + d, in scratch.
  TensorView inner(Pass& pass, TensorView r) const;

  BottleneckOptions options_;
  Param down_, down_bias_, up_, up_bias_;
};

}  // namespace stoa::nn
