// The tensors of a model whose vocabulary grows: matrices of tokens get rows for the new ones, each the mean
// of the old.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "ckpt/tensor_source.h"

namespace stoa::ckpt {

// Tokens from `first` on, `count` of them, are new: rows of them that files have, as padding, are not used.
struct NewTokens {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
};

class GrownRows final : public TensorSource {
 public:
  // `matrices`: names of the tensors [tokens, …] that grow. DataError: one that has fewer rows than
  // `tokens.first`, or that is no floating-point tensor.
  GrownRows(std::shared_ptr<const TensorSource> source, std::span<const std::string> matrices,
            NewTokens tokens);

  std::size_t file_count() const override { return source_->file_count(); }
  std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const override;
  std::optional<Blocks> blocks(const TensorEntry& tensor) const override {
    return grown_.contains(tensor.name) ? std::nullopt : source_->blocks(tensor);
  }
  bool check_sums() const override { return source_->check_sums(); }

 private:
  struct Grown {
    TensorEntry entry;
    const TensorEntry* stored;
    std::int64_t columns = 1;
    std::vector<std::byte> mean;  // one row as stored
  };
  void take_mean(Grown& grown) const;

  std::shared_ptr<const TensorSource> source_;
  const NewTokens tokens_;
  std::map<std::string, Grown, std::less<>> grown_;
};

}  // namespace stoa::ckpt
