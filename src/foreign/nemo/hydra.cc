#include "foreign/nemo/hydra.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "config/yaml.h"

namespace stoa::foreign {
namespace {

using config::Node;

constexpr int kMaxHydraDepth = 8;
constexpr int kParentsSearched = 4;  // directories above a file in which its groups are looked for
constexpr std::string_view kStage = "training";

// An entry of a `defaults` list: `_self_`, `FILE`, `GROUP: OPTION`, `GROUP@PACKAGE: OPTION`.
struct DefaultsEntry {
  bool self = false, optional = false;
  std::string group, package;
  std::vector<std::string> options;  // none: null
};

void overlay(Node& into, const Node& from) {
  if (!into.is_map() || !from.is_map()) {
    into = from;
    return;
  }
  for (const auto& [key, value] : from.entries) {
    if (Node* present = into.find(key))
      overlay(*present, value);
    else
      into.entries.emplace_back(key, value);
  }
}

DefaultsEntry parse_entry(const Node& item) {
  const std::string where = item.origin.text() + ": defaults: ";
  DefaultsEntry entry;
  if (item.is_scalar()) {
    entry.self = item.scalar == "_self_";
    if (!entry.self) entry.options.push_back(item.scalar);
    return entry;
  }
  require<ConfigError>(item.is_map() && item.entries.size() == 1,
                       "{}expected _self_, a file, or GROUP: OPTION, found {}", where, item.summary());
  const auto& [key, option] = item.entries.front();
  std::string name = key;
  for (const std::string_view word : {"optional ", "override "}) {
    if (!name.starts_with(word)) continue;
    entry.optional = entry.optional || word == "optional ";
    name.erase(0, word.size());
  }
  const auto at = name.find('@');
  entry.group = name.substr(0, at);
  if (at != std::string::npos) entry.package = name.substr(at + 1);
  if (entry.group.starts_with('/')) entry.group.erase(0, 1);
  if (entry.group == ".") entry.group.clear();
  if (at == std::string::npos) {
    entry.package = entry.group;
    std::replace(entry.package.begin(), entry.package.end(), '/', '.');
  }
  if (option.is_sequence()) {
    for (const Node& each : option.items) entry.options.push_back(each.scalar);
  } else if (option.is_scalar()) {
    entry.options.push_back(option.scalar);
  } else {
    require<ConfigError>(option.is_null(), "{}{}: expected an option of the group, found {}", where, key,
                         option.summary());
  }
  return entry;
}

class Composition {
 public:
  Composition(fs::path top, std::vector<std::string>& overrides)
      : top_(std::move(top)), overrides_(overrides) {}

  Composed run() {
    out_.root = load(top_, top_.parent_path(), 0);
    out_.root.erase("hydra");
    return std::move(out_);
  }

 private:
  // `base`: the directory that groups are relative to.
  Node load(const fs::path& file, const fs::path& base, int depth) {
    require<ConfigError>(depth <= kMaxHydraDepth, "{}: defaults: files nested deeper than {}", file.string(),
                         kMaxHydraDepth);
    Node own = config::read_yaml(file);
    if (own.is_null()) own = Node::map();
    require<ConfigError>(own.is_map(), "{}: expected a mapping of keys to values, found {}", file.string(),
                         own.summary());
    const Node* list = own.find("defaults");
    if (!list) return own;
    require<ConfigError>(list->is_sequence(), "{}: defaults: expected a list, found {}", list->origin.text(),
                         list->summary());
    std::vector<DefaultsEntry> entries;
    for (const Node& item : list->items) entries.push_back(parse_entry(item));
    const bool launcher =
        std::any_of(entries.begin(), entries.end(), [](const DefaultsEntry& e) { return e.group == kStage; });
    const bool says_self =
        std::any_of(entries.begin(), entries.end(), [](const DefaultsEntry& e) { return e.self; });
    const std::string where = list->origin.text() + ": defaults: ";
    own.erase("defaults");
    Node root = Node::map();
    for (DefaultsEntry& entry : entries) {
      if (entry.self) {
        overlay(root, own);
        continue;
      }
      if (entry.group.starts_with("hydra")) continue;
      choose(entry);
      if (launcher && entry.group != kStage) {
        if (!entry.group.empty()) out_.left_out.push_back(entry.group);
        continue;
      }
      for (const std::string& option : entry.options) include(root, entry, option, base, where, depth);
    }
    if (!says_self) overlay(root, own);  // Hydra 1.1 and later
    return root;
  }

  void include(Node& root, const DefaultsEntry& entry, const std::string& option, const fs::path& base,
               const std::string& where, int depth) {
    if (option == "null") return;
    const auto found = find(base, entry.group, option);
    if (!found && entry.optional) return;
    require<ConfigError>(found.has_value(), "{}no file for {} '{}': looked for {}.yaml", where,
                         entry.group.empty() ? "the entry" : "option of " + entry.group, option,
                         (base / entry.group / option).string());
    out_.choices.push_back(fmt::format("{}{} ({})", entry.group.empty() ? "" : entry.group + ": ", option,
                                       found->first.string()));
    const Node content = load(found->first, found->second, depth + 1);
    overlay(entry.package.empty() || entry.package == "_global_" ? root : root.make_path(entry.package),
            content);
  }

  // The file of an option and the directory of its group.
  static std::optional<std::pair<fs::path, fs::path>> find(fs::path base, const std::string& group,
                                                           const std::string& option) {
    for (int up = 0; up <= kParentsSearched; ++up) {
      const fs::path file = base / group / (option + (option.ends_with(".yaml") ? "" : ".yaml"));
      std::error_code ignored;
      if (fs::is_regular_file(file, ignored)) return std::pair(file, base / group);
      base /= "..";
    }
    return {};
  }

  void choose(DefaultsEntry& entry) {
    if (entry.group.empty()) return;
    const std::string prefix = entry.group + "=";
    for (auto it = overrides_.begin(); it != overrides_.end();) {
      if (!it->starts_with(prefix)) {
        ++it;
        continue;
      }
      entry.options.assign(1, it->substr(prefix.size()));
      entry.optional = false;
      it = overrides_.erase(it);
    }
  }

  const fs::path top_;
  std::vector<std::string>& overrides_;
  Composed out_;
};

}  // namespace

Composed compose_hydra(const fs::path& file, std::vector<std::string>& overrides) {
  return Composition(file, overrides).run();
}

}  // namespace stoa::foreign
