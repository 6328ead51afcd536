#include "config/schema.h"

#include <fmt/format.h>

#include <algorithm>

namespace stoa::config {
namespace {

void* at(void* object, std::ptrdiff_t offset) { return static_cast<char*>(object) + offset; }
const void* at(const void* object, std::ptrdiff_t offset) {
  return static_cast<const char*>(object) + offset;
}

std::vector<std::string> below(std::string_view path, std::vector<std::string> keys) {
  for (auto& key : keys) key = join_path(path, key);
  return keys;
}

}  // namespace

void Field::check(const void* value) const {
  for (const auto& check : checks) {
    if (std::string expected = check(value); !expected.empty()) throw ValueError{std::move(expected), ""};
  }
}
void Field::read(void* object, const Node& node) const { member->read(at(object, offset), node, *this); }
Node Field::print(const void* object) const { return member->print(at(object, offset)); }

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

void Schema::add(std::string_view name, const MemberType& member, std::ptrdiff_t offset) {
  Field field;
  field.path = name;
  field.type = member.name();
  field.allowed = member.choices();
  field.member = &member;
  field.offset = offset;
  fields.push_back(std::move(field));
}

void Schema::add_all(Schema&& inner, std::string_view path, std::ptrdiff_t offset, std::string_view title) {
  if (!title.empty()) titles.emplace_back(path, title);
  for (auto& [p, t] : inner.titles) titles.emplace_back(join_path(path, p), std::move(t));
  for (auto& f : inner.fields) {
    f.path = join_path(path, f.path);
    f.aliases = below(path, std::move(f.aliases));
    f.offset += offset;
    fields.push_back(std::move(f));
  }
  for (auto& s : inner.short_forms) short_forms.push_back({join_path(path, s.path), s.key});
  for (auto& s : inner.shared) shared.push_back({below(path, std::move(s.paths))});
  for (auto& r : inner.resolves)
    resolves.push_back([offset, r = std::move(r)](void* object) { r(at(object, offset)); });
  for (auto& c : inner.checks)
    checks.push_back({below(path, std::move(c.paths)),
                      [offset, run = std::move(c.run)](const void* object) { run(at(object, offset)); }});
}

void FieldRefinement::add_alias(std::string_view name) {
  const std::string_view path = field().path;
  const auto dot = path.rfind('.');
  field().aliases.push_back(
      join_path(dot == std::string_view::npos ? std::string_view() : path.substr(0, dot), name));
}

void FieldRefinement::add_range(double low, double high) {
  constexpr double kNoLimit = 9007199254740992.0;  // 2^53: only keeps integers exact in a double
  add_number_check(high < kNoLimit ? fmt::format("{} to {}", low, high) : fmt::format("at least {}", low),
                   [=](double v) { return v >= low && v <= high; });
}
void FieldRefinement::add_lowest(double low) {
  add_number_check(fmt::format("at least {}", low), [=](double v) { return v >= low; });
}
void FieldRefinement::add_above(double low) {
  add_number_check(fmt::format("above {}", low), [=](double v) { return v > low; });
}
void FieldRefinement::add_below(double high) {
  add_number_check(fmt::format("below {}", high), [=](double v) { return v < high; });
}

void FieldRefinement::add_number_check(std::string words, std::function<bool(double)> inside) {
  field().allowed.push_back(words);
  field().checks.push_back(
      [numbers = field().member->numbers, words, inside = std::move(inside)](const void* value) {
        bool good = true;
        numbers(value, [&](double v) { good = good && inside(v); });
        return good ? std::string() : words;
      });
}

}  // namespace stoa::config
