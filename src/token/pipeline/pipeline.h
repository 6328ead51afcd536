// The components of a tokenizer.json at work: normalizer, pre-tokenizer, model, post-processor, decoder, as
// Hugging Face tokenizers runs them, with the same offsets.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "token/added_tokens.h"
#include "token/decoders/decoder.h"
#include "token/models/model.h"
#include "token/normalizers/normalizer.h"
#include "token/post_processors/post_processor.h"
#include "token/pre_tokenizers/pre_tokenizer.h"

namespace stoa::token {

// All components but the model, which is large. What a file does not have is null.
struct PipelineParts {
  Tables tables;
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const Decoder> decoder;

  // DataError names what is malformed or unknown.
  static PipelineParts read(json::object root);
};

// Immutable; used by several threads, each with its PipelineText.
class Pipeline {
 public:
  // `identity`: the components as compact JSON, for the fingerprint. `post_processor` may be null.
  Pipeline(PipelineParts parts, std::unique_ptr<const Model> model,
           std::unique_ptr<const PostProcessor> post_processor, std::string identity);

  const PipelineParts& parts() const { return parts_; }
  const Model& model() const { return *model_; }
  const PostProcessor* post_processor() const { return post_processor_.get(); }
  const std::string& identity() const { return identity_; }

  std::string normalized(std::string_view utf8) const;
  // The text of tokens; without a decoder they stand with blanks between.
  std::string decoded(std::vector<std::string> tokens) const;

 private:
  const PipelineParts parts_;
  const std::unique_ptr<const Model> model_;
  const std::unique_ptr<const PostProcessor> post_processor_;
  const std::string identity_;
};

// Cuts texts on one thread. The added tokens are those of the tokenizer, which may have more than its file.
class PipelineText {
 public:
  PipelineText(const Pipeline& pipeline, const AddedTokenFinder& raw, const AddedTokenFinder& normalized)
      : pipeline_(&pipeline), raw_(&raw), normalized_(&normalized) {}

  // Pieces of `utf8` for the model, and added tokens; valid until the next call. `plain`: special tokens
  // written in the text are text.
  const Pieces& cut(std::string_view utf8, bool plain);
  // Appends all tokens with their offsets in characters; their texts are valid until the next call.
  void encode(std::string_view utf8, bool plain, std::vector<EncodedToken>& out);

 private:
  const Pipeline* pipeline_;
  const AddedTokenFinder *raw_, *normalized_;
  Pieces pieces_;
  PieceScratch scratch_;
  ModelScratch model_scratch_;
  std::vector<ModelToken> tokens_;
  std::vector<AddedTokenFinder::Piece> found_, inner_;
};

}  // namespace stoa::token
