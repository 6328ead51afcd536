#include "curate/filters/repair.h"

namespace stoa::curate {
namespace {

class FixTextStage final : public Stage {
 public:
  explicit FixTextStage(const FixTextOptions& options) : options_(options) {}

  void apply(Document& document, Features& features, Verdict&) const override {
    std::string fixed;
    fixed.reserve(document.text.size());
    fix_text(document.text, options_, fixed);
    if (fixed == document.text) return;
    document.text.swap(fixed);
    features.reset(document.text);
  }

 private:
  const FixTextOptions options_;
};

void declare_mojibake(config::Section<MojibakeOptions>& s) {
  s.field("restore_byte_a0", &MojibakeOptions::restore_byte_a0)
      .help("fix_encoding: take a blank for the byte 0xa0 where that completes a character.");
  s.field("replace_lossy_sequences", &MojibakeOptions::replace_lossy_sequences)
      .help("fix_encoding: replace a character that lost some of its bytes by U+FFFD.");
  s.field("decode_inconsistent_utf8", &MojibakeOptions::decode_inconsistent_utf8)
      .help("fix_encoding: decode parts of a line where it cannot be decoded as a whole.");
  s.field("fix_c1_controls", &MojibakeOptions::fix_c1_controls)
      .help("Replace U+0080 to U+009F by the characters of windows-1252.");
}

}  // namespace

std::span<const config::EnumName<UnescapeHtml>> enum_names(UnescapeHtml) {
  static constexpr config::EnumName<UnescapeHtml> kNames[] = {{"auto", UnescapeHtml::kUntilMarkup},
                                                              {"always", UnescapeHtml::kAlways},
                                                              {"never", UnescapeHtml::kNever}};
  return kNames;
}

std::span<const config::EnumName<Normalization>> enum_names(Normalization) {
  static constexpr config::EnumName<Normalization> kNames[] = {{"NFC", Normalization::kNfc},
                                                               {"none", Normalization::kNone}};
  return kNames;
}

void declare(config::Section<FixTextOptions>& s) {
  s.field("unescape_html", &FixTextOptions::unescape_html)
      .help("Resolve character references; auto: up to the first line with a <.");
  s.field("remove_terminal_escapes", &FixTextOptions::remove_terminal_escapes)
      .help("Delete the codes with which terminals change colours.");
  s.field("fix_encoding", &FixTextOptions::fix_encoding)
      .help("Find text that was decoded by the wrong code page, and decode it again.");
  s.section("", &FixTextOptions::mojibake, declare_mojibake);
  s.field("fix_latin_ligatures", &FixTextOptions::fix_latin_ligatures)
      .help("Take Latin ligatures apart (fi, fl, ij …).");
  s.field("fix_character_width", &FixTextOptions::fix_character_width)
      .help("Give characters of half or full width their usual width.");
  s.field("uncurl_quotes", &FixTextOptions::uncurl_quotes).help("Make quotation marks straight.");
  s.field("fix_line_breaks", &FixTextOptions::fix_line_breaks).help("End all lines with a line feed.");
  s.field("remove_control_chars", &FixTextOptions::remove_control_chars)
      .help("Delete invisible control characters, byte-order marks included.");
  s.field("normalization", &FixTextOptions::normalization)
      .help("NFC: Unicode's normal form C (Unicode 14); none: leave characters as they are composed.");
  s.field("max_decode_length", &FixTextOptions::max_decode_length)
      .range(1, 1e9)
      .unit("characters")
      .help("A longer line is repaired in pieces of this length.");
}

std::unique_ptr<Stage> make_stage(const FixTextOptions& options) {
  return std::make_unique<FixTextStage>(options);
}

}  // namespace stoa::curate
