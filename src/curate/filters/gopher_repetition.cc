#include <fmt/format.h>

#include "curate/filters/datatrove.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

// As re.split("\n{2,}") of the stripped text.
void split_into_paragraphs(std::string_view text, std::vector<Line>& pieces) {
  pieces.clear();
  text = strip(text);
  for (;;) {
    const std::size_t end = text.find("\n\n");
    const std::string_view piece = text.substr(0, end);
    pieces.push_back({piece, static_cast<std::uint32_t>(count_characters(piece))});
    if (end == text.npos) return;
    text.remove_prefix(text.find_first_not_of('\n', end));
  }
}

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

class GopherRepetitionStage final : public Stage {
 public:
  explicit GopherRepetitionStage(const GopherRepetition& options) : options_(options) {
    for (std::size_t i = 0; i < options_.top_n_grams.size(); ++i)
      top_names_.push_back(fmt::format("top_{}_gram", i + 2));
    for (std::size_t i = 0; i < options_.dup_n_grams.size(); ++i)
      repeated_names_.push_back(fmt::format("duplicated_{}_n_grams", i + 5));
  }

  void apply(Document&, Features& features, Verdict& verdict) const override {
    const std::string_view text = features.text();
    if (verdict.fails("empty", text.empty()) || text.empty()) return;
    const std::int64_t characters = features.characters();
    std::vector<Line> pieces;
    split_into_paragraphs(text, pieces);
    Repeats repeats = features.repeats(pieces);
    if (verdict.above("dup_para_frac", share(repeats.pieces, std::ssize(pieces)), options_.dup_para_frac) ||
        verdict.above("dup_para_char_frac", share(repeats.characters, characters),
                      options_.dup_para_char_frac))
      return;
    split_at_newlines(features, pieces);
    repeats = features.repeats(pieces);
    if (verdict.above("dup_line_frac", share(repeats.pieces, std::ssize(pieces)), options_.dup_line_frac) ||
        verdict.above("dup_line_char_frac", share(repeats.characters, characters),
                      options_.dup_line_char_frac))
      return;
    for (int i = 0; i < std::ssize(options_.top_n_grams); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (verdict.above(top_names_[at], share(features.top_ngram_characters(i + 2), characters),
                        options_.top_n_grams[at]))
        return;
    }
    for (int i = 0; i < std::ssize(options_.dup_n_grams); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (verdict.above(repeated_names_[at], share(features.repeated_ngram_characters(i + 5), characters),
                        options_.dup_n_grams[at]))
        return;
    }
  }

 private:
  const GopherRepetition options_;
  std::vector<std::string> top_names_, repeated_names_;
};

}  // namespace

void declare(config::Section<GopherRepetition>& s) {
  s.field("dup_para_frac", &GopherRepetition::dup_para_frac)
      .range(0, 1)
      .help("Largest share of paragraphs that are copies of an earlier one; 0: no limit.");
  s.field("dup_para_char_frac", &GopherRepetition::dup_para_char_frac)
      .range(0, 1)
      .help("Largest share of characters in such paragraphs.");
  s.field("dup_line_frac", &GopherRepetition::dup_line_frac)
      .range(0, 1)
      .help("Largest share of lines that are copies of an earlier one.");
  s.field("dup_line_char_frac", &GopherRepetition::dup_line_char_frac)
      .range(0, 1)
      .help("Largest share of characters in such lines.");
  s.field("top_n_grams", &GopherRepetition::top_n_grams)
      .range(0, 100)
      .help("Largest shares of characters in the most frequent sequence of 2, 3, 4 … words.");
  s.field("dup_n_grams", &GopherRepetition::dup_n_grams)
      .range(0, 1)
      .help("Largest shares of characters in sequences of 5, 6, 7 … words that occurred before.");
}

std::unique_ptr<Stage> make_stage(const GopherRepetition& options) {
  return std::make_unique<GopherRepetitionStage>(options);
}

}  // namespace stoa::curate
