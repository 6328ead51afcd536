#include "nn/module.h"

namespace stoa::nn {

void ParamList::begin_unit(bool block) { blocks_.push_back(block); }

Param ParamList::add(ParamSpec spec) {
  if (blocks_.empty()) begin_unit(false);
  spec.unit = units() - 1;
  spec.trained = !trains_ || trains_(spec);
  if (spec.packable && !spec.trained && packs_) spec.packed = packs_(spec);
  if (spec.is_packed() || (trains_ && spec.trained)) spec.stored = {};
  for (const auto& other : specs_)
    require<InternalError>(other.name != spec.name, "parameter '{}' is declared twice", spec.name);
  specs_.push_back(std::move(spec));
  return tie({static_cast<int>(specs_.size()) - 1});
}

Param ParamList::tie(ParamId id, std::int64_t use) {
  if (!specs_[static_cast<std::size_t>(id.index)].trained) return {id, {}};
  grads_.push_back(id);
  grad_uses_.push_back(use);
  return {id, {static_cast<int>(grads_.size()) - 1}};
}

void ParamList::hold_as_stored(ParamSpec& spec, std::int64_t matrices) const {
  if (!stored_ || matrices == 0) return;
  const std::vector<ShardPiece>& pieces = spec.shard.pieces;
  const std::size_t each = pieces.size() / static_cast<std::size_t>(matrices);
  const std::int64_t rows = spec.shard.local[0] / matrices;
  quant::MatrixShape first;
  for (std::size_t begin = 0; begin < pieces.size(); begin += each) {
    quant::MatrixShape shape;
    shape.columns = spec.shard.local[1];
    for (std::size_t p = begin; p < begin + each; ++p) {
      const ShardPiece& piece = pieces[p];
      const auto found = stored_->find(piece.name);
      if (found == stored_->end()) return;
      // A rank's columns may begin and end where blocks do.
      const std::int64_t block = quant::format_of(found->second).numbers;
      if (piece.column_begin % block != 0 || shape.columns % block != 0 ||
          !quant::matrix_layout(found->second) ||
          piece.memory_row != static_cast<std::int64_t>(begin / each) * rows + shape.rows() ||
          shape.count == quant::MatrixShape::kMostParts)
        return;
      shape.parts[static_cast<std::size_t>(shape.count++)] = {found->second, piece.count};
    }
    if (begin == 0) first = shape;
    if (shape.count == 0 || shape != first) return;
  }
  if (first.count == 0) return;
  // Rows of padding are the last part's.
  first.parts[static_cast<std::size_t>(first.count - 1)].rows += rows - first.rows();
  spec.stored = first;
  spec.stored_matrices = matrices;
}

void ParamList::set_scales(ParamId id, std::vector<ParamScale> scales) {
  ParamSpec& spec = specs_[static_cast<std::size_t>(id.index)];
  require<InternalError>(scales.size() == spec.shard.pieces.size(), "{} scales for the {} pieces of '{}'",
                         scales.size(), spec.shard.pieces.size(), spec.name);
  spec.scales = std::move(scales);
}

}  // namespace stoa::nn
