#include "serve/model_path.h"

#include <string_view>

namespace stoa::serve {
namespace {

bool remove_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool remove_suffix(std::string_view& text, std::string_view suffix) {
  if (text.size() <= suffix.size() || !text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

ModelPath model_path(const std::string& path) {
  std::string_view name = path;
  if (remove_prefix(name, "/v1/models/") && !name.empty()) return {"/v1/models/{model}", std::string(name)};
  name = path;
  if (!remove_prefix(name, "/v2/models/") || name.empty()) return {path, ""};
  std::string route = "/v2/models/{model}";
  for (const std::string_view action :
       {"/generate", "/generate_stream", "/ready", "/infer", "/config", "/stats"})
    if (remove_suffix(name, action)) {
      route += action;
      break;
    }
  remove_suffix(name, "/versions/1");
  return {route, std::string(name)};
}

}  // namespace stoa::serve
