// What the editions of Wikipedia call the namespaces of files and categories, in addition to the name that their
// exports give: old names stay in old pages.
#pragma once

#include <span>
#include <string_view>

namespace stoa::curate {

struct WikiNames {
  std::string_view language;  // empty: every edition
  std::string_view files, categories;  // names with | between them
};
std::span<const WikiNames> wiki_names();

}  // namespace stoa::curate
