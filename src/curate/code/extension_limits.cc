#include "curate/code/extension_limits.h"

#include <algorithm>
#include <tuple>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

// As the table names languages.
std::string table_name(std::string_view language) {
  if (language == "C#") return "c-sharp";
  if (language == "F#") return "f-sharp";
  if (language == "Visual Basic .NET") return "visual-basic";  // GitHub's newer name
  std::string name = lower_ascii(language);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

}  // namespace

const ExtensionLimits* find_extension_limits(std::string_view language, std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  const std::string wanted = table_name(language),
                    extension = dot == name.npos ? std::string() : lower_ascii(name.substr(dot + 1));
  const auto table = extension_limits();
  const auto key = std::tuple(std::string_view(wanted), std::string_view(extension));
  const auto found =
      std::lower_bound(table.begin(), table.end(), key, [](const ExtensionLimits& entry, const auto& k) {
        return std::tie(entry.language, entry.extension) < k;
      });
  return found != table.end() && std::tie(found->language, found->extension) == key ? &*found : nullptr;
}

}  // namespace stoa::curate
