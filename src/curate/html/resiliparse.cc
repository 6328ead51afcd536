// The rule `resiliparse`: the conditions that Resiliparse's documentation and source name for main content,
// on this tree; it keeps what none of them removes.
#include <algorithm>
#include <array>

#include "curate/html/main_text.h"
#include "curate/html/page_parts.h"

namespace stoa::curate {
namespace {

class Pruner {
 public:
  explicit Pruner(const HtmlTree& tree) : tree_(tree), marks_(mark_all(tree)), links_(mark_links(tree)) {
    sums_.assign(marks_.size() + 1, 0);
    link_sums_.assign(marks_.size() + 1, 0);
    for (NodeId id = 0; id < marks_.size(); ++id) {
      const std::uint64_t own = marks_[id] ? visible_characters(tree[id]) : 0;
      sums_[id + 1] = sums_[id] + own;
      link_sums_[id + 1] = link_sums_[id] + (links_[id] ? own : 0);
    }
  }

  Marks run() {
    for (NodeId id = 1; id < marks_.size();) {
      const bool gone = !tree_[id].is_text && is_no_content(id);
      if (gone) std::fill(marks_.begin() + id, marks_.begin() + tree_[id].end, std::uint8_t{0});
      id = gone ? tree_[id].end : id + 1;
    }
    return std::move(marks_);
  }

 private:
  std::uint64_t characters(NodeId id) const { return sums_[tree_[id].end] - sums_[id]; }
  // A cluster of links: their share of the text.
  bool links_above(NodeId id, double share) const {
    return static_cast<double>(link_sums_[tree_[id].end] - link_sums_[id]) >
           share * static_cast<double>(characters(id));
  }

  bool is_no_content(NodeId id) const {
    const HtmlNode& node = tree_[id];
    const int depth = node.depth - 1;  // below <body>, as a page without <html> begins
    const std::string names = node.attributes.empty()
                                  ? std::string()
                                  : tree_.attribute(id, "class") + ' ' + tree_.attribute(id, "id");
    switch (node.tag) {
      using enum Tag;
      case kHtml:
      case kBody:
      case kMain:
        return false;
      case kNav:
      case kAside:
      case kAudio:
      case kVideo:
      case kTime:
        return true;
      case kFooter:
        if (depth < 5 || links_above(id, 0.2)) return true;
        break;
      case kUl:
        if (depth < 5 || links_above(id, 0.2)) return links_above(id, 0.2);
        break;
      case kArticle:
        if (depth > 4 && links_above(id, 0.2) && characters(id) <= 500) return true;
        break;
      case kDiv:
        if (names.size() <= 1 && depth > 7 && links_above(id, 0.6) && characters(id) <= 800) return true;
        break;
      default:
        break;
    }
    if (node.attributes.empty()) return false;
    if (is_hidden_element(tree_, id) || tree_.attribute(id, "aria-expanded") == "false") return true;
    const std::string rel = tree_.attribute(id, "rel");
    static constexpr std::array<std::string_view, 6> kRelations = {"author", "icon", "search",
                                                                   "prev",   "next", "tag"};
    if (std::find(kRelations.begin(), kRelations.end(), rel) != kRelations.end()) return true;
    return is_block(node.tag) && names.find("article") == names.npos &&
           part_by_name(names) == NamedPart::kBoilerplate;
  }

  const HtmlTree& tree_;
  Marks marks_;
  const Marks links_;
  std::vector<std::uint64_t> sums_, link_sums_;
};

}  // namespace

Marks mark_resiliparse(const HtmlTree& tree) { return Pruner(tree).run(); }

}  // namespace stoa::curate
