#include "curate/html/main_text.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "curate/filters/word_list.h"
#include "curate/html/entities.h"
#include "curate/html/stop_words.h"
#include "curate/text/character.h"
#include "curate/text/lines.h"

namespace stoa::curate {

std::span<const config::EnumName<MainText>> enum_names(MainText) {
  static constexpr config::EnumName<MainText> kNames[] = {{"stoa", MainText::kStoa},
                                                          {"justext", MainText::kJustext},
                                                          {"resiliparse", MainText::kResiliparse},
                                                          {"union", MainText::kUnion},
                                                          {"all", MainText::kAll}};
  return kNames;
}

MainTextExtractor::MainTextExtractor(MainText rule, const std::string& stop_words) : rule_(rule) {
  if (rule != MainText::kJustext && rule != MainText::kUnion) return;
  const std::string file = stop_words.empty() ? std::string() : list_text(stop_words);
  each_line(stop_words.empty() ? english_stop_words() : std::string_view(file), [&](std::string_view line) {
    std::string word;
    append_lower(strip(line), word);
    if (!word.empty()) stop_words_.insert(std::move(word));
  });
  require<ConfigError>(!stop_words_.empty(), "the list '{}' has no word", stop_words);
}

std::string MainTextExtractor::operator()(std::string_view html, std::string& title) const {
  const HtmlTree tree(html);
  title = title_of(tree);
  switch (rule_) {
    case MainText::kStoa:
      return render(tree, mark_main(tree));
    case MainText::kJustext:
      return render(tree, mark_justext(tree, stop_words_));
    case MainText::kResiliparse:
      return render(tree, mark_resiliparse(tree));
    case MainText::kAll:
      return render(tree, mark_all(tree));
    case MainText::kUnion:
      break;
  }
  Marks marks = mark_main(tree);
  const Marks other = mark_justext(tree, stop_words_);
  for (std::size_t i = 0; i < marks.size(); ++i) marks[i] |= other[i];
  return render(tree, marks);
}

bool is_hidden_kind(Tag tag) {
  switch (tag) {
    using enum Tag;
    case kScript:
    case kStyle:
    case kHead:
    case kTitle:
    case kTemplate:
    case kNoscript:
    case kSvg:
    case kCanvas:
    case kIframe:
    case kNoframes:
    case kNoembed:
    case kObject:
    case kEmbed:
    case kAudio:
    case kVideo:
    case kSelect:
    case kDatalist:
    case kOption:
    case kTextarea:
    case kButton:
    case kInput:
    case kFrame:
    case kFrameset:
    case kMath:
      return true;
    default:
      return false;
  }
}

Marks mark_all(const HtmlTree& tree) {
  Marks marks(tree.nodes().size());
  NodeId hidden_to = 0;
  for (NodeId id = 1; id < marks.size(); ++id) {
    const HtmlNode& node = tree[id];
    if (id < hidden_to) continue;
    if (node.is_text)
      marks[id] = 1;
    else if (is_hidden_kind(node.tag))
      hidden_to = node.end;
  }
  return marks;
}

Marks mark_links(const HtmlTree& tree) {
  Marks marks(tree.nodes().size());
  for (NodeId id = 1; id < marks.size(); ++id)
    if (tree[id].tag == Tag::kA && tree.has_attribute(id, "href"))
      std::fill(marks.begin() + id, marks.begin() + tree[id].end, std::uint8_t{1});
  return marks;
}

std::string_view resolved_text(const HtmlNode& text, std::string& buffer) {
  if (text.is_raw || text.text.find('&') == text.text.npos) return text.text;
  buffer.clear();
  append_unescaped(text.text, buffer);
  return buffer;
}

std::uint32_t visible_characters(const HtmlNode& text) {
  std::uint32_t count = 0;
  const std::string_view s = text.text;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (c == '&' && !text.is_raw) {  // a reference counts as one character
      const std::size_t end = s.substr(i, 10).find(';');
      if (end != s.npos) i += end;
    }
    count += (c & 0xc0) != 0x80 && c != ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f';
  }
  return count;
}

std::string title_of(const HtmlTree& tree) {
  std::string title;
  for (NodeId id = 1; id < tree.nodes().size(); ++id) {
    if (tree[id].tag != Tag::kTitle) continue;
    if (tree[id].first != HtmlNode::kNone) append_unescaped(tree[tree[id].first].text, title);
    break;
  }
  std::string out;
  for (const char c : strip(title)) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out += blank ? ' ' : c;
  }
  return out;
}

namespace {

class Renderer {
 public:
  Renderer(const HtmlTree& tree, const Marks& marks) : tree_(tree), marks_(marks) {}

  std::string run() {
    walk(
        tree_, [&](NodeId id) { enter(id); }, [&](NodeId id) { leave(id); });
    while (!out_.empty() && (out_.back() == '\n' || out_.back() == ' ')) out_.pop_back();
    if (!out_.empty()) out_ += '\n';
    return std::move(out_);
  }

 private:
  // Line ends that stand before and after it where it is shown.
  static int lines_around(Tag tag) {
    switch (tag) {
      using enum Tag;
      case kP:
      case kPre:
      case kBlockquote:
      case kUl:
      case kOl:
      case kDl:
      case kTable:
      case kH1:
      case kH2:
      case kH3:
      case kH4:
      case kH5:
      case kH6:
      case kArticle:
      case kSection:
      case kFigure:
      case kHr:
      case kMenu:
      case kDir:
      case kXmp:
        return 2;
      case kTd:
      case kTh:
        return 0;
      default:
        return is_block(tag) ? 1 : 0;
    }
  }

  void enter(NodeId id) {
    const HtmlNode& node = tree_[id];
    if (node.is_text) {
      if (marks_[id]) text(node);
      return;
    }
    const int lines =
        lists_ > 0 && lines_around(node.tag) == 2 && node.tag != Tag::kPre ? 1 : lines_around(node.tag);
    wanted_lines_ = std::max(wanted_lines_, lines);
    switch (node.tag) {
      using enum Tag;
      case kPre:
      case kXmp:
        ++pre_;
        break;
      case kBr:
        if (!out_.empty()) wanted_lines_ = std::min(wanted_lines_ + 1, 2);
        break;
      case kUl:
      case kMenu:
      case kDir:
        ++lists_;
        numbers_.push_back(-1);
        break;
      case kOl:
        ++lists_;
        numbers_.push_back(0);
        break;
      case kLi:
        mark_.clear();
        if (!numbers_.empty() && numbers_.back() >= 0)
          mark_ = fmt::format("{}. ", ++numbers_.back());
        else
          mark_ = "- ";
        break;
      case kTr:
        cells_ = 0;
        break;
      case kTd:
      case kTh:
        if (cells_++ > 0) wants_cell_ = true;
        break;
      default:
        break;
    }
  }

  void leave(NodeId id) {
    const HtmlNode& node = tree_[id];
    const int lines =
        lists_ > 0 && lines_around(node.tag) == 2 && node.tag != Tag::kPre ? 1 : lines_around(node.tag);
    switch (node.tag) {
      using enum Tag;
      case kPre:
      case kXmp:
        --pre_;
        break;
      case kUl:
      case kMenu:
      case kDir:
      case kOl:
        --lists_;
        numbers_.pop_back();
        if (lists_ == 0) wanted_lines_ = 2;
        break;
      case kLi:
        mark_.clear();
        break;
      case kTr:
        wants_cell_ = false;
        break;
      default:
        break;
    }
    wanted_lines_ = std::max(wanted_lines_, lines);
  }

  // White space that is due before something visible.
  void begin_visible() {
    const bool in_cell = wants_cell_ && wanted_lines_ == 0;
    if (wanted_lines_ > 0 && !out_.empty()) {
      while (!out_.empty() && (out_.back() == ' ' || out_.back() == '\n')) out_.pop_back();
      if (!out_.empty()) out_.append(static_cast<std::size_t>(wanted_lines_), '\n');
    } else if (in_cell && !out_.empty() && out_.back() != '\n') {
      while (!out_.empty() && out_.back() == ' ') out_.pop_back();
      out_ += " | ";
    } else if (wants_space_ && !out_.empty() && out_.back() != '\n' && out_.back() != ' ') {
      out_ += ' ';
    }
    wants_cell_ = false;
    wanted_lines_ = 0;
    wants_space_ = false;
    if (!mark_.empty()) {
      if (lists_ > 1) out_.append(2 * static_cast<std::size_t>(std::min(lists_, 10) - 1), ' ');
      out_ += mark_;
      mark_.clear();
    }
  }

  void text(const HtmlNode& node) {
    const std::string_view shown = resolved_text(node, buffer_);
    if (pre_ > 0) {
      std::string_view rest = shown;
      if (wanted_lines_ > 0)  // the line end behind <pre> is not shown
        while (rest.starts_with('\n') || rest.starts_with('\r')) rest.remove_prefix(1);
      if (rest.empty()) return;
      begin_visible();
      for (const char c : rest)
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out_ += c;
      return;
    }
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const auto c = static_cast<unsigned char>(shown[i]);
      const bool no_break =
          c == 0xc2 && i + 1 < shown.size() && static_cast<unsigned char>(shown[i + 1]) == 0xa0;
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || no_break) {
        i += no_break;
        wants_space_ = true;
        continue;
      }
      if (c < 0x20) continue;
      if (wants_space_ || wanted_lines_ > 0 || wants_cell_ || !mark_.empty()) begin_visible();
      out_ += static_cast<char>(c);
    }
  }

  const HtmlTree& tree_;
  const Marks& marks_;
  std::string out_, buffer_, mark_;
  std::vector<int> numbers_;  // of the open lists; -1: without numbers
  int pre_ = 0, lists_ = 0, cells_ = 0, wanted_lines_ = 0;
  bool wants_space_ = false, wants_cell_ = false;
};

}  // namespace

std::string render(const HtmlTree& tree, const Marks& marks) { return Renderer(tree, marks).run(); }

}  // namespace stoa::curate
