#include <algorithm>

#include "base/error.h"
#include "curate/filters/datatrove.h"
#include "curate/filters/word_list.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

class C4BadWordsStage final : public Stage {
 public:
  explicit C4BadWordsStage(const C4BadWords& options)
      : whole_words_(options.whole_words), list_(options.words) {}

  void apply(Document&, Features& features, Verdict& verdict) const override {
    std::string lower;
    append_lower(features.text(), lower);
    const auto occurs = [&](const std::string& entry) { return occurs_in(lower, entry); };
    verdict.fails("document_removed_with_badwords",
                  std::any_of(list_.words().begin(), list_.words().end(), occurs) ||
                      std::any_of(list_.phrases().begin(), list_.phrases().end(), occurs));
  }

 private:
  // As (?:\W|^)ENTRY(?:\W|$), or the entry anywhere.
  bool occurs_in(std::string_view text, std::string_view entry) const {
    for (std::size_t at = text.find(entry); at != text.npos; at = text.find(entry, at + 1)) {
      if (!whole_words_) return true;
      const std::size_t end = at + entry.size();
      const bool begins = at == 0 || !characters().has(read_character_before(text.data() + at).value, kWord);
      const bool ends =
          end == text.size() || !characters().has(read_character(text.data() + end).value, kWord);
      if (begins && ends) return true;
    }
    return false;
  }

  const bool whole_words_;
  const WordList list_;
};

}  // namespace

void declare(config::Section<C4BadWords>& s) {
  s.field("words", &C4BadWords::words)
      .help("File of words and phrases, one a line, such as LDNOOBW's list of the language.");
  s.field("whole_words", &C4BadWords::whole_words)
      .help(
          "Only where no letter, digit or _ is next to them; false for languages without blanks (ja, th, "
          "zh).");
}

std::unique_ptr<Stage> make_stage(const C4BadWords& options) {
  require<ConfigError>(!options.words.empty(), "c4_bad_words needs a list of words: words");
  return std::make_unique<C4BadWordsStage>(options);
}

}  // namespace stoa::curate
