// Token embedding with learned positions (optional) and dropout: the start of the residual stream.
#pragma once

#include "nn/module.h"

namespace stoa::nn {

struct EmbeddingOptions {
  std::int64_t vocabulary = 0;         // without padding
  std::int64_t padded_vocabulary = 0;  // rows in memory; those beyond the vocabulary are zero
  std::int64_t hidden = 0;
  std::int64_t positions = 0;  // learned positions; 0: none
  float dropout = 0;
  double deviation = 0.02;
};

// The parameter `name` [vocabulary, hidden] with padding rows in memory.
ParamSpec vocabulary_matrix(std::string name, std::int64_t vocabulary, std::int64_t padded,
                            std::int64_t hidden, double deviation);

class Embedding {
 public:
  explicit Embedding(EmbeddingOptions options) : options_(options) {}

  void declare(ParamList& params);
  // For a tied head.
  ParamId tokens() const { return tokens_.value; }

  void forward(Pass& pass, TensorView out) const;  // [T, hidden] in residual precision
  void backward(Pass& pass, TensorView dout) const;

 private:
  EmbeddingOptions options_;
  Param tokens_, positions_;
};

}  // namespace stoa::nn
