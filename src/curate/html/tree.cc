#include "curate/html/tree.h"

#include <algorithm>
#include <utility>

#include "curate/html/entities.h"

namespace stoa::curate {
namespace {

// Blocks, at whose beginning an open paragraph ends.
bool ends_paragraph(Tag tag) {
  switch (tag) {
    using enum Tag;
    case kTable:
    case kAddress:
    case kArticle:
    case kAside:
    case kBlockquote:
    case kCenter:
    case kDetails:
    case kDialog:
    case kDir:
    case kDiv:
    case kDl:
    case kFieldset:
    case kFigcaption:
    case kFigure:
    case kFooter:
    case kForm:
    case kH1:
    case kH2:
    case kH3:
    case kH4:
    case kH5:
    case kH6:
    case kHeader:
    case kHgroup:
    case kHr:
    case kMain:
    case kMenu:
    case kNav:
    case kOl:
    case kP:
    case kPre:
    case kSection:
    case kSummary:
    case kUl:
    case kLi:
    case kDd:
    case kDt:
      return true;
    default:
      return false;
  }
}

bool is_cell_bound(Tag tag) { return tag == Tag::kTd || tag == Tag::kTh || tag == Tag::kTable; }
bool is_of_table(Tag tag) {
  using enum Tag;
  return is_cell_bound(tag) || tag == kTr || tag == kTbody || tag == kThead || tag == kTfoot ||
         tag == kCaption;
}

}  // namespace

HtmlTree::HtmlTree(std::string_view html) {
  nodes_.reserve(html.size() / 32 + 16);
  nodes_.emplace_back();
  open_.push_back(0);
  HtmlTokenizer tokens(html);
  for (HtmlToken token; tokens.next(token);) {
    if (token.kind == HtmlToken::Kind::kText)
      append(token, true);
    else if (token.kind == HtmlToken::Kind::kStart)
      open(token);
    else
      close(token);
  }
  pop_to(0);
}

NodeId HtmlTree::append(const HtmlToken& token, bool is_text) {
  const auto id = static_cast<NodeId>(nodes_.size());
  const NodeId parent = open_.back();
  HtmlNode node;
  node.tag = token.tag;
  node.is_text = is_text;
  node.is_raw = token.is_raw;
  node.text = is_text ? token.text : token.name;
  node.attributes = token.attributes;
  node.parent = parent;
  node.end = id + 1;
  node.depth = static_cast<std::uint16_t>(open_.size());
  nodes_.push_back(node);
  HtmlNode& above = nodes_[parent];
  if (above.first == HtmlNode::kNone)
    above.first = id;
  else
    nodes_[above.last].next = id;
  above.last = id;
  return id;
}

void HtmlTree::pop_to(std::size_t depth) {
  while (open_.size() > depth) pop();
}

std::size_t HtmlTree::find_open(std::initializer_list<Tag> tags, std::initializer_list<Tag> bounds) const {
  for (std::size_t i = open_.size(); i-- > 1;) {
    const Tag tag = nodes_[open_[i]].tag;
    if (std::find(tags.begin(), tags.end(), tag) != tags.end()) return i;
    if (std::find(bounds.begin(), bounds.end(), tag) != bounds.end()) return 0;
  }
  return 0;
}

// Ends what must have ended before an element of this kind begins.
void HtmlTree::close_implied(Tag begins) {
  using enum Tag;
  const auto end = [&](std::initializer_list<Tag> tags, std::initializer_list<Tag> bounds) {
    if (const std::size_t at = find_open(tags, bounds); at > 0) pop_to(at);
  };
  if (ends_paragraph(begins))
    end({kP}, {kTd, kTh, kTable, kButton, kObject, kLi, kDd, kDt, kBlockquote, kDiv});
  switch (begins) {
    case kLi:
      end({kLi}, {kUl, kOl, kMenu, kDir, kTd, kTh, kTable});
      break;
    case kDt:
    case kDd:
      end({kDt, kDd}, {kDl, kTd, kTh, kTable});
      break;
    case kOption:
      end({kOption}, {kSelect, kDatalist});
      break;
    case kOptgroup:
      end({kOption, kOptgroup}, {kSelect});
      break;
    case kTd:
    case kTh:
      end({kTd, kTh}, {kTr, kTable});
      break;
    case kTr:
      end({kTr, kTd, kTh}, {kTbody, kThead, kTfoot, kTable});
      end({kTr}, {kTable});
      break;
    case kTbody:
    case kThead:
    case kTfoot:
      end({kTbody, kThead, kTfoot, kCaption, kColgroup}, {kTable});
      end({kTr}, {kTable});
      break;
    case kA:
      end({kA}, {kTd, kTh, kTable, kDiv, kLi, kObject});
      break;
    case kBody:
      end({kHead}, {});
      break;
    case kH1:
    case kH2:
    case kH3:
    case kH4:
    case kH5:
    case kH6:
      if (is_heading(nodes_[open_.back()].tag)) pop();
      break;
    default:
      break;
  }
}

void HtmlTree::open(const HtmlToken& token) {
  if (token.tag == Tag::kForm && form_ != 0) return;
  close_implied(token.tag);
  if (is_void(token.tag)) {
    append(token, false);
    return;
  }
  if (open_.size() >= kDeepest) {  // its content becomes content of what is open
    ++flattened_;
    return;
  }
  open_.push_back(append(token, false));
  if (token.tag == Tag::kForm) form_ = open_.back();
}

void HtmlTree::pop() {
  nodes_[open_.back()].end = static_cast<NodeId>(nodes_.size());
  open_.pop_back();
  if (ended_forms_.empty() || open_.empty() || open_.back() != ended_forms_.back()) return;
  ended_forms_.pop_back();
  pop();
}

void HtmlTree::close_form() {
  const NodeId form = std::exchange(form_, 0);
  if (form == 0 || std::find(open_.begin(), open_.end(), form) == open_.end()) return;
  if (open_.back() == form)
    pop();
  else
    ended_forms_.push_back(form);
}

void HtmlTree::close(const HtmlToken& token) {
  if (token.tag == Tag::kBr) {  // as browsers read it
    append(token, false);
    return;
  }
  if (flattened_ > 0) {
    --flattened_;
    return;
  }
  if (token.tag == Tag::kForm) return close_form();
  for (std::size_t i = open_.size(); i-- > 1;) {
    const HtmlNode& node = nodes_[open_[i]];
    const bool same = token.tag != Tag::kUnknown
                          ? node.tag == token.tag
                          : node.tag == Tag::kUnknown && is_named(node.text, token.name);
    const bool heading = is_heading(token.tag) && is_heading(node.tag);
    if (same || heading) {
      if (is_block(token.tag) || i + 1 == open_.size() || token.tag == Tag::kUnknown) return pop_to(i);
      // An inline element that ends within blocks that it holds: it ends, and they stay open.
      const bool holds_block = std::any_of(open_.begin() + static_cast<std::ptrdiff_t>(i) + 1, open_.end(),
                                           [&](NodeId id) { return is_block(nodes_[id].tag); });
      if (!holds_block) return pop_to(i);
      nodes_[open_[i]].end = static_cast<NodeId>(nodes_.size());
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    if (is_cell_bound(node.tag) && !is_of_table(token.tag) && token.tag != Tag::kBody &&
        token.tag != Tag::kHtml)
      return;
  }
}

std::string HtmlTree::attribute(NodeId id, std::string_view wanted) const {
  std::string out;
  each_attribute(nodes_[id].attributes, [&](std::string_view name, std::string_view value) {
    if (!is_named(name, wanted)) return true;
    append_unescaped(value, out);
    return false;
  });
  return out;
}

bool HtmlTree::has_attribute(NodeId id, std::string_view wanted) const {
  bool found = false;
  each_attribute(nodes_[id].attributes, [&](std::string_view name, std::string_view) {
    found = is_named(name, wanted);
    return !found;
  });
  return found;
}

}  // namespace stoa::curate
