// The language of a text, by one of several means.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::curate {

class LanguageIdentifier {
 public:
  virtual ~LanguageIdentifier() = default;
  // The languages that the text may be in, as codes ("en", "zh-Hant"; of a fastText model its labels), with
  // scores from 0 to 1, the best first; may be empty. Threads may call it at the same time.
  virtual std::vector<std::pair<std::string, double>> identify(std::string_view text) const = 0;
  // All that it may answer.
  virtual std::vector<std::string> languages() const = 0;
};

// CLD2, as the system's library knows it: shares of the text in up to three languages; none where CLD2 does
// not trust its answer. It judges the first `most_bytes` of a longer text; 0: all of it.
std::unique_ptr<LanguageIdentifier> make_cld2(std::size_t most_bytes = 0);
// The same, and where CLD2 does not trust its answer the classifier that comes with Stoa (186 languages;
// scripts/make_language_model.py), if it gives a language at least half.
std::unique_ptr<LanguageIdentifier> make_cld2_with_classifier(std::size_t most_bytes = 0);
// A model of fastText in a file: lid.176.bin, lid.176.ftz, GlotLID …
std::unique_ptr<LanguageIdentifier> make_fasttext_identifier(const std::string& path);

}  // namespace stoa::curate
