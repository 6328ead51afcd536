// One pass whose rows belong to different adapters of a model: a linear layer multiplies all of them by its
// matrix at once, and adds to each row what the row's own adapter adds to the layer (S-LoRA, 2311.03285).
// Rows get the bits that a pass of their adapter alone gives them where the backend keeps rows apart.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nn/adapter_policy.h"
#include "nn/linear_options.h"
#include "nn/low_rank.h"
#include "nn/module.h"
#include "nn/rescaled.h"

namespace stoa::nn {

// What an adapter adds to the linear layers of a model, and its values.
class LayerAdapters final : public ParamAccess {
 public:
  // `value`: of the adapter's parameter of that name; called once for each, in the first pass.
  LayerAdapters(std::shared_ptr<const AdapterPolicy> policy,
                std::function<TensorView(const std::string&)> value);

  struct Layer {
    LowRank low_rank;
    Rescaled rescaled;
    bool any() const { return low_rank || rescaled; }
    // Whether it is added to the product of rows that others share.
    bool joins() const { return !low_rank.has_magnitudes() && !rescaled; }
  };
  // What the layer with these options gets; its parameters are those of get().
  const Layer& of(const LinearOptions& options);
  TensorView get(ParamId id) override { return values_[static_cast<std::size_t>(id.index)]; }

 private:
  ParamList params_;
  const std::function<TensorView(const std::string&)> value_;
  std::unordered_map<std::string, Layer> layers_;  // by name
  std::vector<TensorView> values_;                 // of params_
};

// Rows of one adapter, or of the model itself (null). Those of Pass::adapted stand one behind the other and
// are all rows of the pass.
struct AdapterRun {
  std::int64_t begin = 0, count = 0;
  LayerAdapters* adapter = nullptr;
};

}  // namespace stoa::nn
