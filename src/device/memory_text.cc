#include "device/memory_text.h"

#include "base/console.h"

namespace stoa {

std::string memory_lines(const MemoryTable& table) {
  std::string lines;
  for (std::size_t c = 0; c < table.size(); ++c)
    if (const auto category = static_cast<MemoryCategory>(c); table[c])
      lines += fmt::format("\n  {:22} {}{}", name_of(category), format_bytes(static_cast<double>(table[c])),
                           on_host(category) ? " of host memory besides" : "");
  return lines;
}

}  // namespace stoa
