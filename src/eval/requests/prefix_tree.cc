#include "eval/requests/prefix_tree.h"

#include <algorithm>
#include <numeric>

namespace stoa::eval {
namespace {

using Nodes = std::vector<std::unique_ptr<PrefixNode>>;

class PrefixTreeMaker {
 public:
  PrefixTreeMaker(std::span<const LabelledText> texts, std::int64_t worth)
      : texts_(texts), worth_(worth), order_(texts.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return std::lexicographical_compare(texts[a].tokens.begin(), texts[a].tokens.end(),
                                          texts[b].tokens.begin(), texts[b].tokens.end());
    });
  }

  Nodes make() {
    Nodes out;
    if (!order_.empty()) split(order_, 0, nullptr, out);
    return out;
  }

 private:
  // Adds the nodes of `range`, texts in order whose first `begin` tokens are those of `parent`.
  void split(std::span<const std::size_t> range, std::int64_t begin, PrefixNode* parent, Nodes& out) {
    const auto first = texts_[range.front()].tokens, last = texts_[range.back()].tokens;
    const std::int64_t common = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first -
                                first.begin();                     // of all between them, too
    if (std::ssize(last) == common || common - begin >= worth_) {  // all are equal, or it is worth a node
      PrefixNode& node = *out.emplace_back(std::make_unique<PrefixNode>());
      node.begin = begin;
      node.end = common;
      node.text = range.front();
      node.parent = parent;
      Nodes children;
      descend(range, common, common, &node, node.texts, children);
      node.children = std::move(children);
      finish(node);
      return;
    }
    std::vector<std::size_t> ends;
    Nodes others;
    descend(range, common, begin, parent, ends, others);
    if (!ends.empty()) {
      PrefixNode& node = *out.emplace_back(std::make_unique<PrefixNode>());
      node.begin = begin;
      node.end = common;
      node.text = ends.front();
      node.texts = std::move(ends);
      node.parent = parent;
      finish(node);
    }
    std::move(others.begin(), others.end(), std::back_inserter(out));
  }

  // Texts of `common` tokens go to `ends`; the others are split by their next token.
  void descend(std::span<const std::size_t> range, std::int64_t common, std::int64_t begin,
               PrefixNode* parent, std::vector<std::size_t>& ends, Nodes& out) {
    const auto next = [&](std::size_t i) { return texts_[i].tokens[static_cast<std::size_t>(common)]; };
    while (!range.empty() && texts_[range.front()].length() == common) {
      ends.push_back(range.front());
      range = range.subspan(1);
    }
    while (!range.empty()) {
      std::size_t count = 1;
      while (count < range.size() && next(range[count]) == next(range.front())) ++count;
      split(range.first(count), begin, parent, out);
      range = range.subspan(count);
    }
  }

  void finish(PrefixNode& node) const {
    node.longest = node.end;
    node.first_scored = node.end;
    for (const std::size_t i : node.texts)
      node.first_scored = std::min(node.first_scored, texts_[i].first_scored());
    for (const auto& child : node.children) {
      node.longest = std::max(node.longest, child->longest);
      node.first_scored = std::min(node.first_scored, child->first_scored);
    }
  }

  const std::span<const LabelledText> texts_;
  const std::int64_t worth_;
  std::vector<std::size_t> order_;
};

}  // namespace

Nodes prefix_tree(std::span<const LabelledText> texts, std::int64_t worth) {
  return PrefixTreeMaker(texts, worth).make();
}

}  // namespace stoa::eval
