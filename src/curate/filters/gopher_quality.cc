#include <algorithm>

#include "curate/filters/datatrove.h"
#include "curate/text/character.h"
#include "curate/text/lines.h"

namespace stoa::curate {
namespace {

// Occurrences without overlap.
std::int64_t count_of(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

class GopherQualityStage final : public Stage {
 public:
  explicit GopherQualityStage(const GopherQuality& options) : options_(options) {}

  void apply(Document&, Features& features, Verdict& verdict) const override {
    const auto words = features.words();
    std::int64_t real = 0, characters = 0, with_letter = 0;
    for (const Word& word : words) {
      if (word.flags & Word::kNotSymbol) {
        ++real;
        characters += word.characters;
      }
      with_letter += (word.flags & Word::kHasLetter) != 0;
    }
    const auto count = static_cast<double>(words.size());
    if (verdict.below("gopher_short_doc", static_cast<double>(real),
                      static_cast<double>(options_.min_doc_words)) ||
        verdict.above("gopher_long_doc", static_cast<double>(real),
                      static_cast<double>(options_.max_doc_words)))
      return;
    if (words.empty()) return;
    if (real > 0) {
      const double mean = static_cast<double>(characters) / static_cast<double>(real);
      if (verdict.below("gopher_below_avg_threshold", mean, options_.min_avg_word_length) ||
          verdict.above("gopher_above_avg_threshold", mean, options_.max_avg_word_length))
        return;
    }
    const std::string_view text = features.text();
    const auto hashes = static_cast<double>(std::count(text.begin(), text.end(), '#'));
    if (verdict.above("gopher_too_many_hashes", hashes / count, options_.max_symbol_word_ratio)) return;
    const auto ellipses = static_cast<double>(count_of(text, "...") + count_of(text, "…"));
    if (verdict.above("gopher_too_many_ellipsis", ellipses / count, options_.max_symbol_word_ratio)) return;
    std::int64_t lines = 0, bullets = 0, open_ends = 0;
    each_line(text, [&](std::string_view line) {
      ++lines;
      const std::string_view begin = strip_left(line), end = strip_right(line);
      bullets += begin.starts_with('-') || begin.starts_with("•");
      open_ends += end.ends_with("...") || end.ends_with("…");
    });
    if (verdict.above("gopher_too_many_bullets", static_cast<double>(bullets) / static_cast<double>(lines),
                      options_.max_bullet_lines_ratio) ||
        verdict.above("gopher_too_many_end_ellipsis",
                      static_cast<double>(open_ends) / static_cast<double>(lines),
                      options_.max_ellipsis_lines_ratio) ||
        verdict.below("gopher_below_alpha_threshold", static_cast<double>(with_letter) / count,
                      options_.max_non_alpha_words_ratio))
      return;
    verdict.below("gopher_enough_stop_words", static_cast<double>(distinct_stop_words(words)),
                  static_cast<double>(options_.min_stop_words));
  }

 private:
  // Counted as far as the rule needs it.
  std::int64_t distinct_stop_words(std::span<const Word> words) const {
    std::vector<bool> found(options_.stop_words.size());
    std::int64_t distinct = 0;
    for (const Word& word : words) {
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] || options_.stop_words[i] != word.text()) continue;
        found[i] = true;
        ++distinct;
      }
      if (distinct >= options_.min_stop_words) break;
    }
    return distinct;
  }

  const GopherQuality options_;
};

}  // namespace

void declare(config::Section<GopherQuality>& s) {
  s.field("min_doc_words", &GopherQuality::min_doc_words)
      .at_least(0)
      .help("Fewest words that are not made of symbols only; 0 switches a rule off.");
  s.field("max_doc_words", &GopherQuality::max_doc_words)
      .at_least(0)
      .help("Most words that are not made of symbols only.");
  s.field("min_avg_word_length", &GopherQuality::min_avg_word_length)
      .at_least(0)
      .unit("characters")
      .help("Smallest mean length of such words.");
  s.field("max_avg_word_length", &GopherQuality::max_avg_word_length)
      .at_least(0)
      .unit("characters")
      .help("Largest mean length of such words.");
  s.field("max_symbol_word_ratio", &GopherQuality::max_symbol_word_ratio)
      .at_least(0)
      .help("Most # per word, and most ellipses per word.");
  s.field("max_bullet_lines_ratio", &GopherQuality::max_bullet_lines_ratio)
      .range(0, 1)
      .help("Largest share of lines that begin with a bullet or hyphen.");
  s.field("max_ellipsis_lines_ratio", &GopherQuality::max_ellipsis_lines_ratio)
      .range(0, 1)
      .help("Largest share of lines that end with an ellipsis.");
  s.field("max_non_alpha_words_ratio", &GopherQuality::max_non_alpha_words_ratio)
      .range(0, 1)
      .help("Smallest share of words with a letter (datatrove's name for it).");
  s.field("min_stop_words", &GopherQuality::min_stop_words)
      .at_least(0)
      .help("Fewest different words of stop_words.");
  s.field("stop_words", &GopherQuality::stop_words).help("Words of which a text in the language has some.");
}

std::unique_ptr<Stage> make_stage(const GopherQuality& options) {
  return std::make_unique<GopherQualityStage>(options);
}

}  // namespace stoa::curate
