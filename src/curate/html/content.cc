// The rule `stoa`.
#include <algorithm>

#include "curate/html/main_text.h"
#include "curate/html/page_parts.h"

namespace stoa::curate {
namespace {

// A piece of the page without a block inside.
struct Block {
  NodeId begin = 0, end = 0;  // nodes
  std::uint32_t characters = 0, in_links = 0;
  Tag tag = Tag::kUnknown;  // the innermost block that holds it
};

constexpr double kSmallPart = 0.5;  // of the text of a page: an element named as boilerplate holds less

class ContentFinder {
 public:
  explicit ContentFinder(const HtmlTree& tree)
      : tree_(tree), links_(mark_links(tree)), marks_(mark_all(tree)), lengths_(tree.nodes().size()) {}

  Marks run() {
    for (NodeId id = 0; id < lengths_.size(); ++id)
      if (marks_[id]) lengths_[id] = visible_characters(tree_[id]);
    sum_lengths();
    if (const NodeId root = find_root(); root != 0) {
      keep_inside(root);
      is_named_ = true;
    }
    remove_parts();
    keep_best_stretch();
    return std::move(marks_);
  }

 private:
  std::uint64_t characters_in(NodeId id) const { return sums_[tree_[id].end] - sums_[id]; }
  std::uint64_t links_in(NodeId id) const { return link_sums_[tree_[id].end] - link_sums_[id]; }
  std::uint64_t text_in(NodeId id) const { return characters_in(id) - links_in(id); }
  NodeId nodes() const { return static_cast<NodeId>(marks_.size()); }

  void sum_lengths() {
    sums_.assign(marks_.size() + 1, 0);
    link_sums_.assign(marks_.size() + 1, 0);
    for (NodeId id = 0; id < nodes(); ++id) {
      const std::uint64_t own = marks_[id] ? lengths_[id] : 0;
      sums_[id + 1] = sums_[id] + own;
      link_sums_[id + 1] = link_sums_[id] + (links_[id] ? own : 0);
    }
  }

  void remove(NodeId id) { std::fill(marks_.begin() + id, marks_.begin() + tree_[id].end, std::uint8_t{0}); }

  bool is_small(NodeId id) const {
    return static_cast<double>(characters_in(id)) < kSmallPart * static_cast<double>(sums_.back());
  }

  bool is_part(NodeId id) const {
    const HtmlNode& node = tree_[id];
    switch (node.tag) {
      using enum Tag;
      case kHtml:
      case kBody:
      case kMain:
        return false;
      case kNav:
      case kDialog:
        return true;
      case kFooter:
      case kAside:
        return is_small(id);
      case kHeader:  // one of the page, not of an article
        return is_small(id) && node.depth <= 5 && 2 * links_in(id) > characters_in(id);
      default:
        break;
    }
    if (node.attributes.empty() || !is_small(id)) return false;
    if (is_hidden_element(tree_, id)) return true;
    if (node.tag == Tag::kA) return is_permalink(id);
    if (!is_block(node.tag)) return false;
    std::string names = tree_.attribute(id, "class");
    names += ' ';
    names += tree_.attribute(id, "id");
    return is_named_as_boilerplate(names);
  }

  // The sign next to a heading that links to it.
  bool is_permalink(NodeId id) const { return characters_in(id) <= 1 && links_in(id) == 1; }

  void remove_parts() {
    for (NodeId id = 1; id < nodes();) {
      const bool part = !tree_[id].is_text && is_part(id);
      if (part) remove(id);
      id = part ? tree_[id].end : id + 1;
    }
    sum_lengths();
  }

  // The innermost element that says it is the content and holds most of the text outside of links; 0: none.
  NodeId find_root() const {
    NodeId best = 0;
    for (NodeId id = 1; id < nodes(); ++id) {
      const HtmlNode& node = tree_[id];
      if (node.is_text || node.attributes.empty()) {
        if (node.tag != Tag::kMain && node.tag != Tag::kArticle) continue;
      }
      const bool says = node.tag == Tag::kMain || node.tag == Tag::kArticle ||
                        tree_.attribute(id, "role") == "main" ||
                        tree_.attribute(id, "itemprop") == "articleBody";
      if (says && 2 * text_in(id) > text_in(0) && (best == 0 || tree_[best].end >= node.end)) best = id;
    }
    return best;
  }

  void keep_inside(NodeId root) {
    std::fill(marks_.begin(), marks_.begin() + root, std::uint8_t{0});
    std::fill(marks_.begin() + tree_[root].end, marks_.end(), std::uint8_t{0});
    sum_lengths();
  }

  std::vector<Block> blocks() const {
    std::vector<Block> found;
    Block now;
    std::vector<Tag> open{Tag::kUnknown};
    const auto finish = [&](NodeId end) {
      now.end = end;
      if (now.characters > 0) found.push_back(now);
      now = {};
      now.begin = end;
      now.tag = open.back();
    };
    const auto cuts = [](Tag tag) {
      return is_block(tag) && !is_void(tag) && tag != Tag::kTd && tag != Tag::kTh;
    };
    NodeId last = 0;
    walk(
        tree_,
        [&](NodeId id) {
          last = id;
          if (tree_[id].is_text) {
            if (!marks_[id]) return;
            now.characters += lengths_[id];
            if (links_[id]) now.in_links += lengths_[id];
          } else if (cuts(tree_[id].tag)) {
            open.push_back(tree_[id].tag);
            finish(id);
          }
        },
        [&](NodeId id) {
          if (!cuts(tree_[id].tag)) return;
          open.pop_back();
          finish(last + 1);
        });
    finish(nodes());
    return found;
  }

  // What a block adds to the stretch that holds it.
  double worth(const Block& block) const {
    const double text = static_cast<double>(block.characters) - static_cast<double>(block.in_links),
                 links = block.in_links;
    if (is_named_) return text - links;
    if (is_heading(block.tag)) return links > text ? -10 : 1;
    if (links > text) return -20 - links;
    const double short_piece = block.tag == Tag::kPre || block.tag == Tag::kTr || block.tag == Tag::kLi ||
                                       block.tag == Tag::kDt || block.tag == Tag::kDd
                                   ? 5
                                   : 25;
    return text - 2 * links - short_piece;
  }

  void keep_best_stretch() {
    const std::vector<Block> all = blocks();
    double sum = 0, best = 0;
    std::size_t begin = 0, best_begin = 0, best_end = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (sum < 0) {
        sum = 0;
        begin = i;
      }
      sum += worth(all[i]);
      if (sum >= best) {
        best = sum;
        best_begin = begin;
        best_end = i + 1;
      }
    }
    if (best_end == 0) return;  // a page of links: what is left of it
    std::fill(marks_.begin(), marks_.begin() + all[best_begin].begin, std::uint8_t{0});
    std::fill(marks_.begin() + all[best_end - 1].end, marks_.end(), std::uint8_t{0});
    // Lists of links inside it.
    for (std::size_t i = best_begin; i < best_end;) {
      std::size_t run = i;
      std::uint64_t characters = 0, in_links = 0;
      while (run < best_end && !is_heading(all[run].tag) &&
             10 * all[run].in_links > 8 * all[run].characters) {
        characters += all[run].characters;
        in_links += all[run].in_links;
        ++run;
      }
      if (run - i >= 4 && 10 * in_links > 8 * characters)
        std::fill(marks_.begin() + all[i].begin, marks_.begin() + all[run - 1].end, std::uint8_t{0});
      i = std::max(run, i + 1);
    }
  }

  const HtmlTree& tree_;
  const Marks links_;
  Marks marks_;
  bool is_named_ = false;                        // the page says which element is its content
  std::vector<std::uint32_t> lengths_;           // of text nodes
  std::vector<std::uint64_t> sums_, link_sums_;  // of what is marked, before each node
};

}  // namespace

Marks mark_main(const HtmlTree& tree) { return ContentFinder(tree).run(); }

}  // namespace stoa::curate
