// Encoders of the BERT family: post-norm blocks, attention to both sides, a masked language model head.
#pragma once

#include "model/architecture.h"

namespace stoa::model {

class BertArchitecture final : public Architecture {
 public:
  BertArchitecture(const Gpt& gpt, const ChunkOptions& options) : gpt_(gpt), options_(options) {}

  std::unique_ptr<nn::Embedding> embedding() const override;
  std::unique_ptr<nn::Block> block(std::int64_t layer) const override;
  std::unique_ptr<nn::Head> head() const override;

 private:
  std::unique_ptr<nn::Head> class_head() const;

  const Gpt& gpt_;
  const ChunkOptions& options_;
};

}  // namespace stoa::model
