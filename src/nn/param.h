// What a layer says about a parameter before any memory exists, and how it reaches value and gradient
// afterwards.
#pragma once

#include <string>
#include <vector>

#include "parallel/parallel_context.h"
#include "parallel/tensor_place.h"
#include "quant/matrix_layout.h"
#include "quant/packed_matrix.h"
#include "tensor/shard_spec.h"
#include "tensor/tensor_view.h"

namespace stoa::nn {

enum class InitKind : std::uint8_t {
  kNormal,
  kUniform,  // between minus and plus the deviation
  kOnes,
  kZeros,
  // For linear attention (2312.00752, section 3.6): kDecayRate is the logarithm of a uniform number below 16;
  // kStepBias makes softplus(bias) a step between 0.001 and 0.1, logarithmically uniform.
  kDecayRate,
  kStepBias
};

// Initial value of every canonical element: deviation * philox_normal(key(seed, kInit, canonical
// name), flat index in the canonical tensor), so that it does not depend on the layout.
struct ParamInit {
  InitKind kind = InitKind::kNormal;
  double deviation = 0.02;
};

// How a parametrisation by width scales a canonical tensor (model/mup.h). The stored value is `multiplier`
// times the actual one: initial values and updates include the factor; weight decay and Adam's epsilon are
// divided by it, so that their meaning does not change.
struct ParamScale {
  double multiplier = 1;
  double init = 1;  // of the initial values, besides
  double rate = 1;  // of the learning rate, besides
  bool operator==(const ParamScale&) const = default;
};

// What moves a parameter at the end of a step.
enum class UpdateRule : std::uint8_t {
  kGradient,   // the optimizer
  kExpertLoad  // its "gradient" is an excess of load (ops::ExpertBiasUpdate): it is in no norm
};

struct ParamSpec {
  std::string name;  // of the tensor in memory: "layers.3.attention.qkv.weight"
  ShardSpec shard;   // its canonical parts; shard.local is the shape in memory
  ParamInit init;
  std::vector<ParamScale> scales;  // of the pieces; none: all 1
  bool decay = true;               // weight decay applies (matrices; not norms and biases)
  // Frozen otherwise: a value alone, without gradient, moments, master or share of the gradient norm. Decided
  // by ParamList::train_where when the parameter is added.
  bool trained = true;
  bool adapter = false;  // not a parameter of the model itself (nn/adapter_policy.h)
  // Gradients are to be summed over the ranks of these groups that hold the same elements: over the tensor
  // axis that is the pieces marked `shared`, over kEmbedding the two ends of a pipeline, over kPipeline all
  // its stages.
  std::vector<parallel::Group> grad_partial_over;
  // Over kPipeline: how often the whole model uses it. Its gradients are added in the order of the uses, so
  // that the cut into stages does not show.
  std::int64_t uses = 0;
  // Ranks that hold the same elements (kDataContext, kExpertData): gradients are summed over them, state is
  // sharded among them.
  parallel::Group copies = parallel::Group::kDataContext;
  int unit = 0;  // which part of the chunk it belongs to (embedding, a block, head); set by ParamList

  UpdateRule update = UpdateRule::kGradient;
  double update_rate = 0;  // of kExpertLoad

  bool full_precision = false;  // a matrix held in the accumulation type (a router's)
  // The linear layers whose matrices it holds, equally large, one below the other: products with them may be
  // of 8 bits. One of a Linear; of experts those of this rank. None of others.
  std::vector<std::string> products;

  // Its layer takes it packed, too: as bytes, not as numbers of its type (nn/packed_weight.h).
  bool packable = false;
  // Decided by ParamList::pack_where when the parameter is added.
  quant::PackedKind packed = quant::PackedKind::kNone;
  bool is_packed() const { return packed != quant::PackedKind::kNone; }
  // A matrix that is held in the numbers of its file (ParamList::hold_as_stored); without parts: it is not. A
  // matrix of experts is `stored_matrices` such matrices, one below the other.
  quant::MatrixShape stored;
  std::int64_t stored_matrices = 1;
  bool is_stored() const { return stored.count > 0; }
  std::int64_t stored_bytes() const { return stored_matrices * stored.bytes(); }
  // Whether its memory is a tensor of bytes (nn/packed_weight.h, nn/stored_weight.h).
  bool holds_bytes() const { return is_packed() || is_stored(); }

  ParamScale scale(std::size_t piece) const { return scales.empty() ? ParamScale() : scales[piece]; }

  // Matrices are held in compute precision; vectors (norms, biases) in the accumulation type: they cost
  // nothing there.
  bool is_matrix() const { return shard.local.rank() >= 2 && !full_precision; }
};

struct ParamId {
  int index = -1;
  explicit operator bool() const { return index >= 0; }
};
// A tied weight is one parameter with one gradient accumulator per use, added in order of declaration. None
// of a frozen parameter: layers do not compute its gradient.
struct GradId {
  int index = -1;
  explicit operator bool() const { return index >= 0; }
};
struct Param {
  ParamId value;
  GradId grad;
  explicit operator bool() const { return static_cast<bool>(value); }
  bool trained() const { return static_cast<bool>(grad); }
};

// Compute-precision values. Layers never see how they are stored (ZeRO) or when they were gathered.
class ParamAccess {
 public:
  virtual ~ParamAccess() = default;
  virtual TensorView get(ParamId id) = 0;
};

struct GradTarget {
  TensorView tensor;  // accumulation type
  bool accumulate;    // false: nothing was written yet in this step; overwrite
};

// Main gradients.
class GradAccess {
 public:
  virtual ~GradAccess() = default;
  virtual GradTarget target(GradId id) = 0;
  // The contribution of this microbatch has been written: later ones add; the last one may start a reduction.
  virtual void notify(GradId id) = 0;
};

}  // namespace stoa::nn
