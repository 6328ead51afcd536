#include "curate/filters/code_per_extension.h"

#include <algorithm>

#include "curate/code/extension_limits.h"
#include "curate/io/json_document.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::string_view kMarks = "\n?!,.";

class CodePerExtensionStage final : public Stage {
 public:
  explicit CodePerExtensionStage(const CodePerExtension& options) : options_(options) {}

  void apply(Document& document, Features& features, Verdict& verdict) const override {
    const ExtensionLimits* const limits = find_extension_limits(string_member("language", document.metadata),
                                                                string_member("path", document.metadata));
    if (verdict.fails("extension", limits ? !limits->included : options_.drop_unlisted) || !limits) return;
    if (verdict.fails("empty", features.text().empty())) return;
    // Between line feeds: a text that ends with one has an empty line after it, which counts.
    std::int64_t longest = 0;
    for (const Line& line : features.lines()) longest = std::max<std::int64_t>(longest, line.characters);
    const auto characters = static_cast<double>(features.characters());
    const double mean = (characters + 1) / static_cast<double>(features.lines().size()) - 1;
    if (verdict.above("line_max", static_cast<double>(longest), limits->longest_line)) return;
    if (verdict.above("line_mean", mean, limits->longest_line > 0 ? options_.max_mean_line_length : 0))
      return;
    std::int64_t plain = 0, alphabetic = 0;
    const std::string_view text = features.text();
    for (const char *p = text.data(), *end = p + text.size(); p < end;) {
      const Character c = read_character(p);
      // NeMo Curator's alphanumeric characters: ASCII alone, with some marks and line feeds.
      plain += c.length == 1 && (is_ascii_alphanumeric(*p) || kMarks.find(*p) != kMarks.npos);
      alphabetic += characters_.has(c.value, kAlphabetic);
      p += c.length;
    }
    if (verdict.below("alphanum_fraction", static_cast<double>(plain) / characters, limits->alphanumeric))
      return;
    verdict.below("alpha_fraction", static_cast<double>(alphabetic) / characters, limits->alphabetic);
  }

 private:
  const CodePerExtension options_;
  const Characters& characters_ = characters();
};

}  // namespace

void declare(config::Section<CodePerExtension>& s) {
  s.field("drop_unlisted", &CodePerExtension::drop_unlisted)
      .help(
          "Drop files whose language and extension the table does not have (members `language` and `path`).");
  s.field("max_mean_line_length", &CodePerExtension::max_mean_line_length)
      .range(0, 1e9)
      .unit("characters")
      .help("Largest mean length of lines, where the table limits the longest; 0: any.");
}

std::unique_ptr<Stage> make_stage(const CodePerExtension& options) {
  return std::make_unique<CodePerExtensionStage>(options);
}

}  // namespace stoa::curate
