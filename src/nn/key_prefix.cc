#include "nn/key_prefix.h"

#include <algorithm>
#include <numeric>

#include "nn/tensor_columns.h"
#include "ops/embedding.h"
#include "ops/moe.h"

namespace stoa::nn {
namespace {

TensorView as_rows(const TensorView& heads) { return heads.reshape({heads.rows(), heads.shape.inner()}); }

}  // namespace

void KeyPrefix::declare(ParamList& params, const Options& options) {
  if (!params.adapters()) return;
  const auto prefix = params.adapters()->prefix();
  if (!prefix) return;
  options_ = options;
  tokens_ = prefix->tokens;
  const std::int64_t d = options.head_size, width = options.groups.count * d;
  ParamSpec spec;
  spec.name = options.layer + ".prefix";
  spec.adapter = true;
  spec.init = {InitKind::kNormal, prefix->deviation};
  spec.shard.local = {2 * tokens_, width};
  std::int64_t row = 0;
  for (const char* what : {".prefix.keys", ".prefix.values"}) {
    ShardPiece piece;
    piece.name = options.layer + what;
    piece.global = {tokens_, options.all_groups * d};
    piece.count = tokens_;
    piece.memory_row = row;
    piece.column_begin = options.groups.begin * d;
    piece.column_count = width;
    piece.shared = options.shared;
    piece.first_copy = options.first_copy;
    row += tokens_;
    spec.shard.pieces.push_back(std::move(piece));
  }
  // Ranks that share heads of keys have other heads of queries each.
  if (options.shared) spec.grad_partial_over.push_back(parallel::Group::kTensor);
  values_ = params.add(std::move(spec));
}

std::vector<double> KeyPrefix::row_numbers(std::int64_t tokens) {
  std::vector<double> out(static_cast<std::size_t>(tokens));
  std::iota(out.begin(), out.end(), 0.0);
  return out;
}

TensorView KeyPrefix::without_virtual(Pass& pass, TensorView rows) const {
  Scratch& scratch = pass.ops.scratch;
  const TensorView out = scratch.allocate(rows.dtype, rows.shape);
  copy_rows(pass, rows, out);
  Scratch::Frame frame(scratch);
  const TensorView ones = pass.constants[static_cast<std::size_t>(options_.minus_ones)],
                   numbers = pass.constants[static_cast<std::size_t>(options_.rows)],
                   weights = scratch.allocate(ones.dtype, {rows.rows(), 1}),
                   negative = scratch.allocate(rows.dtype, rows.shape);
  ops::run(pass.ops, ops::EmbeddingForward{.tokens = pass.batch.tokens,
                                           .table = ones,
                                           .positions = {},
                                           .position_table = {},
                                           .dropout = {},
                                           .y = weights,
                                           .first_id = options_.vocabulary,
                                           .vocabulary = options_.vocabulary + tokens_});
  // A pass may have more rows than a microbatch of training, for which the numbers are.
  for (std::int64_t begin = 0; begin < rows.rows(); begin += numbers.rows()) {
    const std::int64_t count = std::min(numbers.rows(), rows.rows() - begin);
    ops::run(pass.ops, ops::ScaleRows{.x = out.slice(begin, count),
                                      .order = numbers.slice(0, count),
                                      .weights = weights.slice(begin, count),
                                      .y = negative.slice(begin, count)});
  }
  ops::run(pass.ops, ops::AddTo{.x = negative, .y = out});
  return out;
}

void KeyPrefix::replace(Pass& pass, std::int64_t which, TensorView heads) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView rows = as_rows(heads), out = without_virtual(pass, rows),
                   own = pass.ops.scratch.allocate(out.dtype, out.shape);
  ops::run(pass.ops,
           ops::EmbeddingForward{.tokens = pass.batch.tokens,
                                 .table = pass.params.get(values_.value).slice(which * tokens_, tokens_),
                                 .positions = {},
                                 .position_table = {},
                                 .dropout = {},
                                 .y = own,
                                 .first_id = options_.vocabulary,
                                 .vocabulary = options_.vocabulary + tokens_});
  ops::run(pass.ops, ops::AddTo{.x = own, .y = out});
  copy_rows(pass, out, rows);
}

void KeyPrefix::backward(Pass& pass, TensorView dkeys, TensorView dvalues) const {
  TensorView target;
  if (values_.trained()) {
    const GradTarget own = pass.grads->target(values_.grad);
    target = own.tensor;
    if (!own.accumulate) ops::run(pass.ops, ops::FillZero{target});
  }
  std::int64_t row = 0;
  for (const TensorView& heads : {dkeys, dvalues}) {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView rows = as_rows(heads);
    if (target) {
      const TensorView dy = pass.ops.scratch.allocate(rows.dtype, rows.shape);
      copy_rows(pass, rows, dy);
      ops::run(pass.ops, ops::EmbeddingBackward{.tokens = pass.batch.tokens,
                                                .positions = {},
                                                .dropout = {},
                                                .dy = dy,
                                                .dtable = target.slice(row, tokens_),
                                                .dposition_table = {},
                                                .first_id = options_.vocabulary,
                                                .vocabulary = options_.vocabulary + tokens_});
    }
    copy_rows(pass, without_virtual(pass, rows), rows);
    row += tokens_;
  }
  if (target) pass.grads->notify(values_.grad);
}

}  // namespace stoa::nn
