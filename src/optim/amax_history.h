// Delayed scaling for FP8 GEMMs (nn/fp8.h): the largest magnitudes of linear layers' tensors in earlier
// steps, from which the scales of this step are computed.
//
// A step has one entry: the largest magnitude among its microbatches and all ranks that hold parts or copies
// of a tensor, so that results do not depend on the layout, the schedule or the size of a microbatch. Skipped
// steps have none (ops::AmaxHistoryUpdate).
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
  bool most_recent = false;    // the scale is from the last step; else from the maximum over the history
};

class AmaxHistory final : public nn::AmaxAccess {
 public:
  // `weights`: matrices of `params` used in GEMMs, in the same order on all ranks of a pipeline stage.
  // `type`: of the stored magnitudes, the accumulation type. What `parallel` refers to must outlive this.
  AmaxHistory(Arena& arena, const nn::ParamList& params, const std::vector<nn::ParamId>& weights,
              const AmaxHistoryOptions& options, DType type, const parallel::ParallelContext& parallel);

  Place of(nn::ParamId weight, nn::Fp8Tensor tensor) override;

  // Clears the history: the start of training.
  void reset(ops::OpContext& ops);
  // Combines what the ranks have seen, after the last backward pass of a step. Collective.
  void gather(ops::OpContext& ops);
  // Ends a step, once it is known whether it is skipped (`state`), or starts from a history that was loaded.
  void update(ops::OpContext& ops, TensorView state);

  // The histories as stored in checkpoints, a tensor per layer for its input, its weight and the gradient of
  // its output: [3, length], latest first. Named after the layer, whatever it fuses, or the expert:
  // "fp8.amax/layers.0.attention.qkv", "fp8.amax/layers.1.moe.experts.3.gate_up".
  const std::vector<std::string>& names() const { return names_; }  // of this rank's layers
  TensorView history(std::size_t layer);
  static std::vector<TensorSpec> specs(const nn::ParamSpec& matrices, std::int64_t length, DType type);
  // Whether this rank writes a layer's history to files: the first of the ranks that hold it does.
  bool writes(std::size_t layer) const;

 private:
  // Layers whose histories are held by the same ranks.
  struct Holders {
    const char* name;
    parallel::Group parts, copies;  // ranks that hold parts of a layer, and copies of those
    std::int64_t layers = 0;
    Arena::Id history = {}, amax = {}, seen = {};
  };
  struct Layers {
    std::size_t holders = 0;
    std::int64_t first = 0, count = 0;
  };
  // Calls body(holders) for those that have layers.
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
