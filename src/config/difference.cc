#include "config/difference.h"

namespace stoa::config {
namespace {

// Lists as they are written, anything long cut.
std::string in_one_line(const Node& node) {
  if (node.is_null()) return "null";
  std::string text = node.is_scalar() ? node.scalar : write_yaml(node);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  constexpr std::size_t kLongest = 120;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

}  // namespace

std::vector<Difference> differences(const Schema& schema, const void* a, const void* b) {
  std::vector<Difference> out;
  for (const Field& field : schema.fields) {
    const Node from = field.print(a), to = field.print(b);
    if (!from.same_value(to)) out.push_back({field.path, in_one_line(from), in_one_line(to)});
  }
  return out;
}

}  // namespace stoa::config
