#include <algorithm>

#include "curate/filters/datatrove.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

class FineWebQualityStage final : public Stage {
 public:
  explicit FineWebQualityStage(const FineWebQuality& options) : options_(options) {}

  void apply(Document&, Features& features, Verdict& verdict) const override {
    std::vector<Line> lines;
    std::int64_t ended = 0, brief = 0;
    for (const Line& line : features.lines()) {
      if (strip_left(line.text).empty()) continue;
      lines.push_back(line);
      ended += characters().has(read_character_before(line.text.data() + line.text.size()).value, kTerminal);
      brief += line.characters <= options_.short_line_length;
    }
    if (verdict.fails("empty", lines.empty()) || lines.empty()) return;
    const auto count = static_cast<double>(lines.size());
    const double share_ended = static_cast<double>(ended) / count;
    if ((ended > 0 || !options_.line_punct_exclude_zero) &&
        verdict.below("line_punct_ratio", share_ended, options_.line_punct_thr))
      return;
    if (verdict.above("short_line_ratio", static_cast<double>(brief) / count, options_.short_line_thr))
      return;
    const std::int64_t newlines = std::ssize(features.lines()) - 1;
    const double copied = static_cast<double>(features.repeats(lines).characters);
    if (verdict.above("char_dup_ratio", copied / static_cast<double>(features.characters() - newlines),
                      options_.char_duplicates_ratio))
      return;
    if (features.word_count() > 0)
      verdict.above("list_ratio", static_cast<double>(newlines) / static_cast<double>(features.word_count()),
                    options_.new_line_ratio);
  }

 private:
  const FineWebQuality options_;
};

}  // namespace

void declare(config::Section<FineWebQuality>& s) {
  s.field("line_punct_thr", &FineWebQuality::line_punct_thr)
      .range(0, 1)
      .help("Smallest share of lines that end with a mark that ends sentences; 0 switches a rule off.");
  s.field("line_punct_exclude_zero", &FineWebQuality::line_punct_exclude_zero)
      .help("Keep texts in which no line ends so.");
  s.field("short_line_thr", &FineWebQuality::short_line_thr)
      .range(0, 1)
      .help("Largest share of short lines.");
  s.field("short_line_length", &FineWebQuality::short_line_length)
      .at_least(0)
      .unit("characters")
      .help("Up to which a line is short.");
  s.field("char_duplicates_ratio", &FineWebQuality::char_duplicates_ratio)
      .range(0, 1)
      .help("Largest share of characters in lines that are copies of an earlier one.");
  s.field("new_line_ratio", &FineWebQuality::new_line_ratio).at_least(0).help("Most line ends per word.");
}

std::unique_ptr<Stage> make_stage(const FineWebQuality& options) {
  return std::make_unique<FineWebQualityStage>(options);
}

}  // namespace stoa::curate
