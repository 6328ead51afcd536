// Decoders of the GPT family: pre-norm blocks, causal attention, a language model head.
#pragma once

#include "model/architecture.h"

namespace stoa::model {

class GptArchitecture final : public Architecture {
 public:
  static Traits traits(const ModelConfig& config);

  GptArchitecture(const ModelSpec& spec, const ChunkOptions& options) : spec_(spec), options_(options) {}

  std::vector<Constant> constants() const override;
  std::unique_ptr<nn::Embedding> embedding() const override;
  std::unique_ptr<nn::Block> block(std::int64_t layer) const override;
  std::unique_ptr<nn::Head> head() const override;

 private:
  std::vector<Constant> block_constants() const;

  const ModelSpec& spec_;
  const ChunkOptions& options_;
};

}  // namespace stoa::model
