// One vector per text from the final states of a model: the mean over the tokens, or the state of the first
// or last, as configured in a sentence-transformers directory.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "device/device_transfer.h"
#include "infer/encoder_rank.h"
#include "infer/sentence_files.h"

namespace stoa::infer {

struct EmbeddingOptions {
  // None: what the model's 1_Pooling says, else the mean; of a decoder the last token's.
  std::optional<Pooling> pooling;
  std::int64_t max_length = 0;  // longer texts are cut to this many tokens; 0: what the model says
};

class TextEmbedder {
 public:
  using Emit = std::function<void(std::span<const double> vector)>;
  // `emit`: called once per text, in the order of add(). ConfigError: an encoder-decoder, another pooling, or
  // a length beyond what the model reads. `model` outlives this.
  TextEmbedder(OpenModel& model, const EmbeddingOptions& options, Emit emit);

  // Texts wait until a pass is full. DataError: the tokenizer gives no token.
  void add(std::string_view text);
  void flush();

  // The ids of a text as the model reads it, at most longest(); on any thread. DataError as above.
  std::vector<std::int32_t> ids_of(std::string_view text) const;
  // Emits the vectors of concatenated texts of such ids, at most pass_tokens() in all.
  void read(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths, const Emit& emit);
  // A thread other than the one that made it calls it before read().
  void use_in_this_thread() { stoa::use_in_this_thread(*rank_->chunk().machine().device); }
  std::int64_t pass_tokens() const { return rank_->options().pass_tokens; }

  std::int64_t shortened() const { return shortened_; }  // texts that were cut
  std::int64_t longest() const { return longest_; }
  // Whether the model's directory says that its vectors are scaled to length 1; they are not when emitted.
  bool normalises() const { return normalises_; }

 private:
  // `shortened`: whether the text was cut.
  std::vector<std::int32_t> ids_of(std::string_view text, bool& shortened) const;

  const Emit emit_;
  const std::unique_ptr<EncoderRank> rank_;
  const token::Tokenizer& tokenizer_;
  const bool decoder_;
  Pooling pooling_ = Pooling::kMean;
  bool normalises_ = false;
  std::int64_t longest_ = 0, shortened_ = 0;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace stoa::infer
