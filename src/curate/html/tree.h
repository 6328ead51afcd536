// A page as a tree of elements and text. It is lighter than a browser's: tags that are left out are put in
// only where the text depends on it, and what is nested deeper than kDeepest is flattened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "curate/html/tokenizer.h"

namespace stoa::curate {

using NodeId = std::uint32_t;

struct HtmlNode {
  static constexpr NodeId kNone = 0xffffffff;
  Tag tag = Tag::kUnknown;
  bool is_text = false;
  bool is_raw = false;          // text without references
  std::string_view text;        // of text as it is written, of an element its name
  std::string_view attributes;  // as they are written
  NodeId parent = kNone, first = kNone, last = kNone, next = kNone;
  NodeId end = 0;  // one behind the last node inside it; nodes are in the order of the page
  std::uint16_t depth = 0;
};

class HtmlTree {
 public:
  static constexpr std::size_t kDeepest = 400;

  // `html` must outlive the tree.
  explicit HtmlTree(std::string_view html);

  const std::vector<HtmlNode>& nodes() const {
    return nodes_;
  }  // the first is the root, an element without name
  const HtmlNode& operator[](NodeId id) const { return nodes_[id]; }

  // The value of an attribute (lower case), references resolved; empty where there is none.
  std::string attribute(NodeId id, std::string_view name) const;
  bool has_attribute(NodeId id, std::string_view name) const;

 private:
  NodeId append(const HtmlToken& token, bool is_text);
  void open(const HtmlToken& token);
  void close(const HtmlToken& token);
  void close_implied(Tag begins);
  void close_form();
  void pop();
  void pop_to(std::size_t depth);
  // The place in open_ of the innermost element of `tags` inside the innermost one of `bounds`; 0: none.
  std::size_t find_open(std::initializer_list<Tag> tags, std::initializer_list<Tag> bounds) const;

  std::vector<HtmlNode> nodes_;
  std::vector<NodeId> open_;     // from the root inwards
  std::uint64_t flattened_ = 0;  // elements inside the deepest one that are open
  // The form that has begun and not ended (0: none), and those that have ended before what is open in them:
  // they go when that ends. A form begins in no other one.
  NodeId form_ = 0;
  std::vector<NodeId> ended_forms_;
};

}  // namespace stoa::curate
