#include "curate/filters/language_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/escape.h"
#include "base/nearest.h"
#include "curate/io/json_document.h"
#include "curate/language/identifier.h"

namespace stoa::curate {
namespace {

// What CLD2 calls languages that have other codes today.
std::string suggestion(const std::string& language, const std::vector<std::string>& known) {
  constexpr std::pair<std::string_view, std::string_view> kOlder[] = {
      {"he", "iw"},  {"jv", "jw"},    {"nb", "no"},        {"fil", "tl"},
      {"cmn", "zh"}, {"zh-CN", "zh"}, {"zh-TW", "zh-Hant"}};
  for (const auto& [today, older] : kOlder)
    if (language == today && std::find(known.begin(), known.end(), older) != known.end())
      return fmt::format(" (did you mean '{}'?)", older);
  return did_you_mean(language, known);
}

class LanguageFilterStage final : public Stage {
 public:
  explicit LanguageFilterStage(const LanguageFilter& options)
      : options_(options),
        identifier_(options.model == "cld2" ? make_cld2(static_cast<std::size_t>(options.cld2_bytes))
                    : options.model == "stoa"
                        ? make_cld2_with_classifier(static_cast<std::size_t>(options.cld2_bytes))
                        : make_fasttext_identifier(options.model)) {
    const std::vector<std::string> known = identifier_->languages();
    for (const std::string& language : options_.languages)
      require<ConfigError>(std::find(known.begin(), known.end(), language) != known.end(),
                           "language: the model '{}' knows no language '{}'{}; its names are like '{}'",
                           options_.model, language, suggestion(language, known),
                           known.empty() ? "" : known.front());
  }

  // As datatrove: with a list, any language of it above the threshold keeps a document.
  void apply(Document& document, Features& features, Verdict& verdict) const override {
    const auto found = identifier_->identify(features.text());
    std::string name;
    append_json_string(found.empty() ? std::string_view("un") : std::string_view(found.front().first), name);
    set_member("language", name, document.metadata);
    set_member("language_score", fmt::format("{:.4f}", found.empty() ? 0 : found.front().second),
               document.metadata);
    if (options_.label_only) return;
    double best = 0;
    for (const auto& [language, score] : found)
      if (options_.languages.empty() || std::find(options_.languages.begin(), options_.languages.end(),
                                                  language) != options_.languages.end())
        best = std::max(best, score);
    verdict.below("language", best, options_.threshold);
  }

 private:
  const LanguageFilter options_;
  const std::unique_ptr<LanguageIdentifier> identifier_;
};

}  // namespace

void declare(config::Section<LanguageFilter>& s) {
  s.field("model", &LanguageFilter::model)
      .not_empty()
      .help(
          "cld2 (shares of the text as scores); stoa (CLD2, and where it has no answer the classifier that "
          "comes with Stoa); or the file of a fastText model: lid.176.bin, GlotLID …");
  s.field("languages", &LanguageFilter::languages)
      .help(
          "Codes of which one must reach the threshold (en, fr, zh …, of a fastText model its labels); "
          "empty: any language.");
  s.field("threshold", &LanguageFilter::threshold)
      .range(0, 1)
      .help("Smallest score of the language; 0 drops nothing.");
  s.field("cld2_bytes", &LanguageFilter::cld2_bytes)
      .range(0, 1'000'000'000)
      .help(
          "With model cld2 or stoa: how much of a long text is judged, from its beginning, in bytes; 0: the "
          "whole text. Models of fastText judge the whole text.");
  s.field("label_only", &LanguageFilter::label_only)
      .help("Write `language` and `language_score` into the document, and drop nothing.");
}

std::unique_ptr<Stage> make_stage(const LanguageFilter& options) {
  return std::make_unique<LanguageFilterStage>(options);
}

}  // namespace stoa::curate
