// Delayed scaling of 8-bit products (nn/fp8.h): the largest magnitudes that the tensors of linear layers had
// in earlier steps, of which the scales of this step are made.
//
// A step counts once, with the largest magnitude among its microbatches and all ranks that hold parts or
// copies of a tensor, so that the layout, the schedule and the size of a microbatch do not show. Steps that
// are skipped do not count (ops::AmaxHistoryUpdate).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "device/arena.h"
#include "nn/fp8.h"
#include "nn/module.h"

namespace stoa::optim {

struct AmaxHistoryOptions {
  std::int64_t length = 1024;  // steps
  bool most_recent = false;    // the scale is of the last step; else of the largest magnitude in the history
};

class AmaxHistory final : public nn::AmaxAccess {
 public:
  // `weights`: matrices of `params` with products, in some order; the same on all ranks of a pipeline stage.
  // `type`: in which magnitudes are kept, the accumulation type. What `parallel` refers to outlives this.
  AmaxHistory(Arena& arena, const nn::ParamList& params, const std::vector<nn::ParamId>& weights,
              const AmaxHistoryOptions& options, DType type, const parallel::ParallelContext& parallel);

  Place of(nn::ParamId weight, nn::Fp8Tensor tensor) override;

  // Nothing is known: the start of training.
  void reset(ops::OpContext& ops);
  // Brings together what ranks have seen, after the last backward pass of a step. Collective.
  void gather(ops::OpContext& ops);
  // Closes a step, once it is known whether it is skipped (`state`), or begins with a history that was read.
  void update(ops::OpContext& ops, TensorView state);

  // The histories as checkpoints have them, a tensor per layer: of its input, its weight and the gradient of
  // its output, [3, length], latest first. Named after the layer, whatever it fuses, or the expert:
  // "fp8.amax/layers.0.attention.qkv", "fp8.amax/layers.1.moe.experts.3.gate_up".
  const std::vector<std::string>& names() const { return names_; }  // of this rank's layers
  TensorView history(std::size_t layer);
  static std::vector<TensorSpec> specs(const nn::ParamSpec& matrices, std::int64_t length, DType type);
  // Whether this rank writes a layer's to files: of the ranks that hold the same, the first does.
  bool writes(std::size_t layer) const;

 private:
  // Layers whose histories the same ranks hold.
  struct Holders {
    const char* name;
    parallel::Group parts, copies;  // ranks that hold parts of a layer, and copies of these
    std::int64_t layers = 0;
    Arena::Id history = {}, amax = {}, seen = {};
  };
  struct Layers {
    std::size_t holders = 0;
    std::int64_t first = 0, count = 0;
  };
  // Calls body(holders) of those that have layers.
  template <class Body>
  void for_each_holders(const Body& body) const {
    for (const Holders& h : holders_)
      if (h.layers > 0) body(h);
  }

  Arena* arena_;
  const parallel::ParallelContext& parallel_;
  const AmaxHistoryOptions options_;
  std::array<Holders, 2> holders_{
      {{"", parallel::Group::kTensor, parallel::Group::kDataContext},
       {" of experts", parallel::Group::kExpertTensor, parallel::Group::kExpertData}}};
  std::vector<std::string> names_;
  std::vector<Layers> by_name_;   // one each
  std::vector<Layers> by_param_;  // none where it has no products
};

}  // namespace stoa::optim
