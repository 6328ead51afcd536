#include "config/schema.h"

#include <algorithm>

namespace stoa::config {

const Field* Schema::find(std::string_view path) const {
  const auto it = std::find_if(fields.begin(), fields.end(), [&](const Field& f) {
    return f.path == path || std::find(f.aliases.begin(), f.aliases.end(), path) != f.aliases.end();
  });
  return it == fields.end() ? nullptr : &*it;
}

bool Schema::is_section(std::string_view path) const {
  if (path.empty()) return true;
  return std::any_of(fields.begin(), fields.end(), [&](const Field& f) {
    return f.path.size() > path.size() && f.path[path.size()] == '.' &&
           f.path.compare(0, path.size(), path) == 0;
  });
}

std::vector<std::string> Schema::paths() const {
  std::vector<std::string> all;
  for (const auto& field : fields) {
    all.push_back(field.path);
    all.insert(all.end(), field.aliases.begin(), field.aliases.end());
  }
  return all;
}

Node Schema::print(const void* object) const {
  Node root = Node::map();
  for (const auto& field : fields) root.make_path(field.path) = field.print(object);
  return root;
}

}  // namespace stoa::config
