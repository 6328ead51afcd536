// Texts as a tree of what they have in common at their beginning, so that a model reads each beginning once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace stoa::eval {

// Tokens that are read, and which token follows each of the last `labels.size()` of them.
struct LabelledText {
  std::span<const std::int32_t> tokens, labels;

  std::int64_t length() const { return std::ssize(tokens); }
  std::int64_t first_scored() const { return std::ssize(tokens) - std::ssize(labels); }
};

// Tokens [begin, end) of every text in and below the node.
struct PrefixNode {
  std::int64_t begin = 0, end = 0;
  std::size_t text = 0;            // one that begins so
  std::vector<std::size_t> texts;  // that end here
  std::vector<std::unique_ptr<PrefixNode>> children;
  PrefixNode* parent = nullptr;
  // The longest of the texts in and below, and the first of their tokens whose successor is a label.
  std::int64_t longest = 0, first_scored = 0;
};

// The children of a root of no tokens, in the order of their tokens. A beginning is shared if it is longer
// than what the nodes above hold by at least `worth` tokens.
std::vector<std::unique_ptr<PrefixNode>> prefix_tree(std::span<const LabelledText> texts, std::int64_t worth);

}  // namespace stoa::eval
