#include "token/offset_encoder.h"

#include "base/error.h"
#include "token/stream_decoder.h"
#include "token/tokenizer_data.h"

namespace stoa::token {
namespace {

Tokenizer by_components(const Tokenizer& tokenizer) {
  const TokenizerSpec& spec = tokenizer.spec();
  if (spec.form == SymbolForm::kComponents) return tokenizer;
  require<DataError>(spec.form != SymbolForm::kModel,
                     "a SentencePiece model gives no offsets: they need a tokenizer.json");
  TokenizerSpec out =
      parse_tokenizer_json(spec.original.name == "tokenizer.json" ? spec.original.text : tokenizer_json(spec),
                           TokenizerForms::kComponentsAlone);
  out.added = spec.added;
  return Tokenizer(std::move(out));
}

}  // namespace

struct OffsetEncoder::State {
  explicit State(const Tokenizer& given)
      : tokenizer(by_components(given)),
        before(given.spec().before),
        after(given.spec().after),
        text(*tokenizer.data_->spec.pipeline, tokenizer.data_->raw_finder,
             tokenizer.data_->normalized_finder) {}

  const Tokenizer tokenizer;
  const std::vector<TokenId> before, after;
  PipelineText text;
  std::vector<EncodedToken> tokens;
  std::string storage;
};

OffsetEncoder::OffsetEncoder(const Tokenizer& tokenizer) : state_(std::make_unique<State>(tokenizer)) {}
OffsetEncoder::~OffsetEncoder() = default;

void OffsetEncoder::encode(std::string_view text, EncodeOptions options, Encoding& out) {
  State& s = *state_;
  s.tokens.clear();
  s.text.encode(valid_utf8(text, s.storage), options.plain, s.tokens);
  // What the post-processor trims; what stands around the text may come from tokenizer_config.json.
  if (const PostProcessor* post = s.tokenizer.spec().pipeline->post_processor()) post->apply(s.tokens, false);
  out.ids.clear();
  out.offsets.clear();
  const auto add_all = [&](const std::vector<TokenId>& ids) {
    if (!options.add_special) return;
    for (const TokenId id : ids) out.ids.push_back(id), out.offsets.push_back({0, 0});
  };
  add_all(s.before);
  for (const EncodedToken& t : s.tokens)
    out.ids.push_back(t.id), out.offsets.push_back({t.offsets.begin, t.offsets.end});
  add_all(s.after);
}

}  // namespace stoa::token
