#include "curate/language/identifier.h"

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

#include <algorithm>
#include <limits>

#include "base/shipped_files.h"
#include "curate/language/fasttext_model.h"

namespace stoa::curate {
namespace {

// Not more than `most` bytes of a text, without a part of a character; 0: all of it.
std::string_view beginning(std::string_view text, std::size_t most) {
  if (most == 0 || text.size() <= most) return text;
  while (most > 0 && (text[most] & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

class Cld2 final : public LanguageIdentifier {
 public:
  explicit Cld2(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  std::vector<std::pair<std::string, double>> identify(std::string_view whole) const override {
    const std::string_view text = beginning(whole, most_bytes_);
    CLD2::Language languages[3];
    int percents[3], text_bytes = 0;
    double scores[3];
    bool reliable = false;
    const CLD2::CLDHints hints{nullptr, nullptr, CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
    const auto bytes =
        static_cast<int>(std::min<std::size_t>(text.size(), std::numeric_limits<int>::max() / 2));
    CLD2::ExtDetectLanguageSummary(text.data(), bytes, true, &hints, 0, languages, percents, scores, nullptr,
                                   &text_bytes, &reliable);
    std::vector<std::pair<std::string, double>> found;
    for (int i = 0; reliable && i < 3; ++i)
      if (languages[i] != CLD2::UNKNOWN_LANGUAGE && percents[i] > 0)
        found.emplace_back(CLD2::LanguageCode(languages[i]), percents[i] / 100.0);
    return found;
  }
  std::vector<std::string> languages() const override {
    std::vector<std::string> codes;
    for (int i = 0; i < CLD2::NUM_LANGUAGES; ++i)
      if (i != CLD2::UNKNOWN_LANGUAGE) codes.emplace_back(CLD2::LanguageCode(static_cast<CLD2::Language>(i)));
    return codes;
  }

 private:
  const std::size_t most_bytes_;
};

class FastTextIdentifier final : public LanguageIdentifier {
 public:
  explicit FastTextIdentifier(const std::string& path) : model_(path) {}
  std::vector<std::pair<std::string, double>> identify(std::string_view text) const override {
    std::vector<float> probabilities;
    model_.predict(text, probabilities);
    std::vector<std::pair<std::string, double>> found;
    for (std::size_t i = 0; i < probabilities.size(); ++i)
      if (probabilities[i] > 0.001F) found.emplace_back(model_.labels()[i], probabilities[i]);
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return found;
  }
  std::vector<std::string> languages() const override { return model_.labels(); }

 private:
  const FastTextModel model_;
};

class Cld2WithClassifier final : public LanguageIdentifier {
 public:
  explicit Cld2WithClassifier(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  std::vector<std::pair<std::string, double>> identify(std::string_view whole) const override {
    const std::string_view text = beginning(whole, most_bytes_);
    auto found = cld2_.identify(text);
    if (!found.empty()) return found;
    found = classifier_.identify(text);
    if (found.empty() || found.front().second < kLeastProbability) return {};
    return found;
  }
  std::vector<std::string> languages() const override {
    std::vector<std::string> all = cld2_.languages();
    for (std::string& name : classifier_.languages()) all.push_back(std::move(name));
    return all;
  }

 private:
  static constexpr double kLeastProbability = 0.5;
  const std::size_t most_bytes_;
  const Cld2 cld2_{0};  // judges all that it is given
  const FastTextIdentifier classifier_{shipped_file("language/languages.ftz").string()};
};

}  // namespace

std::unique_ptr<LanguageIdentifier> make_cld2_with_classifier(std::size_t most_bytes) {
  return std::make_unique<Cld2WithClassifier>(most_bytes);
}
std::unique_ptr<LanguageIdentifier> make_cld2(std::size_t most_bytes) {
  return std::make_unique<Cld2>(most_bytes);
}
std::unique_ptr<LanguageIdentifier> make_fasttext_identifier(const std::string& path) {
  return std::make_unique<FastTextIdentifier>(path);
}

}  // namespace stoa::curate
