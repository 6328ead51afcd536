#include "curate/wiki/wikitext.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "curate/html/tokenizer.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;
constexpr std::size_t kNpos = std::string_view::npos;
constexpr std::size_t kLongestTag = 4000;

// Elements that go with what they hold.
constexpr std::string_view kCutElements[] = {
    "ref",   "references", "gallery",     "timeline",     "imagemap",       "math",      "chem",
    "ce",    "score",      "graph",       "mapframe",     "maplink",        "indicator", "inputbox",
    "hiero", "table",      "includeonly", "templatedata", "templatestyles", "style",     "script",
    "rss",   "phonos",     "section",     "categorytree", "dynamicpagelist"};
// Elements whose content is no wikitext and stays.
constexpr std::string_view kLiteralElements[] = {"nowiki", "pre", "source", "syntaxhighlight"};
// Elements that begin and end lines.
constexpr std::string_view kLineElements[] = {"br",   "hr", "p",  "div", "blockquote", "center",
                                              "poem", "ul", "ol", "dl",  "dt",         "dd",
                                              "h1",   "h2", "h3", "h4",  "h5",         "h6"};
// Elements that only change how text looks.
constexpr std::string_view kInlineElements[] = {
    "span",      "small",  "big",     "sub",         "sup",       "b",           "i",         "u",
    "s",         "strike", "em",      "strong",      "code",      "tt",          "kbd",       "var",
    "samp",      "font",   "abbr",    "cite",        "q",         "bdi",         "bdo",       "ins",
    "del",       "mark",   "rt",      "ruby",        "rp",        "rb",          "wbr",       "time",
    "data",      "a",      "dfn",     "onlyinclude", "noinclude", "langconvert", "translate", "tvar",
    "languages", "nobr",   "caption", "tr",          "td",        "th",          "li"};

template <std::size_t n>
bool is_one_of(std::string_view name, const std::string_view (&names)[n]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// "fr", "zh-min-nan", "simple": the same page in another edition.
bool is_edition(std::string_view prefix) {
  if (prefix == "simple") return true;
  const std::string_view first = prefix.substr(0, prefix.find('-'));
  return first.size() >= 2 && first.size() <= 3 &&
         prefix.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == kNpos;
}

// Editions that write -{text}- for what is written differently in their variants.
bool has_variants(std::string_view language) {
  constexpr std::string_view kLanguages[] = {"zh", "sr", "kk", "ku", "iu", "tg", "uz", "crh", "gan", "shi"};
  return is_one_of(language, kLanguages);
}

// The first pass over the text: constructs within and across lines, with a stack of those that are open. What
// is open is in the output as it was written, so that nothing is lost where it is never closed.
class WikiScanner {
 public:
  WikiScanner(std::string_view text, const WikiSite& site)
      : text_(text), site_(site), variants_(has_variants(site.language)) {}

  std::string run() {
    std::array<bool, 256> special{};
    for (const char c : "{}[]|<'\n_-\x01\x02"sv) special[static_cast<unsigned char>(c)] = true;
    while (at_ < text_.size()) {
      std::size_t end = at_;
      while (end < text_.size() && !special[static_cast<unsigned char>(text_[end])]) ++end;
      out_ += text_.substr(at_, end - at_);
      at_ = end;
      if (at_ < text_.size()) step();
    }
    end_line_of_quotes();
    const bool open_table =
        std::any_of(open_.begin(), open_.end(), [](const Open& o) { return o.kind == Kind::kTable; });
    return wiki_lines_to_text(out_, open_table);
  }

 private:
  enum class Kind : std::uint8_t { kTemplate, kTable, kLink, kExternal, kVariant };
  struct Open {
    Kind kind;
    std::size_t out;           // where it begins in out_
    std::size_t braces = 0;    // of a template
    std::size_t pipe = kNpos;  // the first | of a link, in out_
  };

  std::string_view rest() const { return text_.substr(at_); }
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool is_top(Kind kind) const { return !open_.empty() && open_.back().kind == kind; }
  void push(Kind kind, std::size_t bytes, std::size_t braces = 0) {
    open_.push_back({kind, out_.size(), braces});
    copy(bytes);
    ++count_[static_cast<std::size_t>(kind)];
  }
  void pop() {
    --count_[static_cast<std::size_t>(open_.back().kind)];
    open_.pop_back();
  }
  // Ends what is open above the last construct of a kind; false where there is none.
  bool pop_to(Kind kind) {
    if (count_[static_cast<std::size_t>(kind)] == 0) return false;
    while (open_.back().kind != kind) pop();
    return true;
  }
  void copy(std::size_t bytes) {
    out_ += text_.substr(at_, bytes);
    at_ += bytes;
  }
  // Takes away what was written since `from`.
  void cut(std::size_t from) {
    out_.resize(from);
    out_ += kCutMark;
  }
  std::size_t run_of(char c) const { return std::min(text_.find_first_not_of(c, at_), text_.size()) - at_; }
  // Only blanks and marks of lists before it in its line.
  bool begins_line() const {
    std::size_t i = at_;
    while (i > 0 && " \t:*#;"sv.find(text_[i - 1]) != kNpos) --i;
    return i == 0 || text_[i - 1] == '\n';
  }

  void step() {
    switch (text_[at_]) {
      case '{':
        return open_braces();
      case '}':
        return close_braces();
      case '[':
        return open_bracket();
      case ']':
        return close_bracket();
      case '|':
        return pipe();
      case '<':
        return tag();
      case '\'':
        return quotes();
      case '\n':
        while (is_top(Kind::kExternal) || (is_top(Kind::kLink) && open_.back().pipe == kNpos)) pop();
        end_line_of_quotes();
        return copy(1);
      case '_':
        return magic_word();
      case '-':
        if (!variants_ || peek(1) != '{' || peek(2) == '{') return copy(1);
        return push(Kind::kVariant, 2);
      default:  // our own marks
        ++at_;
    }
  }

  void open_braces() {
    const std::size_t n = run_of('{');
    if (n >= 2) return push(Kind::kTemplate, n, n);
    if (peek(1) == '|' && begins_line()) return push(Kind::kTable, 2);
    copy(1);
  }

  void close_braces() {
    std::size_t n = run_of('}');
    if (n == 1 && peek(1) == '-' && is_top(Kind::kVariant)) return close_variant();
    at_ += n;
    while (n >= 2 && pop_to(Kind::kTemplate)) {
      Open& open = open_.back();
      const std::size_t closed = std::min({open.braces, n, std::size_t{3}});
      open.braces -= closed;
      n -= closed;
      out_.resize(open.out);
      out_.append(open.braces, '{');
      if (open.braces >= 2) continue;
      out_ += kCutMark;
      pop();
    }
    out_.append(n, '}');
  }

  void close_variant() {
    const Open open = open_.back();
    pop();
    at_ += 2;
    std::string content = out_.substr(open.out + 2);
    if (const std::size_t flags = content.find('|'); flags != content.npos) {
      if (content.substr(0, flags).find_first_of("HT-") != content.npos) return cut(open.out);
      content.erase(0, flags + 1);
    }
    const std::size_t colon = content.find(':');
    if (colon != content.npos && content.find_first_not_of("abcdefghijklmnopqrstuvwxyz- ") == colon) {
      const std::size_t end = content.find(';');
      content = content.substr(colon + 1, end == content.npos ? end : end - colon - 1);
    }
    out_.resize(open.out);
    out_ += content;
  }

  void open_bracket() {
    if (peek(1) == '[') return push(Kind::kLink, 2);
    constexpr std::string_view kSchemes[] = {"http://", "https://", "ftp://", "//",
                                             "mailto:", "news:",    "irc://"};
    const std::string_view target = rest().substr(1);
    if (std::any_of(std::begin(kSchemes), std::end(kSchemes), [&](auto s) { return target.starts_with(s); }))
      return push(Kind::kExternal, 1);
    copy(1);
  }

  void close_bracket() {
    if (is_top(Kind::kExternal)) {
      const Open open = open_.back();
      pop();
      ++at_;
      const std::string content = out_.substr(open.out + 1);
      const std::size_t label = content.find_first_of(" \t");
      cut(open.out);
      if (label == content.npos) return;
      out_.pop_back();
      out_ += strip(std::string_view(content).substr(label));
      return;
    }
    if (peek(1) != ']' || !is_top(Kind::kLink)) return copy(1);
    const Open open = open_.back();
    pop();
    at_ += 2;
    close_link(open);
  }

  void close_link(const Open& open) {
    const std::string content = out_.substr(open.out + 2);
    const bool has_label = open.pipe != kNpos;
    const std::string_view target =
        strip(std::string_view(content).substr(0, has_label ? open.pipe - open.out - 2 : kNpos));
    std::string_view label = has_label ? std::string_view(content).substr(open.pipe - open.out - 1) : target;
    const std::size_t colon = target.find(':');
    if (colon != kNpos && colon > 0) {
      const std::string_view prefix = strip(target.substr(0, colon));
      if (is_edition(prefix) || is_namespace(prefix)) return cut(open.out);
    }
    if (has_label && strip(label).empty()) {  // the pipe trick
      label = target.substr(colon == kNpos ? 0 : colon + 1);
      label = strip(label.substr(0, label.find('(')));
    }
    if (!has_label && target.starts_with(':')) label = target.substr(1);
    out_.resize(open.out);
    out_ += label;
  }

  // Whether a link leads to a file or category.
  bool is_namespace(std::string_view prefix) const {
    std::string lower;
    append_lower(prefix, lower);
    std::replace(lower.begin(), lower.end(), '_', ' ');
    const auto among = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), lower) != names.end();
    };
    return among(site_.file_names) || among(site_.category_names);
  }

  void pipe() {
    const bool ends_template = peek(2) == '}' && count_[static_cast<std::size_t>(Kind::kTemplate)] > 0;
    if (peek(1) == '}' && !ends_template && begins_line() && pop_to(Kind::kTable)) {
      const Open open = open_.back();
      pop();
      at_ += 2;
      return cut(open.out);
    }
    if (is_top(Kind::kLink) && open_.back().pipe == kNpos) open_.back().pipe = out_.size();
    copy(1);
  }

  // Marks of italic and bold text go. Where a line has an odd number of both, one that looks like bold is an
  // apostrophe and italic (MediaWiki's Parser::doQuotes).
  void quotes() {
    const std::size_t n = run_of('\'');
    at_ += n;
    out_.append(n == 1 || n == 4 ? 1 : n > 5 ? n - 5 : 0, '\'');
    if (n == 1) return;
    italics_ += n == 2 || n >= 5;
    if (n > 2) bolds_.push_back(out_.size());
  }

  void end_line_of_quotes() {
    std::erase_if(bolds_, [&](std::size_t at) { return at > out_.size(); });
    if (italics_ % 2 == 1 && bolds_.size() % 2 == 1) {
      // After a word of one letter first, else after a longer one, else after a blank.
      const auto rank = [&](std::size_t at) {
        if (at == 0 || out_[at - 1] == ' ') return 2;
        return at == 1 || out_[at - 2] == ' ' ? 0 : 1;
      };
      const auto chosen = std::min_element(bolds_.begin(), bolds_.end(),
                                           [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
      out_.insert(*chosen, 1, '\'');
      for (Open& open : open_) {
        if (open.pipe != kNpos && open.pipe >= *chosen) ++open.pipe;
        open.out += open.out >= *chosen;
      }
    }
    italics_ = 0;
    bolds_.clear();
  }

  // __NOTOC__, in any language.
  void magic_word() {
    constexpr std::size_t kLongest = 80;
    if (peek(1) == '_') {
      std::size_t end = 2;
      while (end < kLongest &&
             (static_cast<unsigned char>(peek(end)) >= 0x80 || (peek(end) >= 'A' && peek(end) <= 'Z') ||
              (peek(end) == '_' && peek(end + 1) != '_')))
        ++end;
      if (end > 2 && peek(end) == '_' && peek(end + 1) == '_') {
        at_ += end + 2;
        out_ += kCutMark;
        return;
      }
    }
    copy(1);
  }

  // Where </name> begins, behind `from`; npos: nowhere. Remembers names that are not closed any more.
  std::size_t find_end(const std::string& name, std::size_t from) {
    if (const auto known = unclosed_.find(name); known != unclosed_.end() && known->second <= from)
      return kNpos;
    for (std::size_t at = text_.find("</", from); at != kNpos; at = text_.find("</", at + 2)) {
      const std::string_view end = text_.substr(at + 2);
      if (end.size() <= name.size() || !is_named(end.substr(0, name.size()), name)) continue;
      const std::size_t after = end.find_first_not_of(" \t\n", name.size());
      if (after != kNpos && end[after] == '>') return at;
    }
    unclosed_.emplace(name, from);
    return kNpos;
  }

  void tag() {
    if (rest().starts_with("<!--")) {
      const std::size_t end = text_.find("-->", at_ + 4);
      at_ = end == kNpos ? text_.size() : end + 3;
      out_ += kCutMark;
      return;
    }
    const bool closes = peek(1) == '/';
    std::size_t name_end = at_ + 1 + closes;
    std::string name;
    for (; name_end < text_.size() &&
           (is_ascii_letter(text_[name_end]) || (!name.empty() && is_ascii_digit(text_[name_end])));
         ++name_end)
      name += static_cast<char>(text_[name_end] | 0x20);
    const std::size_t end = text_.substr(0, std::min(text_.size(), at_ + kLongestTag)).find('>', name_end);
    if (name.empty() || end == kNpos) return copy(1);
    const bool empty = text_[end - 1] == '/';
    if (is_one_of(name, kLiteralElements)) {
      at_ = end + 1;
      if (!closes && !empty) literal(name);
    } else if (is_one_of(name, kCutElements)) {
      at_ = end + 1;
      out_ += kCutMark;
      if (closes || empty) return;
      if (const std::size_t close = end_of_element(name); close != kNpos) at_ = close;
    } else if (is_one_of(name, kLineElements)) {
      at_ = end + 1;
      out_ += '\n';
    } else if (is_one_of(name, kInlineElements)) {
      at_ = end + 1;
      if (name == "li" && !closes) out_ += "\n* ";
    } else {
      copy(1);
    }
  }

  // Behind the tag that ends the element whose first tag ends at at_, with those of its kind inside; npos:
  // none.
  std::size_t end_of_element(const std::string& name) {
    std::size_t from = at_, depth = 1;
    for (;;) {
      const std::size_t end = find_end(name, from);
      if (end == kNpos) {
        unbalanced_tables_ |= name == "table";
        return kNpos;
      }
      if (name == "table" && !unbalanced_tables_)  // which tables may hold
        for (std::size_t inner = text_.find("<table", from); inner < end;
             inner = text_.find("<table", inner + 1))
          ++depth;
      from = end + 2 + name.size();
      if (--depth > 0) continue;
      const std::size_t close = text_.find('>', from);
      return close == kNpos ? text_.size() : close + 1;
    }
  }

  // What stands between the tags, as it is.
  void literal(const std::string& name) {
    const std::size_t end = find_end(name, at_);
    if (end == kNpos) return;
    std::string_view content = text_.substr(at_, end - at_);
    const bool inline_text = content.find('\n') == kNpos;
    if (!inline_text) {
      if (!out_.empty() && out_.back() != '\n') out_ += '\n';
      if (content.starts_with('\n')) content.remove_prefix(1);
      if (content.ends_with('\n')) content.remove_suffix(1);
      out_ += kLiteralMark;
    }
    for (const char c : content) {
      if (c == kCutMark || c == kLiteralMark) continue;
      out_ += c;
      if (c == '\n') out_ += kLiteralMark;
    }
    if (!inline_text) out_ += '\n';
    const std::size_t close = text_.find('>', end);
    at_ = close == kNpos ? text_.size() : close + 1;
  }

  const std::string_view text_;
  const WikiSite& site_;
  const bool variants_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<Open> open_;
  std::size_t italics_ = 0;                      // in this line
  std::vector<std::size_t> bolds_;               // where they stand in out_, in this line
  std::array<std::size_t, 5> count_{};           // of open constructs, by kind
  bool unbalanced_tables_ = false;               // then each ends at the next end
  std::map<std::string, std::size_t> unclosed_;  // elements, and from where on no end of theirs follows
};

}  // namespace

std::string wikitext_to_text(std::string_view wikitext, const WikiSite& site) {
  return WikiScanner(wikitext, site).run();
}

}  // namespace stoa::curate
