#include "nn/token_rows.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "nn/pass.h"
#include "ops/elementwise.h"

namespace stoa::nn {

TokenRows::TokenRows(std::vector<std::int64_t> tokens, const Options& options)
    : tokens_(std::move(tokens)), options_(options) {
  for (std::int64_t row = 0; row < count(); ++row) {
    const std::int64_t id = tokens_[static_cast<std::size_t>(row)];
    if (id < options_.ids.begin || id >= options_.ids.begin + options_.ids.count) continue;
    if (!runs_.empty() && runs_.back().id + runs_.back().count == id)
      ++runs_.back().count;
    else
      runs_.push_back({row, id, 1});
  }
}

ParamSpec TokenRows::spec(const char* name) const {
  ParamSpec out;
  out.name = name;
  out.shard = ShardSpec::whole(name, {count(), options_.hidden});
  out.shard.pieces[0].shared = options_.place.split();
  out.shard.pieces[0].first_copy = options_.place.rank == 0;
  out.adapter = true;
  out.init = {InitKind::kNormal, options_.deviation};
  if (options_.place.split()) out.grad_partial_over.push_back(parallel::Group::kTensor);
  return out;
}

void TokenRows::declare(ParamList& params, const char* name, bool tied_apart) {
  ParamSpec own = spec(name);
  if (tied_apart) own.grad_partial_over.push_back(parallel::Group::kEmbedding);
  rows_ = params.add(std::move(own));
}

void TokenRows::tie(ParamList& params) {
  const auto& specs = params.specs();
  const auto found =
      std::find_if(specs.begin(), specs.end(), [](const auto& one) { return one.name == kEmbedding; });
  require<InternalError>(found != specs.end(), "a tied head before its embedding");
  rows_ = params.tie({static_cast<int>(found - specs.begin())});
}

TensorView TokenRows::target(Pass& pass) const {
  const GradTarget out = pass.grads->target(rows_.grad);
  if (!out.accumulate) ops::run(pass.ops, ops::FillZero{.y = out.tensor});
  return out.tensor;
}

std::vector<double> TokenRows::renumbered(const std::vector<std::int64_t>& tokens, std::int64_t vocabulary) {
  std::vector<double> out(static_cast<std::size_t>(vocabulary));
  std::iota(out.begin(), out.end(), 0.0);
  for (std::size_t row = 0; row < tokens.size(); ++row)
    out[static_cast<std::size_t>(tokens[row])] =
        static_cast<double>(vocabulary + static_cast<std::int64_t>(row));
  return out;
}

}  // namespace stoa::nn
