// Encoder-decoders of the T5 family: pre-norm blocks over a stream that holds both sequences, relative
// position bias, a language model head on the target.
#pragma once

#include "model/architecture.h"

namespace stoa::model {

class T5Architecture final : public Architecture {
 public:
  static Traits traits(const ModelConfig& config);

  T5Architecture(const ModelSpec& spec, const ChunkOptions& options) : spec_(spec), options_(options) {}

  std::vector<Constant> constants() const override;
  void declare_shared(nn::ParamList& params) const override;
  std::unique_ptr<nn::Embedding> embedding() const override;
  std::unique_ptr<nn::Block> block(std::int64_t layer) const override;
  std::unique_ptr<nn::Head> head() const override;

 private:
  const ModelSpec& spec_;
  const ChunkOptions& options_;
};

}  // namespace stoa::model
