#include "token/models/bpe_model.h"

#include "token/unicode.h"

namespace stoa::token {

void MergeReader::add(std::string_view left, std::string_view right) {
  const auto id_of = [&](std::string_view token) {
    const TokenId id = vocabulary_.find(token);
    require<DataError>(id >= 0, "merge {} ('{}' '{}'): '{}' is not in the vocabulary", merges_.size(), left,
                       right, token);
    return id;
  };
  const TokenId a = id_of(left), b = id_of(right);
  joined_.assign(left).append(right.substr(std::min(prefix_, right.size())));
  merges_.push_back({a, b, id_of(joined_)});
}

void MergeReader::add_line(std::string_view line) {
  const auto space = line.find(' ');
  require<DataError>(space != line.npos && line.find(' ', space + 1) == line.npos,
                     "merge {} is '{}', expected two tokens with a space between", merges_.size(), line);
  add(line.substr(0, space), line.substr(space + 1));
}

BpeModel::BpeModel(Vocabulary vocabulary, std::vector<Merge> merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  if (options_.byte_fallback) {
    for (int b = 0; b < 256; ++b) byte_ids_.push_back(vocabulary_.find(fmt::format("<0x{:02X}>", b)));
  }
  bpe_ = std::make_unique<const Bpe>(std::vector<TokenId>(256, -1), merges_);
}

std::unique_ptr<const BpeModel> BpeModel::read(json::object o) {
  only_keys(o,
            {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
             "byte_fallback", "ignore_merges", "vocab", "merges"},
            "model");
  BpeOptions options{.unknown = text_member(o, "unk_token", "", "model"),
                     .prefix = text_member(o, "continuing_subword_prefix", "", "model"),
                     .suffix = text_member(o, "end_of_word_suffix", "", "model"),
                     .fuse_unknown = flag(o, "fuse_unk", false, "model"),
                     .byte_fallback = flag(o, "byte_fallback", false, "model"),
                     .ignore_merges = flag(o, "ignore_merges", false, "model")};
  if (const auto dropout = member(o, "dropout"))
    require<DataError>(!dropout->get(options.dropout) && options.dropout >= 0 && options.dropout <= 1,
                       "model.dropout must be a number from 0 to 1");
  Vocabulary vocabulary =
      Vocabulary::read(object_of(required(o, "vocab", "model"), "model.vocab"), "model.vocab");
  MergeReader merges(vocabulary, options.prefix.size());
  for (const json::element merge : array_of(required(o, "merges", "model"), "model.merges")) {
    std::string_view line;
    if (!merge.get(line)) {
      if (!line.starts_with("#version")) merges.add_line(line);
      continue;
    }
    json::array pair;
    std::string_view left, right;
    require<DataError>(
        !merge.get(pair) && pair.size() == 2 && !pair.at(0).get(left) && !pair.at(1).get(right),
        "a merge must be \"left right\" or [\"left\", \"right\"]");
    merges.add(left, right);
  }
  auto made = merges.take();
  return std::make_unique<const BpeModel>(std::move(vocabulary), std::move(made), std::move(options));
}

void BpeModel::encode(std::string_view piece, ModelScratch& s, std::vector<ModelToken>& out) const {
  const auto push = [&](TokenId id, std::uint32_t begin, std::uint32_t end) {
    out.push_back({id, begin, end, vocabulary_.tokens[static_cast<std::size_t>(id)]});
  };
  const auto size = static_cast<std::uint32_t>(piece.size());
  if (options_.ignore_merges) {
    if (const TokenId whole = vocabulary_.find(piece); whole >= 0) return push(whole, 0, size);
  }
  // Symbols and their ends, as the library counts: text without a token takes no space.
  s.ids.clear();
  s.ends.clear();
  std::uint32_t at = 0, unknown_bytes = 0;
  const auto add = [&](TokenId id, std::uint32_t bytes) {
    at += bytes;
    s.ids.push_back(id);
    s.ends.push_back(at);
  };
  TokenId unknown = -1;
  const auto flush_unknown = [&] {
    if (unknown_bytes > 0) add(unknown, unknown_bytes);
    unknown_bytes = 0;
  };
  for (const char *first = piece.data(), *p = first, *end = p + piece.size(); p < end;) {
    const std::uint32_t length = read_utf8(p, end).length;
    const std::string_view character(p, length);
    const bool is_first = p == first;
    p += length;
    std::string_view symbol = character;
    if ((!is_first && !options_.prefix.empty()) || (p == end && !options_.suffix.empty())) {
      s.text.assign(is_first ? "" : options_.prefix).append(character);
      if (p == end) s.text.append(options_.suffix);
      symbol = s.text;
    }
    if (const TokenId id = vocabulary_.find(symbol); id >= 0) {
      flush_unknown();
      add(id, length);
      continue;
    }
    if (options_.byte_fallback) {
      bool all = true;
      for (const char b : symbol) all = all && byte_ids_[static_cast<std::uint8_t>(b)] >= 0;
      if (all) {
        // An unknown character before it comes after it: so does the library.
        for (const char b : symbol) add(byte_ids_[static_cast<std::uint8_t>(b)], 1);
        continue;
      }
    }
    if (options_.unknown.empty()) continue;
    if (unknown < 0) unknown = vocabulary_.find(options_.unknown);
    require<DataError>(unknown >= 0, "'{}' has no token, and neither has the unknown token '{}'", character,
                       options_.unknown);
    if (!options_.fuse_unknown) flush_unknown();
    unknown_bytes += length;
  }
  flush_unknown();
  if (options_.dropout >= 1 || s.ids.size() < 2) {
    for (std::size_t i = 0; i < s.ids.size(); ++i) push(s.ids[i], i == 0 ? 0 : s.ends[i - 1], s.ends[i]);
    return;
  }
  s.places.clear();
  const std::vector<TokenId>& merged = bpe_->merge(s.ids, s.merge, s.places);
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const std::uint32_t next =
        i + 1 < merged.size() ? s.places[i + 1] : static_cast<std::uint32_t>(s.ends.size());
    push(merged[i], s.places[i] == 0 ? 0 : s.ends[s.places[i] - 1], s.ends[next - 1]);
  }
}

}  // namespace stoa::token
