// Plain text of wikitext: what a reader of the page sees, without templates, tables, files, references and
// categories.
#pragma once

#include <string>
#include <string_view>

#include "curate/wiki/dump.h"

namespace stoa::curate {

// Links become their labels, headings lines of their own (those with nothing below them go), items of lists
// begin with "- " or their number. Code and preformatted text keep their lines. Anything is taken: what is
// not closed stays as it was written.
std::string wikitext_to_text(std::string_view wikitext, const WikiSite& site);

// The second half: lines of wikitext in which constructs within lines are done; kCutMark stands for
// what was removed, kLiteralMark is at the beginning of lines that stay as they are. `open_table`: a table
// was not closed.
inline constexpr char kCutMark = '\x01', kLiteralMark = '\x02';
std::string wiki_lines_to_text(std::string_view lines, bool open_table);

}  // namespace stoa::curate
