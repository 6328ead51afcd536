#include "cli/api_key.h"

#include "base/file.h"
#include "eval/python/text.h"

namespace stoa::cli {

serve::http::Headers key_headers(const std::string& file) {
  if (file.empty()) return {};
  const std::string text = read_text(file);
  const std::string key(eval::strip(text.substr(0, text.find('\n'))));
  if (key.empty()) return {};
  return {{"authorization", "Bearer " + key}};
}

}  // namespace stoa::cli
