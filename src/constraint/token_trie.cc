#include "constraint/token_trie.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "constraint/pushdown.h"
#include "token/tokenizer.h"

namespace stoa::constraint {
namespace {

// Longer tokens are never allowed: they are no text that a constraint would ask for.
constexpr std::size_t kLongestToken = 4096;

// The number of characters of a text of ordinary ones; none: it has others, or is not UTF-8.
std::optional<std::size_t> ordinary_count(std::string_view text) {
  const auto chars = characters_of(text);
  if (!chars) return std::nullopt;
  for (const char32_t c : *chars)
    if (!ordinary_characters().contains(c)) return std::nullopt;
  return chars->size();
}

struct Entry {
  std::string_view text;
  std::int32_t id;
  std::uint8_t characters;
};

TokenTrie::Tree tree_of(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.text != b.text ? a.text < b.text : a.id < b.id; });
  TokenTrie::Tree tree;
  std::vector<std::int32_t> open;  // nodes from the root to the last text
  std::string_view before;
  const auto close_to = [&](std::size_t depth) {
    while (open.size() > depth) {
      const auto node = static_cast<std::size_t>(open.back());
      open.pop_back();
      tree.nodes[node].end = static_cast<std::int32_t>(tree.nodes.size());
      if (!open.empty()) {
        auto& above = tree.nodes[static_cast<std::size_t>(open.back())].most_characters;
        above = std::max(above, tree.nodes[node].most_characters);
      }
    }
  };
  for (const Entry& entry : entries) {
    const auto shared = static_cast<std::size_t>(
        std::mismatch(before.begin(), before.end(), entry.text.begin(), entry.text.end()).first -
        before.begin());
    close_to(shared);
    for (std::size_t depth = shared; depth < entry.text.size(); ++depth) {
      open.push_back(static_cast<std::int32_t>(tree.nodes.size()));
      tree.nodes.push_back({static_cast<std::uint8_t>(entry.text[depth]), 0,
                            static_cast<std::uint16_t>(depth), 0,
                            static_cast<std::int32_t>(tree.tokens.size())});
    }
    auto& node = tree.nodes[static_cast<std::size_t>(open.back())];
    node.most_characters = std::max(node.most_characters, entry.characters);
    tree.tokens.push_back(entry.id);
    before = entry.text;
  }
  close_to(0);
  tree.nodes.push_back({.first_token = static_cast<std::int32_t>(tree.tokens.size())});
  return tree;
}

std::vector<std::string> bytes_of_tokens(const token::Tokenizer& tokenizer, std::int64_t vocabulary) {
  std::vector<std::string> texts(static_cast<std::size_t>(vocabulary));
  const std::int64_t known = std::min(vocabulary, tokenizer.vocab_size());
  for (std::int32_t id = 0; id < known; ++id)
    if (!tokenizer.is_special(id)) texts[static_cast<std::size_t>(id)] = tokenizer.token_bytes(id);
  return texts;
}

std::vector<std::int32_t> special_of(const token::Tokenizer& tokenizer, std::int64_t vocabulary) {
  std::vector<std::int32_t> out;
  for (std::int32_t id = 0; id < std::min(vocabulary, tokenizer.vocab_size()); ++id)
    if (tokenizer.is_special(id)) out.push_back(id);
  return out;
}

}  // namespace

TokenTrie::TokenTrie(const token::Tokenizer& tokenizer, std::int64_t vocabulary)
    : TokenTrie(bytes_of_tokens(tokenizer, vocabulary), special_of(tokenizer, vocabulary)) {}

TokenTrie::TokenTrie(std::vector<std::string> texts, const std::vector<std::int32_t>& special)
    : texts_(std::move(texts)) {
  for (std::string& text : texts_)
    // 0xFF is in no text; it begins what stands for special tokens.
    if (text.size() > kLongestToken || text.find('\xFF') != std::string::npos) text.clear();
  for (const std::int32_t id : special) texts_[static_cast<std::size_t>(id)] = special_token_bytes(id);
  up_to_.assign(Pushdown::kMostRun, TokenBits((texts_.size() + 63) / 64));
  std::vector<Entry> ordinary, other;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::string& text = texts_[i];
    if (text.empty()) continue;
    longest_ = std::max(longest_, text.size());
    const auto id = static_cast<std::int32_t>(i);
    const auto count = ordinary_count(text);
    if (!count) {
      other.push_back({text, id, 0});
      continue;
    }
    ordinary.push_back({text, id, static_cast<std::uint8_t>(std::min<std::size_t>(*count, 255))});
    for (std::size_t n = *count; n <= up_to_.size(); ++n)
      up_to_[n - 1][i / 64] |= std::uint64_t{1} << (i % 64);
  }
  ordinary_ = tree_of(std::move(ordinary));
  other_ = tree_of(std::move(other));
}

}  // namespace stoa::constraint
