// The text of a page that a reader came for, without menus, advertisements and the like.
//
//   stoa         within the element that says it is the content, if one does, elements that are no content by
//                their kind, role or name go; of the blocks that are left the stretch of them with the most
//                text outside of links stays (maximum subsequence segmentation, Pasternack and Roth 2009)
//   justext      jusText 3.0's rules: length, links and stop words of a paragraph, then its neighbours (see
//   the
//                thesis of Pomikalek 2011)
//   resiliparse  the elements that Resiliparse 2.0 takes for main content
//   union        what stoa or justext keeps
//   all          everything that is shown
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "config/schema.h"
#include "curate/html/tree.h"

namespace stoa::curate {

enum class MainText { kStoa, kJustext, kResiliparse, kUnion, kAll };
std::span<const config::EnumName<MainText>> enum_names(MainText);

using StopWords = std::unordered_set<std::string>;  // lower case

class MainTextExtractor {
 public:
  // `stop_words`: a file of one word per line for justext and union; empty: the English ones.
  MainTextExtractor(MainText rule, const std::string& stop_words);
  // Valid UTF-8 in, valid UTF-8 out: blocks end with a line end, paragraphs with a blank line, cells of a
  // table are set off by " | ", items of a list begin with "- " or their number, preformatted text stays as
  // it is. `title`: of the page; empty where it has none.
  std::string operator()(std::string_view html, std::string& title) const;

 private:
  const MainText rule_;
  StopWords stop_words_;
};

// For every node whether its text stays. Text nodes alone count.
using Marks = std::vector<std::uint8_t>;
Marks mark_all(const HtmlTree& tree);
Marks mark_main(const HtmlTree& tree);
Marks mark_resiliparse(const HtmlTree& tree);
Marks mark_justext(const HtmlTree& tree, const StopWords& stop_words);

// What is marked, laid out.
std::string render(const HtmlTree& tree, const Marks& marks);

// For every node whether it stands in a link.
Marks mark_links(const HtmlTree& tree);
// Text of a node with its references resolved; `buffer` is its memory where there are any.
std::string_view resolved_text(const HtmlNode& text, std::string& buffer);
// Characters of text without white space, references resolved.
std::uint32_t visible_characters(const HtmlNode& text);
// Whether the element is never shown as text: scripts, styles, controls of forms, embedded objects.
bool is_hidden_kind(Tag tag);

std::string title_of(const HtmlTree& tree);

// Calls enter(id) at the beginning of every node and leave(id) at the end of every element, in the order of
// the page, the root aside.
template <class Enter, class Leave>
void walk(const HtmlTree& tree, Enter&& enter, Leave&& leave) {
  std::vector<NodeId> open{0};
  for (NodeId id = 1; id < tree.nodes().size(); ++id) {
    while (open.back() != tree[id].parent) {
      leave(open.back());
      open.pop_back();
    }
    enter(id);
    if (!tree[id].is_text) open.push_back(id);
  }
  for (; open.size() > 1; open.pop_back()) leave(open.back());
}

}  // namespace stoa::curate
