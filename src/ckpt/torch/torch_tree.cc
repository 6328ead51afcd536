#include "ckpt/torch/torch_tree.h"

#include "base/error.h"

namespace stoa::ckpt::torch {

TorchTree::TorchTree(const fs::path& path) : TensorSource(path), file_(path) { collect(); }

TorchTree::TorchTree(std::span<const std::byte> bytes, const std::string& source)
    : TensorSource(source), file_(bytes, source) {
  collect();
}

void TorchTree::collect() {
  std::string name;
  walk(file_.root(), name, 0);
  set_entries(in_order_);
}

// Lists may hold themselves: both bounds end the walk.
void TorchTree::walk(const Value& value, std::string& name, int depth) {
  require<DataError>(depth <= kMostDepth && ++nodes_ <= kMostNodes,
                     "'{}' is a tree of more than {} values or {} levels, which no checkpoint is",
                     file_.source(), kMostNodes, kMostDepth);
  const std::size_t length = name.size();
  const auto step = [&](const std::string& key, const Value& child) {
    if (!name.empty()) name += '.';
    name += key;
    walk(child, name, depth + 1);
    name.resize(length);
  };
  switch (value.kind()) {
    case ValueKind::kDict:
      for (std::size_t i = 0; i < value.size(); ++i) {
        const Value key = value.key(i);
        if (key.is(ValueKind::kString))
          step(std::string(key.text()), value.value(i));
        else if (key.is(ValueKind::kInt))
          step(std::to_string(key.integer()), value.value(i));
        else  // such as a pair of types
          step(fmt::format("#{}", i), value.value(i));
      }
      break;
    case ValueKind::kList:
    case ValueKind::kTuple:
      for (std::size_t i = 0; i < value.size(); ++i) step(std::to_string(i), value[i]);
      break;
    case ValueKind::kTensor: {
      const TensorValue& tensor = value.tensor();
      if (!tensor.type->stored) break;
      TensorEntry entry;
      entry.name = name;
      entry.shape = tensor.shape;
      entry.type = *tensor.type->stored;
      const auto [it, added] =
          tensors_.try_emplace(name, std::make_unique<Tensor>(Tensor{std::move(entry), &tensor}));
      if (added) in_order_.push_back(&it->second->entry);
      break;
    }
    default:
      break;
  }
}

std::span<const std::byte> TorchTree::elements(const TensorEntry& tensor, std::int64_t begin,
                                               std::int64_t end, std::vector<std::byte>& scratch) const {
  return file_.elements(*tensors_.at(tensor.name)->value, begin, end, scratch);
}

}  // namespace stoa::ckpt::torch
