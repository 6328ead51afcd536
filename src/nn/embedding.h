// Token embedding with learned positions (optional) and dropout: the start of the residual stream.
#pragma once

#include "nn/dropout.h"
#include "nn/module.h"

namespace stoa::nn {

struct EmbeddingOptions {
  std::int64_t vocabulary = 0;         // without padding
  std::int64_t padded_vocabulary = 0;  // rows in memory; those beyond the vocabulary are zero
  std::int64_t hidden = 0;
  std::int64_t positions = 0;  // learned positions; 0: none
  float dropout = 0;
  double deviation = 0.02;
  parallel::TensorPlace place;  // ids are split among the ranks of a tensor-parallel group
};

// Ids that a rank holds, and rows of its matrix in memory: those beyond the ids are padding.
struct VocabularyPart {
  parallel::Part ids;
  std::int64_t rows = 0;
};
VocabularyPart vocabulary_part(std::int64_t vocabulary, std::int64_t padded,
                               const parallel::TensorPlace& place);
// The parameter `name` [vocabulary, hidden] with padding rows in memory.
ParamSpec vocabulary_matrix(std::string name, std::int64_t vocabulary, std::int64_t padded,
                            std::int64_t hidden, double deviation, const parallel::TensorPlace& place);

class Embedding {
 public:
  explicit Embedding(const EmbeddingOptions& options);

  // `tied_apart`: a head on another pipeline rank holds a copy, whose gradient is to be added.
  void declare(ParamList& params, bool tied_apart = false);
  // For a tied head.
  ParamId tokens() const { return tokens_.value; }

  // This rank's rows of the stream [T, hidden], in residual precision.
  void forward(Pass& pass, TensorView out) const;
  void backward(Pass& pass, TensorView dout) const;

 private:
  // The rows of ids, without padding where the table is split.
  TensorView ids_of(TensorView table) const;
  DropoutRows dropout(const Pass& pass) const;

  EmbeddingOptions options_;
  VocabularyPart part_;
  Param tokens_, positions_;
};

}  // namespace stoa::nn
