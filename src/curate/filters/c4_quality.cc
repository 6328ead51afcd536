#include <cstring>

#include "base/utf8.h"
#include "curate/filters/datatrove.h"
#include "curate/text/character.h"
#include "curate/text/lines.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kLoremIpsum = "lorem ipsum", kJavaScript = "javascript";
constexpr std::string_view kPolicies[] = {"terms of use", "privacy policy", "cookie policy",
                                          "uses cookies", "use of cookies", "use cookies"};

bool has_policy(std::string_view lower) {
  for (const std::string_view phrase : kPolicies)
    if (lower.find(phrase) != lower.npos) return true;
  return false;
}

bool contains(std::string_view text, std::string_view part) {
  return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

// Whether a line of the text may fail one of the rules of phrases: tells most texts apart in one go.
bool may_have_phrases(std::string_view lower) {
  return contains(lower, kLoremIpsum) || contains(lower, kJavaScript) || contains(lower, "cookie"sv) ||
         contains(lower, "terms of use"sv) || contains(lower, "privacy policy"sv);
}

// Bytes of "[12]", "[]", "[edit]" or "[citation needed]" at the beginning; 0: none of them.
std::size_t citation_at(std::string_view text) {
  for (const std::string_view whole : {"[edit]"sv, "[citation needed]"sv})
    if (text.starts_with(whole)) return whole.size();
  std::size_t at = 1;
  while (at < text.size() && text[at] != ']') {
    const Character c = read_character(text.data() + at);
    if (!characters().has(c.value, kDigit)) return 0;
    at += c.length;
  }
  return at < text.size() ? at + 1 : 0;
}

// False where there is none.
bool remove_citations(std::string_view line, std::string& out) {
  out.clear();
  std::size_t from = 0;
  for (std::size_t at = line.find('['); at != line.npos;) {
    const std::size_t bytes = citation_at(line.substr(at));
    if (bytes > 0) {
      out += line.substr(from, at - from);
      from = at + bytes;
    }
    at = line.find('[', bytes > 0 ? from : at + 1);
  }
  if (from > 0) out += line.substr(from);
  return from > 0;
}

// Whether a word between white space has more than `most` characters.
bool has_longer_word(std::string_view line, std::int64_t most) {
  if (static_cast<std::int64_t>(line.size()) <= most) return false;
  std::int64_t length = 0;
  for (const char *p = line.data(), *end = p + line.size(); p < end;) {
    const Character c = read_character(p);
    length = characters().has(c.value, kSpace) ? 0 : length + 1;
    if (length > most) return true;
    p += c.length;
  }
  return false;
}

std::int64_t count_pieces(std::span<const Word> words) {
  std::int64_t pieces = words.empty() ? 0 : 1;
  for (const Word& word : words.subspan(words.empty() ? 0 : 1))
    pieces += (word.flags & (Word::kAfterSpace | Word::kAfterGap)) != 0;
  return pieces;
}

class C4QualityStage final : public Stage {
 public:
  explicit C4QualityStage(const C4Quality& options) : options_(options) {}

  void apply(Document& document, Features& features, Verdict& verdict) const override {
    const std::string_view text = features.text();
    std::string lower, changed, kept;
    append_lower(text, lower);
    const bool phrases = may_have_phrases(lower);
    const bool bracket = options_.filter_curly_bracket && text.find('{') != text.npos;
    const auto words = features.words();
    std::size_t next = 0;  // word of the lines not yet seen
    std::int64_t sentences = 0, kept_words = 0;
    bool done = false, any = false;
    kept.reserve(text.size());
    each_line(text, [&](std::string_view whole) {
      const std::size_t first = next;
      while (next < words.size() && words[next].begin < whole.data() + whole.size()) ++next;
      if (done) return;
      const std::span<const Word> own = words.subspan(first, next - first);
      std::string_view line = strip(whole);
      if (options_.max_word_length != kOff && has_longer_word(line, options_.max_word_length)) return;
      const bool is_changed = options_.remove_citations && remove_citations(line, changed);
      if (is_changed) line = changed;
      if (options_.filter_no_terminal_punct &&
          (line.empty() || ".?!\"'"sv.find(line.back()) == std::string_view::npos || line.ends_with("...")))
        return;
      if (count_pieces(own) < options_.min_words_per_line) return;
      if (phrases) {
        lower.clear();
        append_lower(line, lower);
        if (options_.filter_lorem_ipsum &&
            (done = verdict.fails("lorem_ipsum", contains(lower, kLoremIpsum))))
          return;
        if (options_.filter_javascript && contains(lower, kJavaScript)) return;
      }
      if (bracket && (done = verdict.fails("curly_bracket", line.find('{') != line.npos))) return;
      if (phrases && options_.filter_policy && has_policy(lower)) return;
      std::span<const Word> line_words = own;
      bool gap = false;
      if (is_changed) {
        line_words = features.other_words().split(line);
        gap = features.other_words().ends_with_gap();
      }
      sentences += count_sentences(line_words, gap);
      kept_words += std::ssize(line_words);
      if (any) kept += '\n';
      kept += line;
      any = true;
    });
    if (done) return;
    if (options_.min_num_sentences != kOff &&
        verdict.below("too_few_sentences", static_cast<double>(sentences),
                      static_cast<double>(options_.min_num_sentences)))
      return;
    const std::string_view result = strip(kept);
    if (result == document.text) return;
    document.text = result;
    features.reset(document.text, kept_words);
  }

 private:
  static constexpr std::int64_t kOff = -1;
  const C4Quality options_;
};

}  // namespace

void declare(config::Section<C4Quality>& s) {
  s.field("remove_citations", &C4Quality::remove_citations)
      .help("Delete [12], [edit] and [citation needed].");
  s.field("filter_no_terminal_punct", &C4Quality::filter_no_terminal_punct)
      .help("Drop lines that do not end with . ? ! \" or ', or end with three dots.");
  s.field("min_num_sentences", &C4Quality::min_num_sentences)
      .at_least(-1)
      .help("Fewest sentences in the lines that are kept; -1: any number.");
  s.field("min_words_per_line", &C4Quality::min_words_per_line)
      .at_least(-1)
      .help("Drop lines with fewer words between white space.");
  s.field("max_word_length", &C4Quality::max_word_length)
      .at_least(-1)
      .unit("characters")
      .help("Drop lines with a longer word between white space; -1: no limit.");
  s.field("filter_lorem_ipsum", &C4Quality::filter_lorem_ipsum).help("Drop documents with \"lorem ipsum\".");
  s.field("filter_javascript", &C4Quality::filter_javascript).help("Drop lines with \"javascript\".");
  s.field("filter_curly_bracket", &C4Quality::filter_curly_bracket).help("Drop documents with {.");
  s.field("filter_policy", &C4Quality::filter_policy)
      .help("Drop lines about cookies, privacy policies and terms of use.");
}

std::unique_ptr<Stage> make_stage(const C4Quality& options) {
  return std::make_unique<C4QualityStage>(options);
}

}  // namespace stoa::curate
