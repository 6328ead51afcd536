// The rule `resiliparse`: the decisions of Resiliparse 2.0 (extract_plain_text with main_content), element by
// element from the outside inwards, in its order.
#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "curate/html/main_text.h"
#include "curate/html/resiliparse_names.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

using resiliparse::names;
using resiliparse::Part;

bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Elements whose text it never takes.
bool is_skipped(Tag tag) {
  switch (tag) {
    using enum Tag;
    case kScript:
    case kStyle:
    case kIframe:
    case kFrame:
    case kTemplate:
    case kObject:
    case kVideo:
    case kAudio:
    case kArea:
    case kSvg:
    case kFigcaption:
    case kFigure:
    case kNoscript:
    case kTextarea:
    case kInput:
    case kButton:
    case kSelect:
    case kOption:
    case kLabel:
    case kHead:
    case kTitle:
      return true;
    default:
      return false;
  }
}

// Elements whose role, class and id decide.
bool is_judged_by_name(Tag tag) {
  switch (tag) {
    using enum Tag;
    case kAddress:
    case kArticle:
    case kAside:
    case kBlockquote:
    case kBr:
    case kCenter:
    case kDetails:
    case kDd:
    case kDt:
    case kDiv:
    case kDl:
    case kFieldset:
    case kFooter:
    case kForm:
    case kH2:
    case kH3:
    case kH4:
    case kH5:
    case kH6:
    case kHeader:
    case kHgroup:
    case kHr:
    case kLi:
    case kNav:
    case kOl:
    case kP:
    case kPre:
    case kSection:
    case kTable:
    case kTr:
    case kUl:
    case kTd:
      return true;
    default:
      return false;
  }
}

class Pruner {
 public:
  explicit Pruner(const HtmlTree& tree) : tree_(tree), marks_(tree.nodes().size()) {
    measure();
    for (NodeId id = 1; id < marks_.size() && tree[body_].tag != Tag::kBody; ++id)
      if (!tree[id].is_text && (tree[id].tag == Tag::kBody || (tree[id].tag == Tag::kHtml && body_ == 0)))
        body_ = id;
  }

  Marks run() {
    const NodeId root = find_root();
    for (NodeId id = std::max<NodeId>(root, 1); id < tree_[root].end;) {
      const HtmlNode& node = tree_[id];
      if (node.is_text) {
        marks_[id] = !is_sign(node);
        ++id;
      } else {
        id = (is_skipped(node.tag) && id != root) || !is_content(id) ? node.end : id + 1;
      }
    }
    return std::move(marks_);
  }

 private:
  // Bytes of text with one blank for any white space, before every node; of links, each for itself.
  void measure() {
    const std::size_t n = tree_.nodes().size();
    bytes_.assign(n + 1, 0);
    link_bytes_.assign(n + 1, 0);
    joins_.assign(n + 1, 0);
    next_text_.assign(n + 1, static_cast<NodeId>(n));
    bool ends_white = false;
    for (NodeId id = 0; id < n; ++id) {
      bytes_[id + 1] = bytes_[id];
      if (!tree_[id].is_text) continue;
      const std::string_view text = resolved_text(tree_[id], buffer_);
      if (text.empty()) continue;
      joins_[id] = ends_white && is_white(text.front());
      bool white = false;
      std::uint32_t own = 0;
      for (const char c : text) {
        own += !(white && is_white(c));
        white = is_white(c);
      }
      ends_white = white;
      bytes_[id + 1] += own - joins_[id];
    }
    for (NodeId id = static_cast<NodeId>(n); id-- > 0;)
      next_text_[id] = tree_[id].is_text && !tree_[id].text.empty() ? id : next_text_[id + 1];
    for (NodeId id = 0; id < n; ++id)
      link_bytes_[id + 1] =
          link_bytes_[id] + (!tree_[id].is_text && tree_[id].tag == Tag::kA ? bytes_inside(id) : 0);
  }

  std::uint32_t bytes_inside(NodeId id) const {
    const NodeId end = tree_[id].end, first = next_text_[id];
    return bytes_[end] - bytes_[id] + (first < end ? joins_[first] : 0);
  }

  // Whether more than this share of its text stands in links; never where it has more than `longest` bytes.
  bool is_link_cluster(NodeId id, double share, std::optional<std::uint32_t> longest = {}) const {
    const std::uint32_t bytes = bytes_inside(id);
    if (longest && bytes > *longest) return false;
    const std::uint32_t links = link_bytes_[tree_[id].end] - link_bytes_[id + 1];
    return links > 0 && links > share * bytes;
  }

  int depth_below_body(NodeId id) const { return tree_[id].depth - tree_[body_].depth; }

  // The one element that says it is the main content, or the body.
  NodeId find_root() const {
    NodeId found = 0;
    for (NodeId id = body_ + 1; id < tree_[body_].end; ++id) {
      const HtmlNode& node = tree_[id];
      if (node.is_text || node.attributes.empty()) continue;
      bool says = tree_.attribute(id, "role") == "main";
      const std::string classes = tree_.attribute(id, "class");
      for (std::size_t at = 0; at < classes.size() && !says;) {
        const std::size_t end = std::min(classes.find_first_of(" \t\n\r\f", at), classes.size());
        says = resiliparse::is_main_class(std::string_view(classes).substr(at, end - at));
        at = end + 1;
      }
      if (!says) continue;
      if (found != 0) return body_;
      found = id;
    }
    return found == 0 ? body_ : found;
  }

  // A pilcrow or a character of an icon font, alone.
  bool is_sign(const HtmlNode& text) {
    std::string_view s = resolved_text(text, buffer_);
    while (!s.empty() && is_white(s.front())) s.remove_prefix(1);
    while (!s.empty() && is_white(s.back())) s.remove_suffix(1);
    const auto private_use = [&] { return s.size() == 3 && s >= "\xee\x80\x80" && s <= "\xef\xa3\xbf"; };
    return s == "\xc2\xb6" || private_use();
  }

  // Whether anything stands behind the element in any of the elements around it, below one of the body's.
  bool is_followed(NodeId id) const {
    for (NodeId at = id; at != 0 && tree_[at].parent != body_ && tree_[at].parent != HtmlNode::kNone;
         at = tree_[at].parent) {
      NodeId next = tree_[at].next;
      if (next != HtmlNode::kNone && tree_[next].is_text) next = tree_[next].next;
      if (next != HtmlNode::kNone) return true;
    }
    return false;
  }

  bool is_content(NodeId id) {
    const HtmlNode& node = tree_[id];
    const int depth = depth_below_body(id);
    switch (node.tag) {
      using enum Tag;
      case kHtml:
      case kBody:
      case kMain:
      case kH1:
        return true;
      case kFooter:
        return depth >= 3 && !is_link_cluster(id, 0.2) && is_followed(id);
      case kUl:
        if (depth < 4 || is_link_cluster(id, 0.2)) return false;
        break;
      case kArticle:
        if (depth > 2 && is_link_cluster(id, 0.2, 500)) return false;
        break;
      case kNav:
      case kAside:
      case kTime:
        return false;
      default:
        break;
    }
    const std::string classes = tree_.attribute(id, "class"), name = tree_.attribute(id, "id");
    if (!node.attributes.empty() && is_hidden(id)) return false;
    if (classes.empty() && name.empty())
      return node.tag != Tag::kDiv || depth <= 5 || !is_link_cluster(id, 0.6, 800);
    return is_content_by_name(id, classes, name, depth);
  }

  bool is_hidden(NodeId id) const {
    static constexpr std::array<std::string_view, 6> kRelations = {"author", "icon", "search",
                                                                   "prev",   "next", "tag"};
    static constexpr std::array<std::string_view, 3> kProperties = {"datePublished", "author", "url"};
    const auto value = [&](std::string_view attribute) {
      return std::string(strip(tree_.attribute(id, attribute)));
    };
    return tree_.has_attribute(id, "hidden") || is_one_of(kRelations, value("rel")) ||
           is_one_of(kProperties, value("itemprop")) || value("aria-hidden") == "true" ||
           value("aria-expanded") == "false" || resiliparse::hides(tree_.attribute(id, "style"));
  }

  bool is_content_by_name(NodeId id, const std::string& classes, const std::string& name, int depth) {
    static constexpr std::array<std::string_view, 20> kNoContentRoles = {
        "alert",  "banner",    "checkbox",  "comment",  "complementary", "contentinfo",  "dialog",
        "img",    "menu",      "menubar",   "menuitem", "navigation",    "presentation", "radio",
        "search", "searchbox", "separator", "tab",      "toolbar",       "tooltip"};
    for (const std::string_view attribute : {"data-ad", "data-advertisement", "data-text-ad"})
      if (tree_.has_attribute(id, attribute)) return false;
    const Tag tag = tree_[id].tag;
    const NameVerdict verdict = judge(tag, classes, name, depth > 2);
    if (verdict == NameVerdict::kNoContent) return false;
    if (!is_judged_by_name(tag)) return true;
    if (is_one_of(kNoContentRoles, strip(tree_.attribute(id, "role")))) return false;
    if (verdict != NameVerdict::kUnknown) return verdict == NameVerdict::kArticle;
    return tag != Tag::kDiv || depth <= 2 || !is_link_cluster(id, 0.6, 1500);
  }

  // What names say: no content whatever the element is; of elements that are judged by their names, that it
  // is an article or a part of another kind.
  enum class NameVerdict : std::uint8_t { kNoContent, kArticle, kOtherPart, kUnknown };

  NameVerdict judge(Tag tag, const std::string& classes, const std::string& name, bool is_deep) {
    const bool may_skip = tag == Tag::kA || tag == Tag::kDiv || tag == Tag::kLi;
    std::string key{static_cast<char>('0' + may_skip + 2 * is_deep + 4 * (tag == Tag::kArticle))};
    key.append(classes).append(1, '\0').append(name);
    const auto [known, is_new] = verdicts_.try_emplace(std::move(key));
    if (is_new) known->second = judge_names(tag, may_skip, classes, name, is_deep);
    return known->second;
  }

  static NameVerdict judge_names(Tag tag, bool may_skip, const std::string& classes, const std::string& name,
                                 bool is_deep) {
    const std::string both = classes.empty() ? name : classes + ' ' + name;
    if (names(Part::kHidden, classes) || (may_skip && names(Part::kSkipLink, both)) ||
        (is_deep && (names(Part::kSignIn, classes) || names(Part::kSocial, classes))) ||
        names(Part::kLogo, both) || names(Part::kAdvertisement, both) ||
        resiliparse::is_view_count_or_spinner(classes))
      return NameVerdict::kNoContent;
    if (tag == Tag::kArticle || names(Part::kArticle, both)) return NameVerdict::kArticle;
    if (resiliparse::is_landmark(name)) return NameVerdict::kOtherPart;
    for (const Part part : {Part::kHeader, Part::kFooter, Part::kNavigation, Part::kRecommended,
                            Part::kSearch, Part::kSidebar, Part::kModal, Part::kGallery, Part::kPrint})
      if (names(part, both)) return NameVerdict::kOtherPart;
    return NameVerdict::kUnknown;
  }

  const HtmlTree& tree_;
  Marks marks_;
  std::string buffer_;
  NodeId body_ = 0;  // the element, or what stands for it
  std::vector<std::uint32_t> bytes_, link_bytes_;
  std::vector<std::uint8_t> joins_;  // whether white space that this node begins with has begun before
  std::vector<NodeId> next_text_;    // this node or the next one with text
  std::unordered_map<std::string, NameVerdict> verdicts_;  // pages repeat few names
};

}  // namespace

Marks mark_resiliparse(const HtmlTree& tree) { return Pruner(tree).run(); }

}  // namespace stoa::curate
