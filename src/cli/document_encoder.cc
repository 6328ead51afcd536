#include "cli/document_encoder.h"

#include "token/encoder.h"

namespace stoa::cli {
namespace {

class EncoderSession final : public data::DocumentEncoder::Session {
 public:
  EncoderSession(const token::Tokenizer& tokenizer, token::EncodeOptions options)
      : encoder_(tokenizer), options_(options) {}
  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    encoder_.encode(text, options_, ids);
  }

 private:
  token::Encoder encoder_;
  const token::EncodeOptions options_;
};

}  // namespace

std::unique_ptr<data::DocumentEncoder::Session> TokenizerEncoder::session() const {
  return std::make_unique<EncoderSession>(tokenizer_, options_);
}

}  // namespace stoa::cli
