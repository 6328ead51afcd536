// Texts repaired as ftfy 6.3 does it: mojibake decoded again, character references resolved, quotation marks,
// ligatures, widths, line ends and control characters made plain, normal form C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "curate/text/mojibake.h"

namespace stoa::curate {

enum class UnescapeHtml {
  kNever,
  kUntilMarkup,  // up to the first line with a <
  kAlways,
};

enum class Normalization { kNfc, kNone };

// Named as ftfy's.
struct FixTextOptions {
  UnescapeHtml unescape_html = UnescapeHtml::kUntilMarkup;
  bool remove_terminal_escapes = true, fix_encoding = true;
  MojibakeOptions mojibake;
  bool fix_latin_ligatures = true, fix_character_width = true, uncurl_quotes = true, fix_line_breaks = true,
       remove_control_chars = true;
  Normalization normalization = Normalization::kNfc;
  std::int64_t max_decode_length = 1'000'000;  // code points that are repaired together, at most a line
};

// `text`: valid UTF-8; the result goes to the end of `out`. Each line is repaired until nothing changes.
void fix_text(std::string_view text, const FixTextOptions& options, std::string& out);

// Resolves references that end with a semicolon, and names in capitals that HTML does not know.
void unescape_references(std::u32string& text);

}  // namespace stoa::curate
