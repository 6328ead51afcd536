#include "constraint/schema/shape.h"

#include <algorithm>

namespace stoa::constraint {

Goal both(const Goal& a, const Goal& b) {
  Goal out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

void Shape::restrict_items(const std::vector<Goal>& first, const Goal& others) {
  const std::size_t count = std::max(first.size(), first_items.size());
  std::vector<Goal> merged;
  for (std::size_t i = 0; i < count; ++i)
    merged.push_back(
        both(i < first_items.size() ? first_items[i] : other_items, i < first.size() ? first[i] : others));
  first_items = std::move(merged);
  other_items = both(other_items, others);
}

void Shape::require_member(const std::string& name) {
  if (std::find(required.begin(), required.end(), name) == required.end()) required.push_back(name);
}

Goal Shape::member(const std::string& name) const {
  Goal out;
  for (const MemberRules& rules : members) {
    bool told = false;
    for (const auto& [key, goal] : rules.named)
      if (key == name) out = both(out, goal), told = true;
    for (const auto& [names_like_it, goal] : rules.matching)
      if (names_like_it->matches(name)) out = both(out, goal), told = true;
    if (!told) out = both(out, rules.others);
  }
  return out;
}

std::vector<std::string> Shape::named_members() const {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const MemberRules& rules : members)
    for (const auto& [name, goal] : rules.named) add(name);
  for (const std::string& name : required) add(name);
  return out;
}

}  // namespace stoa::constraint
