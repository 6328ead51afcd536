#include "token/sentencepiece.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "base/error.h"
#include "token/tokenizer_data.h"

namespace stoa::token {
namespace {

namespace spp = sentencepiece;

// Lines of the texts, in the form in which the library pulls them.
class Lines final : public spp::SentenceIterator {
 public:
  explicit Lines(const TextSource& source) : source_(source) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    do {
      done_ = !source_(line_);
    } while (!done_ && line_.find_first_not_of(" \t\r\n") == line_.npos);
    while (!line_.empty() && (line_.back() == '\n' || line_.back() == '\r')) line_.pop_back();
    any_ = any_ || !done_;
  }
  const std::string& value() const override { return line_; }
  spp::util::Status status() const override { return {}; }
  bool any() const { return any_; }

 private:
  const TextSource& source_;
  std::string line_;
  bool done_ = false, any_ = false;
};

// The library's messages begin with its own file, line and condition.
std::string reason_of(const spp::util::Status& status) {
  const std::string text = status.error_message();
  const auto end = text.rfind("] ");
  return end == text.npos ? text : text.substr(end + 2);
}

}  // namespace

struct SentencePiece::Library {
  spp::SentencePieceProcessor processor;
};

SentencePiece::SentencePiece(std::string model) : model_(std::move(model)) {
  auto library = std::make_unique<Library>();
  require<DataError>(!model_.empty() && library->processor.LoadFromSerializedProto(model_).ok(),
                     "not a SentencePiece model ({} bytes)", model_.size());
  library_ = std::move(library);
  // The library shows its settings only in what it does: with a piece of one blank and what follows it.
  const auto& processor = library_->processor;
  for (TokenId id = 0; id < size(); ++id) {
    const std::string_view text = piece(id);
    const bool one_blank = text.starts_with(kSpaceSymbol) && text.size() > kSpaceSymbol.size() &&
                           !text.substr(kSpaceSymbol.size()).starts_with(kSpaceSymbol);
    if (!one_blank || is_control(id) || processor.IsUnknown(id) || processor.IsByte(id)) continue;
    drops_first_blank_ = !processor.DecodeIds(std::vector<int>{id}).starts_with(' ');
    break;
  }
}
SentencePiece::~SentencePiece() = default;

std::int64_t SentencePiece::size() const { return library_->processor.GetPieceSize(); }
const std::string& SentencePiece::piece(TokenId id) const { return library_->processor.IdToPiece(id); }
bool SentencePiece::is_control(TokenId id) const { return library_->processor.IsControl(id); }
TokenId SentencePiece::unk_id() const { return library_->processor.unk_id(); }
TokenId SentencePiece::bos_id() const { return library_->processor.bos_id(); }
TokenId SentencePiece::eos_id() const { return library_->processor.eos_id(); }
TokenId SentencePiece::pad_id() const { return library_->processor.pad_id(); }

void SentencePiece::encode(std::string_view text, std::vector<TokenId>& out) const {
  const std::vector<int> ids = library_->processor.EncodeAsIds(text);
  out.insert(out.end(), ids.begin(), ids.end());
}

std::string train_sentencepiece(const TextSource& source, const SentencePieceTraining& o) {
  Lines lines(source);
  require<DataError>(lines.any(), "no text to train on");
  std::string model;
  const std::unordered_map<std::string, std::string> settings{
      {"model_type", o.kind == SentencePieceKind::kUnigram ? "unigram" : "bpe"},
      {"vocab_size", std::to_string(o.vocab_size)},
      {"character_coverage", fmt::format("{}", o.character_coverage)},
      {"byte_fallback", o.byte_fallback ? "true" : "false"},
      {"num_threads", std::to_string(o.workers)},
      {"pad_id", "0"},
      {"eos_id", "1"},
      {"unk_id", "2"},
      {"bos_id", "-1"},
      {"minloglevel", "2"}};
  const auto status = spp::SentencePieceTrainer::Train(settings, &lines, &model);
  require<ConfigError>(status.ok(), "SentencePiece cannot train a vocabulary of {} on these texts: {}",
                       o.vocab_size, reason_of(status));
  return model;
}

TokenizerSpec sentencepiece_spec(std::shared_ptr<const SentencePiece> model) {
  TokenizerSpec spec;
  spec.form = SymbolForm::kModel;
  const auto add_special = [&](TokenId id, std::string& name) {
    if (id < 0) return;
    name = model->piece(id);
  };
  for (TokenId id = 0; id < model->size(); ++id) {
    spec.vocabulary.push_back(model->piece(id));
    if (model->is_control(id) || id == model->unk_id())
      spec.added.push_back({.id = id, .content = model->piece(id)});
  }
  add_special(model->bos_id(), spec.bos), add_special(model->eos_id(), spec.eos);
  add_special(model->pad_id(), spec.pad), add_special(model->unk_id(), spec.unk);
  if (model->bos_id() >= 0)
    spec.before = {model->bos_id()};
  else if (model->eos_id() >= 0)
    spec.after = {model->eos_id()};
  spec.model = std::move(model);
  return spec;
}

void add_sentinels(std::int64_t count, TokenizerSpec& spec) {
  spec.sentinels = count;
  const auto first = static_cast<TokenId>(spec.vocabulary.size());
  for (std::int64_t k = count - 1; k >= 0; --k)
    spec.added.push_back(
        {.id = first + static_cast<TokenId>(count - 1 - k), .content = fmt::format("<extra_id_{}>", k)});
}

}  // namespace stoa::token
