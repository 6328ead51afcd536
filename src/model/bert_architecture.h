// Encoders of the BERT family: blocks with norms after or before their branches, attention to both sides, a
// masked language model head.
#pragma once

#include "model/architecture.h"

namespace stoa::model {

class BertArchitecture final : public Architecture {
 public:
  static Traits traits(const ModelConfig& config);

  BertArchitecture(const ModelSpec& spec, const ChunkOptions& options) : spec_(spec), options_(options) {}

  std::vector<Constant> constants() const override;
  void declare_shared(nn::ParamList& params) const override;
  std::unique_ptr<nn::Embedding> embedding() const override;
  std::unique_ptr<nn::Block> block(std::int64_t layer) const override;
  std::unique_ptr<nn::Head> head() const override;

 private:
  std::unique_ptr<nn::Block> pre_norm_block(nn::TransformerBlockOptions options, std::int64_t layer) const;
  std::unique_ptr<nn::Head> class_head() const;
  nn::RelativeBiasOptions relative_bias(std::int64_t layer = -1) const;

  const ModelSpec& spec_;
  const ChunkOptions& options_;
};

}  // namespace stoa::model
