// The head of the pages that show a run: `report.html` and those of `stoa data browse`.
#pragma once

#include <string>
#include <string_view>

namespace stoa::curate {

// From the doctype up to the body, with the style: one accent colour for bars and curves, light and dark,
// wide tables scroll on a narrow screen. `title`: escaped.
std::string page_head(std::string_view title);

}  // namespace stoa::curate
