// Tensors put together out of pieces of those of other sources: a layer of a stacked tensor, the shares of
// tensor-parallel ranks, rows in another order.
#pragma once

#include <memory>
#include <vector>

#include "ckpt/tensor_source.h"

namespace stoa::ckpt {

// `rows` runs of `count` elements each. Run r begins at element from + r from_pitch of `tensor`, which is one
// of `source`, and stands at to + r to_pitch of the tensor that it is a part of.
struct ViewedPart {
  const TensorSource* source = nullptr;
  const TensorEntry* tensor = nullptr;
  std::int64_t rows = 1, count = 0;
  std::int64_t from = 0, from_pitch = 0, to = 0, to_pitch = 0;
};
struct ViewedTensor {
  TensorEntry entry;
  std::vector<ViewedPart> parts;
};

class ViewedSource : public TensorSource {
 public:
  // `alive`: the sources that the parts refer to. DataError: parts that are not of their tensor's type, that
  // reach beyond either side, or that do not make up the tensor.
  ViewedSource(fs::path directory, std::vector<ViewedTensor> tensors,
               std::vector<std::shared_ptr<const TensorSource>> alive);

  std::size_t file_count() const override;
  std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const override;
  bool check_sums() const override;

  // The parts of one of entries().
  const std::vector<ViewedPart>& parts(const TensorEntry& tensor) const;

 private:
  const std::vector<ViewedTensor> tensors_;  // by name
  const std::vector<std::shared_ptr<const TensorSource>> alive_;
};

}  // namespace stoa::ckpt
