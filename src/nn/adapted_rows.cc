#include "nn/adapted_rows.h"

namespace stoa::nn {

LayerAdapters::LayerAdapters(std::shared_ptr<const AdapterPolicy> policy,
                             std::function<TensorView(const std::string&)> value)
    : value_(std::move(value)) {
  params_.begin_unit(true);
  params_.adapt(std::move(policy));
}

const LayerAdapters::Layer& LayerAdapters::of(const LinearOptions& options) {
  const auto [found, is_new] = layers_.try_emplace(options.name);
  if (!is_new) return found->second;
  found->second.low_rank.declare(params_, options);
  found->second.rescaled.declare(params_, options);
  while (values_.size() < params_.specs().size())
    values_.push_back(value_(params_.specs()[values_.size()].name));
  return found->second;
}

}  // namespace stoa::nn
