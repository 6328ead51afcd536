#include "cli/api_key.h"

#include "base/file.h"
#include "eval/python/text.h"

namespace stoa::cli {

std::string api_key(const std::string& file) {
  if (file.empty()) return "";
  const std::string text = read_text(file);
  return std::string(eval::strip(text.substr(0, text.find('\n'))));
}

}  // namespace stoa::cli
