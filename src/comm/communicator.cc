#include "comm/communicator.h"

#include <fmt/format.h>

namespace stoa::comm {

std::string Activity::text() const {
  if (name.empty()) return "";
  std::string out = fmt::format(" in {}", name);
  if (chunk >= 0) out += fmt::format(", chunk {}", chunk);
  if (microbatch >= 0) out += fmt::format(", microbatch {}", microbatch);
  return out;
}

}  // namespace stoa::comm
