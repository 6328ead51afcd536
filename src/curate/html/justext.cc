// The rule `justext`: paragraphs and their classes as jusText 3.0.2 makes them, with its thresholds.
#include <algorithm>

#include "curate/html/entities.h"
#include "curate/html/main_text.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kLengthLow = 70, kLengthHigh = 200, kHeadingDistance = 200;
constexpr double kStopWordsLow = 0.30, kStopWordsHigh = 0.32, kMaxLinkDensity = 0.2;

enum class Class : std::uint8_t { kGood, kNearGood, kShort, kBad };

struct Paragraph {
  std::string text;
  std::vector<NodeId> nodes;  // of its text
  std::size_t characters = 0, in_links = 0, words = 0, stop_words = 0;
  bool heading = false, has_text = false;
  Class first = Class::kBad, last = Class::kBad;
};

bool is_removed(Tag tag) {
  using enum Tag;
  return tag == kHead || tag == kScript || tag == kStyle || tag == kButton || tag == kInput ||
         tag == kSelect || tag == kTextarea;
}

bool is_paragraph(Tag tag) {
  switch (tag) {
    using enum Tag;
    case kBody:
    case kBlockquote:
    case kCaption:
    case kCenter:
    case kCol:
    case kColgroup:
    case kDd:
    case kDiv:
    case kDl:
    case kDt:
    case kFieldset:
    case kLegend:
    case kOptgroup:
    case kOption:
    case kP:
    case kPre:
    case kTable:
    case kTd:
    case kTfoot:
    case kTh:
    case kThead:
    case kTr:
    case kUl:
    case kLi:
    case kH1:
    case kH2:
    case kH3:
    case kH4:
    case kH5:
    case kH6:
      return true;
    default:
      return false;
  }
}

// Runs of white space as one blank, or one line end where they have one.
std::string with_single_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char *p = text.data(), *const end = p + text.size(); p < end;) {
    bool space = false, line_end = false;
    Character c{};
    while (p < end && characters().has((c = read_character(p)).value, kSpace)) {
      space = true;
      line_end |= c.value == '\n' || c.value == '\r';
      p += c.length;
    }
    if (space)
      out += line_end ? '\n' : ' ';
    else
      out.append(p, c.length);
    if (!space) p += c.length;
  }
  return out;
}

class Paragraphs {
 public:
  explicit Paragraphs(const HtmlTree& tree) : tree_(tree) {
    walk(
        tree, [&](NodeId id) { enter(id); }, [&](NodeId id) { leave(id); });
    begin_next();
  }
  std::vector<Paragraph> take() { return std::move(done_); }

 private:
  void begin_next() {
    if (now_.has_text) done_.push_back(std::move(now_));
    now_ = {};
    now_.heading = headings_ > 0;
  }

  void enter(NodeId id) {
    if (id < removed_to_) return;
    const HtmlNode& node = tree_[id];
    if (node.is_text) return add(id);
    if (is_removed(node.tag)) {
      removed_from_ = id;
      removed_to_ = node.end;
      return;
    }
    if (node.tag == Tag::kForm || node.tag == Tag::kIframe || node.tag == Tag::kObject)
      return;  // content without the element
    headings_ += is_heading(node.tag);
    if (is_paragraph(node.tag) || (node.tag == Tag::kBr && br_)) return begin_next();
    br_ = node.tag == Tag::kBr;
    if (br_) append(" ");
    if (node.tag == Tag::kA) link_ = true;
  }

  void leave(NodeId id) {
    if (id >= removed_from_ && id < removed_to_) return;
    const Tag tag = tree_[id].tag;
    headings_ -= is_heading(tag);
    if (is_paragraph(tag)) begin_next();
    if (tag == Tag::kA) link_ = false;
  }

  void append(std::string_view text) {
    now_.text += text;
    now_.has_text = true;
  }

  void add(NodeId id) {
    std::string text;
    if (tree_[id].is_raw)
      text = tree_[id].text;
    else
      append_unescaped(tree_[id].text, text);
    if (strip(text).empty()) return;
    text = with_single_spaces(text);
    append(text);
    now_.nodes.push_back(id);
    if (link_) now_.in_links += count_characters(text);
    br_ = false;
  }

  const HtmlTree& tree_;
  std::vector<Paragraph> done_;
  Paragraph now_;
  NodeId removed_from_ = 0, removed_to_ = 0;
  int headings_ = 0;
  bool link_ = false, br_ = false;
};

void count_words(Paragraph& p, const StopWords& stop_words) {
  p.text = with_single_spaces(strip(p.text));
  p.characters = count_characters(p.text);
  std::string lower;
  for (std::string_view rest = strip(p.text); !rest.empty();) {
    const std::size_t end = std::min(rest.find_first_of(" \n"), rest.size());
    lower.clear();
    append_lower(rest.substr(0, end), lower);
    ++p.words;
    p.stop_words += stop_words.contains(lower);
    rest = rest.substr(std::min(end + 1, rest.size()));
  }
}

Class class_alone(const Paragraph& p) {
  const double links =
      p.characters == 0 ? 0 : static_cast<double>(p.in_links) / static_cast<double>(p.characters);
  const double stop = p.words == 0 ? 0 : static_cast<double>(p.stop_words) / static_cast<double>(p.words);
  if (links > kMaxLinkDensity) return Class::kBad;
  if (p.text.find("\xc2\xa9") != p.text.npos || p.text.find("&copy") != p.text.npos) return Class::kBad;
  if (p.characters < kLengthLow) return p.in_links > 0 ? Class::kBad : Class::kShort;
  if (stop >= kStopWordsHigh) return p.characters > kLengthHigh ? Class::kGood : Class::kNearGood;
  return stop >= kStopWordsLow ? Class::kNearGood : Class::kBad;
}

// The class of the nearest paragraph on one side that is good or bad, or also near-good; bad beyond the ends.
Class neighbour(const std::vector<Paragraph>& all, std::size_t i, int step, bool also_near) {
  for (auto at = static_cast<std::ptrdiff_t>(i) + step; at >= 0 && at < std::ssize(all); at += step) {
    const Class c = all[static_cast<std::size_t>(at)].last;
    if (c == Class::kGood || c == Class::kBad || (also_near && c == Class::kNearGood)) return c;
  }
  return Class::kBad;
}

bool good_follows(const std::vector<Paragraph>& all, std::size_t i) {
  std::size_t distance = 0;
  for (std::size_t j = i + 1; j < all.size() && distance <= kHeadingDistance; ++j) {
    if (all[j].last == Class::kGood) return true;
    distance += all[j].characters;
  }
  return false;
}

// Classes that hang on the neighbours. Runs of short paragraphs look past one another, so each run is asked
// once from both ends.
void revise(std::vector<Paragraph>& all) {
  // As jusText copies the classes in this very loop, a heading sees none of the paragraphs behind it yet.
  for (Paragraph& p : all) p.last = p.first;
  std::vector<Class> changed(all.size());
  for (std::size_t i = 0; i < all.size();) {
    changed[i] = all[i].last;
    if (all[i].last != Class::kShort) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < all.size() && all[end].last == Class::kShort) ++end;
    const Class before = neighbour(all, i, -1, false), after = neighbour(all, end - 1, 1, false);
    const bool near = (before == Class::kBad && neighbour(all, i, -1, true) == Class::kNearGood) ||
                      (after == Class::kBad && neighbour(all, end - 1, 1, true) == Class::kNearGood);
    const Class c = before == after ? before : near ? Class::kGood : Class::kBad;
    std::fill(changed.begin() + static_cast<std::ptrdiff_t>(i),
              changed.begin() + static_cast<std::ptrdiff_t>(end), c);
    i = end;
  }
  for (std::size_t i = 0; i < all.size(); ++i) all[i].last = changed[i];
  // What follows a run of near-good ones; those before it are decided already.
  for (std::size_t i = 0; i < all.size();) {
    if (all[i].last != Class::kNearGood) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < all.size() && all[end].last == Class::kNearGood) ++end;
    Class before = neighbour(all, i, -1, false);
    const Class after = neighbour(all, end - 1, 1, false);
    for (; i < end; ++i)
      before = all[i].last = before == Class::kBad && after == Class::kBad ? Class::kBad : Class::kGood;
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].heading && all[i].last == Class::kBad && all[i].first != Class::kBad && good_follows(all, i))
      all[i].last = Class::kGood;
}

}  // namespace

Marks mark_justext(const HtmlTree& tree, const StopWords& stop_words) {
  std::vector<Paragraph> paragraphs = Paragraphs(tree).take();
  for (Paragraph& p : paragraphs) {
    count_words(p, stop_words);
    p.first = class_alone(p);
  }
  revise(paragraphs);
  Marks marks(tree.nodes().size());
  for (const Paragraph& p : paragraphs)
    if (p.last == Class::kGood)
      for (const NodeId id : p.nodes) marks[id] = 1;
  return marks;
}

}  // namespace stoa::curate
