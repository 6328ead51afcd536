#include "token/models/words.h"

#include <algorithm>

#include "token/unicode.h"

namespace stoa::token {

WordLevel::WordLevel(Vocabulary vocabulary, std::string unknown)
    : vocabulary_(std::move(vocabulary)),
      unknown_(std::move(unknown)),
      unknown_id_(vocabulary_.find(unknown_)) {}

std::unique_ptr<const WordLevel> WordLevel::read(json::object o) {
  only_keys(o, {"type", "vocab", "unk_token"}, "model");
  return std::make_unique<const WordLevel>(
      Vocabulary::read(object_of(required(o, "vocab", "model"), "model.vocab"), "model.vocab"),
      text_member(o, "unk_token", "<unk>", "model"));
}

void WordLevel::encode(std::string_view piece, ModelScratch&, std::vector<ModelToken>& out) const {
  const auto end = static_cast<std::uint32_t>(piece.size());
  const auto found = vocabulary_.ids.find(piece);
  if (found != vocabulary_.ids.end()) return out.push_back({found->second, 0, end, found->first});
  require<DataError>(unknown_id_ >= 0, "the word '{}' has no token, and neither has the unknown token '{}'",
                     piece, unknown_);
  out.push_back({unknown_id_, 0, end, unknown_});
}

WordPieceModel::WordPieceModel(Vocabulary vocabulary, std::string unknown, std::string prefix,
                               std::uint64_t max_characters)
    : vocabulary_(std::move(vocabulary)),
      unknown_(std::move(unknown)),
      prefix_(std::move(prefix)),
      unknown_id_(vocabulary_.find(unknown_)),
      max_characters_(max_characters) {
  for (const auto& [token, id] : vocabulary_.ids) longest_ = std::max(longest_, token.size());
}

std::unique_ptr<const WordPieceModel> WordPieceModel::read(json::object o) {
  only_keys(o, {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
            "model");
  return std::make_unique<const WordPieceModel>(
      Vocabulary::read(object_of(required(o, "vocab", "model"), "model.vocab"), "model.vocab"),
      text_member(o, "unk_token", "[UNK]", "model"),
      text_member(o, "continuing_subword_prefix", "##", "model"),
      count_member(o, "max_input_chars_per_word", 100, 1'000'000, "model"));
}

void WordPieceModel::encode(std::string_view piece, ModelScratch& s, std::vector<ModelToken>& out) const {
  const auto continues = [](char c) { return (static_cast<std::uint8_t>(c) & 0xC0) == 0x80; };
  const auto size = static_cast<std::uint32_t>(piece.size());
  const std::size_t before = out.size();
  const auto unknown = [&] {
    require<DataError>(unknown_id_ >= 0, "the word '{}' has no pieces, and the unknown token '{}' is none",
                       piece, unknown_);
    out.resize(before);
    out.push_back({unknown_id_, 0, size, unknown_});
  };
  const auto characters = static_cast<std::uint64_t>(
      std::count_if(piece.begin(), piece.end(), [&](char c) { return !continues(c); }));
  if (characters > max_characters_) return unknown();
  for (std::uint32_t begin = 0; begin < size;) {
    const std::size_t lead = begin > 0 ? prefix_.size() : 0;
    std::uint32_t end = static_cast<std::uint32_t>(
        std::min<std::size_t>(size, begin + (longest_ > lead ? longest_ - lead : 0)));
    while (end > begin && end < size && continues(piece[end])) --end;
    s.text.assign(begin > 0 ? prefix_ : "").append(piece, begin, end - begin);
    auto found = vocabulary_.ids.end();
    for (; end > begin; s.text.resize(lead + (end - begin))) {
      found = vocabulary_.ids.find(s.text);
      if (found != vocabulary_.ids.end()) break;
      do --end;
      while (end > begin && continues(piece[end]));
    }
    if (end == begin) return unknown();
    out.push_back({found->second, begin, end, found->first});
    begin = end;
  }
}

}  // namespace stoa::token
