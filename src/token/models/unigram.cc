#include "token/models/unigram.h"

#include <algorithm>
#include <limits>

#include "token/unicode.h"

namespace stoa::token {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least probable token

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, TokenId unknown, bool byte_fallback)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      unknown_(unknown),
      byte_fallback_(byte_fallback) {
  double least = std::numeric_limits<double>::infinity();
  for (const double score : scores_)
    if (score < least) least = score;
  unknown_score_ = least - kUnknownPenalty;
  for (int b = 0; b < 256; ++b)
    byte_ids_[static_cast<std::size_t>(b)] =
        byte_fallback ? vocabulary_.find(fmt::format("<0x{:02X}>", b)) : -1;
  build();
}

void Unigram::build() {
  std::vector<std::pair<std::string_view, TokenId>> sorted;
  sorted.reserve(vocabulary_.ids.size());
  for (const auto& [token, id] : vocabulary_.ids)
    if (!token.empty()) sorted.emplace_back(token, id);
  std::sort(sorted.begin(), sorted.end());
  struct Range {
    std::uint32_t node;
    std::size_t begin, end, depth;
  };
  nodes_.push_back({});
  labels_.push_back(0);
  std::vector<Range> todo{{0, 0, sorted.size(), 0}};
  for (std::size_t done = 0; done < todo.size(); ++done) {
    Range range = todo[done];
    if (range.begin < range.end && sorted[range.begin].first.size() == range.depth)
      nodes_[range.node].token = sorted[range.begin++].second;
    nodes_[range.node].first = static_cast<std::uint32_t>(nodes_.size());
    while (range.begin < range.end) {
      const char label = sorted[range.begin].first[range.depth];
      std::size_t end = range.begin;
      while (end < range.end && sorted[end].first[range.depth] == label) ++end;
      todo.push_back({static_cast<std::uint32_t>(nodes_.size()), range.begin, end, range.depth + 1});
      nodes_.push_back({});
      labels_.push_back(static_cast<std::uint8_t>(label));
      ++nodes_[range.node].count;
      range.begin = end;
    }
  }
  for (std::uint32_t i = 0; i < nodes_[0].count; ++i)
    roots_[labels_[nodes_[0].first + i]] = nodes_[0].first + i;
}

std::unique_ptr<const Unigram> Unigram::read(json::object o) {
  only_keys(o, {"type", "unk_id", "vocab", "byte_fallback"}, "model");
  Vocabulary vocabulary;
  std::vector<double> scores;
  const json::array list = array_of(required(o, "vocab", "model"), "model.vocab");
  for (const json::element e : list) {
    json::array pair;
    std::string_view token;
    double score = 0;
    require<DataError>(!e.get(pair) && pair.size() == 2 && !pair.at(0).get(token) && !pair.at(1).get(score),
                       "model.vocab, entry {}: expected [\"token\", score]", scores.size());
    vocabulary.ids[std::string(token)] = static_cast<TokenId>(scores.size());
    vocabulary.tokens.emplace_back(token);
    scores.push_back(as_tokenizers_reads(score));
  }
  require<DataError>(!scores.empty(), "model.vocab is empty");
  TokenId unknown = -1;
  if (const auto id = member(o, "unk_id")) {
    std::uint64_t value = 0;
    require<DataError>(!id->get(value) && value < scores.size(), "model.unk_id must be below the {} tokens",
                       scores.size());
    unknown = static_cast<TokenId>(value);
  }
  return std::make_unique<const Unigram>(std::move(vocabulary), std::move(scores), unknown,
                                         flag(o, "byte_fallback", false, "model"));
}

// One result: a token, or a run of unknown characters.
void Unigram::emit(std::string_view text, std::uint32_t begin, ModelScratch&,
                   std::vector<ModelToken>& out) const {
  const auto end = begin + static_cast<std::uint32_t>(text.size());
  if (const TokenId id = vocabulary_.find(text); id >= 0) return out.push_back({id, begin, end, text});
  const bool bytes = byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char b) {
                       return byte_ids_[static_cast<std::uint8_t>(b)] >= 0;
                     });
  if (bytes) {
    for (const char b : text) {
      const TokenId id = byte_ids_[static_cast<std::uint8_t>(b)];
      out.push_back({id, begin, end, vocabulary_.tokens[static_cast<std::size_t>(id)]});
    }
    return;
  }
  require<DataError>(unknown_ >= 0, "'{}' has no token, and the vocabulary has none for the unknown", text);
  out.push_back({unknown_, begin, end, text});
}

void Unigram::encode(std::string_view piece, ModelScratch& s, std::vector<ModelToken>& out) const {
  constexpr auto kNowhere = std::numeric_limits<std::uint32_t>::max();
  const auto size = static_cast<std::uint32_t>(piece.size());
  s.best.assign(size + std::size_t{1}, {0, kNowhere, -1});
  const auto offer = [&](std::uint32_t begin, std::uint32_t end, double score, TokenId id) {
    auto& best = s.best[end];
    if (best.begin != kNowhere && !(score > best.score)) return;
    best = {score, begin, id};
  };
  for (std::uint32_t at = 0; at < size;) {
    const double here = s.best[at].score;
    const std::uint32_t length = read_utf8(piece.data() + at, piece.data() + size).length;
    bool single = false;
    std::uint32_t node = roots_[static_cast<std::uint8_t>(piece[at])];
    for (std::uint32_t end = at + 1; node != 0; ++end) {
      if (const TokenId id = nodes_[node].token; id >= 0) {
        offer(at, end, scores_[static_cast<std::size_t>(id)] + here, id);
        single = single || end - at == length;
      }
      if (end == size) break;
      const auto first = labels_.begin() + nodes_[node].first, last = first + nodes_[node].count;
      const auto found = std::lower_bound(first, last, static_cast<std::uint8_t>(piece[end]));
      node = found != last && *found == static_cast<std::uint8_t>(piece[end])
                 ? static_cast<std::uint32_t>(found - labels_.begin())
                 : 0;
    }
    if (!single) {
      require<DataError>(unknown_ >= 0 || s.best[at + length].begin != kNowhere,
                         "'{}' has no token, and the vocabulary has none for the unknown",
                         piece.substr(at, length));
      offer(at, at + length, unknown_score_ + here, unknown_);
    }
    at += length;
  }
  // From the end to the front; unknown characters that touch are one.
  s.places.clear();
  for (std::uint32_t end = size; end > 0;) {
    const auto& best = s.best[end];
    std::uint32_t begin = best.begin;
    if (best.id == unknown_)
      while (begin > 0 && s.best[begin].id == unknown_) begin = s.best[begin].begin;
    s.places.push_back(end);
    end = begin;
  }
  std::uint32_t begin = 0;
  for (auto end = s.places.rbegin(); end != s.places.rend(); ++end) {
    emit(piece.substr(begin, *end - begin), begin, s, out);
    begin = *end;
  }
}

}  // namespace stoa::token
