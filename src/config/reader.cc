#include "config/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/nearest.h"
#include "config/interpolation.h"
#include "config/yaml.h"

namespace stoa::config {
namespace {

// A NeMo file carries hundreds of keys; a broken one should not print them all.
constexpr std::size_t kMaxMessages = 20;

void read_chain(const fs::path& path, const Sources& sources, std::vector<fs::path>& chain,
                std::vector<Node>& layers);

std::vector<std::string> preset_names(const fs::path& presets) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(presets, ignored)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A path where there is such a file (relative to `directory`), else the preset of that name.
fs::path find_file(const std::string& name, const fs::path& directory, const Sources& sources,
                   const std::string& where) {
  const fs::path path = directory / name;
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return path;
  std::vector<std::string> names;
  if (!sources.presets.empty()) {
    const fs::path preset = sources.presets / (name + ".yaml");
    if (name.find('/') == std::string::npos && fs::is_regular_file(preset, ignored)) return preset;
    names = preset_names(sources.presets);
  }
  fail<ConfigError>(
      "{}no configuration file '{}'{}{}", where, path.string(),
      names.empty() ? "" : fmt::format(" and no preset '{}'; presets: {}", name, fmt::join(names, ", ")),
      did_you_mean(name, names));
}

void read_chain(const fs::path& path, const Sources& sources, std::vector<fs::path>& chain,
                std::vector<Node>& layers) {
  const fs::path canonical = fs::weakly_canonical(path);
  if (std::find(chain.begin(), chain.end(), canonical) != chain.end()) {
    std::vector<std::string> names;
    for (const auto& link : chain) names.push_back(link.string());
    fail<ConfigError>("{}: 'base' goes in a circle: {} -> {}", path.string(), fmt::join(names, " -> "),
                      path.string());
  }
  require<ConfigError>(chain.size() < 16, "{}: more than 16 files in a chain of 'base'", path.string());
  chain.push_back(canonical);
  Node root = read_yaml(path);
  if (root.is_null()) root.kind = Node::Kind::kMap;
  require<ConfigError>(root.is_map(), "{}: expected a mapping of keys to values, found {}", path.string(),
                       root.summary());
  if (const Node* base = root.find("base")) {
    const std::string where = base->origin.text() + ": base: ";
    require<ConfigError>(base->is_scalar(), "{}expected a file or the name of a preset, found {}", where,
                         base->summary());
    read_chain(find_file(base->scalar, path.parent_path(), sources, where), sources, chain, layers);
    root.erase("base");
  }
  layers.push_back(std::move(root));
}

void set_layer(Node& node, int layer) {
  node.origin.layer = layer;
  for (auto& item : node.items) set_layer(item, layer);
  for (auto& entry : node.entries) set_layer(entry.second, layer);
}

void expand_short_forms(const Schema& schema, Node& layer) {
  for (const auto& form : schema.short_forms) {
    Node* node = layer.find_path(form.path);
    if (!node || node->is_map() || node->is_null()) continue;
    Node section = Node::map();
    section.origin = node->origin;
    section.entries.emplace_back(form.key, std::move(*node));
    *node = std::move(section);
  }
}

void merge(Node& into, Node&& from) {
  if (!into.is_map() || !from.is_map()) {
    into = std::move(from);
    return;
  }
  for (auto& [key, value] : from.entries) {
    if (Node* present = into.find(key)) {
      merge(*present, std::move(value));
    } else {
      into.entries.emplace_back(key, std::move(value));
    }
  }
}

bool pattern_covers(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with(".*")) return pattern == path;
  pattern.remove_suffix(2);
  return path == pattern ||
         (path.starts_with(pattern) && path.size() > pattern.size() && path[pattern.size()] == '.');
}

bool lists(std::string_view values, std::string_view word) {
  while (true) {
    const auto comma = values.find(',');
    if (values.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    values.remove_prefix(comma + 1);
  }
}

class Reader {
 public:
  Reader(const Schema& schema, const Node& root, void* object, const Sources& sources)
      : schema_(schema),
        object_(object),
        sources_(sources),
        defaults_(schema.print(object)),
        interpolator_(root, [this](const std::string& path) { return default_of(path); }) {}

  Report run(const Node& root) {
    require<ConfigError>(root.is_map(), "expected a mapping of keys to values, found {}", root.summary());
    collect(root, "");
    for (const auto& field : schema_.fields) gather(field);
    for (const auto& shared : schema_.shared) share(shared);
    take_nemo_defaults();
    for (const auto& field : schema_.fields) read(field);
    finish();
    for (const auto& resolve : schema_.resolves) resolve(object_);
    for (const auto& check : schema_.checks) run_check(check);
    finish();
    return std::move(report_);
  }

 private:
  std::optional<Node> default_of(const std::string& path) const {
    const Field* field = schema_.find(path);
    const Node* value = field ? defaults_.find_path(field->path) : nullptr;
    return value ? std::optional(*value) : std::nullopt;
  }

  void problem(const Origin& origin, std::string_view path, std::string_view text) {
    problems_.push_back(fmt::format("{}: {}: {}", origin.text(), path, text));
  }

  void finish() const {
    if (problems_.empty()) return;
    const std::size_t shown = std::min(problems_.size(), kMaxMessages);
    std::string text =
        fmt::format("{}", fmt::join(problems_.begin(), problems_.begin() + static_cast<long>(shown), "\n"));
    if (shown < problems_.size()) text += fmt::format("\nand {} more", problems_.size() - shown);
    fail<ConfigError>("{}", text);
  }

  // Finds which keys are given; complains of those that nobody knows.
  void collect(const Node& node, const std::string& prefix) {
    for (const auto& [key, value] : node.entries) {
      const std::string path = join_path(prefix, key);
      if (key.find('.') != std::string::npos) {
        problem(value.origin, path, "a key with a dot; in a file, nest the mappings instead");
        continue;
      }
      if (schema_.find(path)) {
        given_.emplace(path, value);
      } else if (schema_.is_section(path)) {
        if (value.is_map()) {
          collect(value, path);
        } else if (!value.is_null()) {
          problem(value.origin, path,
                  fmt::format("expected a mapping of keys below it, found {}", value.summary()));
        }
      } else if (!foreign(path, value)) {
        unknown(path, value);
      }
    }
  }

  bool foreign(const std::string& path, const Node& value) {
    for (const auto& key : sources_.foreign) {
      if (pattern_covers(key.pattern, path)) {
        from_nemo_ = true;
        if (key.harmless != "*" && !harmless(key.harmless, path, value)) {
          problem(value.origin, path,
                  fmt::format("{} cannot be honoured: {} (accepted: {})", value.summary(), key.reason,
                              key.harmless));
        } else {
          report_.ignored.push_back(fmt::format("{} ({}): {}", path, value.origin.text(), key.reason));
        }
        return true;
      }
    }
    const std::string below = path + ".";
    const bool inside = std::any_of(sources_.foreign.begin(), sources_.foreign.end(),
                                    [&](const ForeignKey& key) { return key.pattern.starts_with(below); });
    if (inside && value.is_map()) collect(value, path);
    return inside && (value.is_map() || value.is_null());
  }

  bool harmless(std::string_view values, const std::string& path, const Node& given) {
    try {
      const Node value = interpolator_.expand(given, path);
      return harmless_value(values, value);
    } catch (const ConfigError&) {
      return false;
    }
  }

  // A list is harmless where all its items are; `- name:` in a list counts as its name.
  static bool harmless_value(std::string_view values, const Node& value) {
    if (value.is_null()) return lists(values, "null");
    if (value.is_sequence()) {
      return std::all_of(value.items.begin(), value.items.end(), [&](const Node& item) {
        if (item.is_map() && item.entries.size() == 1 && item.entries[0].second.is_null()) {
          return lists(values, item.entries[0].first);
        }
        return harmless_value(values, item);
      });
    }
    if (!value.is_scalar()) return false;
    std::string word = value.scalar;
    if (!value.quoted && (word == "True" || word == "TRUE")) word = "true";
    if (!value.quoted && (word == "False" || word == "FALSE")) word = "false";
    if (const auto number = parse_real(word)) word = fmt::format("{}", *number);
    return lists(values, word);
  }

  void unknown(const std::string& path, const Node& value) {
    const std::vector<std::string> known = schema_.paths();
    std::string hint = did_you_mean(path, known);
    // A key in the wrong section: the same last word elsewhere says more than a small edit distance.
    const std::string last = split_path(path).back();
    std::size_t fewest = SIZE_MAX;
    for (const auto& candidate : known) {
      const auto parts = split_path(candidate);
      if (parts.back() != last || parts.size() >= fewest) continue;
      fewest = parts.size();
      hint = fmt::format(" (did you mean '{}'?)", candidate);
    }
    problem(value.origin, path, "unknown key" + hint);
  }

  // One value per field out of its name and aliases: the highest layer counts; in one layer all must agree.
  void gather(const Field& field) {
    std::vector<std::string> names{field.path};
    names.insert(names.end(), field.aliases.begin(), field.aliases.end());
    for (const auto& name : names) {
      const auto it = given_.find(name);
      if (it != given_.end()) expand_into(field.path, name, it->second);
    }
  }

  void expand_into(const std::string& path, const std::string& name, const Node& given) {
    Node value;
    try {
      value = interpolator_.expand(given, name);
    } catch (const ConfigError& error) {
      problems_.emplace_back(error.what());
      return;
    }
    offer(path, name, std::move(value));
  }

  void offer(const std::string& path, const std::string& name, Node value) {
    const auto [it, fresh] = values_.try_emplace(path, Given{name, value});
    if (fresh) return;
    Given& present = it->second;
    if (present.value.origin.layer < value.origin.layer) {
      present = {name, std::move(value)};
    } else if (present.value.origin.layer == value.origin.layer && !present.value.same_value(value)) {
      problem(value.origin, name,
              fmt::format("{} contradicts {}: {} ({}); they hold one value", value.summary(), present.name,
                          present.value.summary(), present.value.origin.text()));
    }
  }

  void share(const SharedKeys& shared) {
    const std::string slot = shared.paths.front();
    for (const auto& path : shared.paths) {
      const auto it = values_.find(path);
      // A null says nothing: the other names decide.
      if (path == slot || it == values_.end() || it->second.value.is_null()) continue;
      const auto first = values_.find(slot);
      if (first != values_.end() && first->second.value.is_null()) values_.erase(first);
      offer(slot, it->second.name, it->second.value);
    }
    const auto decided = values_.find(slot);
    if (decided == values_.end()) return;
    for (const auto& path : shared.paths) values_.insert_or_assign(path, decided->second);
  }

  void take_nemo_defaults() {
    if (!from_nemo_) return;
    for (const auto& field : schema_.fields) {
      if (field.nemo_default.empty() || values_.contains(field.path)) continue;
      values_.emplace(field.path, Given{field.path, parse_yaml(field.nemo_default, "NeMo's default")});
      report_.notes.push_back(fmt::format("{} = {}: NeMo's default, as this file is written for NeMo",
                                          field.path, field.nemo_default));
    }
  }

  void read(const Field& field) {
    const auto it = values_.find(field.path);
    if (it == values_.end()) return;
    const Given& given = it->second;
    try {
      field.read(object_, given.value, field);
    } catch (const ValueError& error) {
      problem(given.value.origin, given.name,
              fmt::format("{}; expected {}{}", given.value.summary(), error.expected, error.hint));
    }
  }

  void run_check(const CrossCheck& check) {
    try {
      check.run(object_);
    } catch (const ConfigError& error) {
      std::vector<std::string> places;
      for (const auto& path : check.paths) {
        const auto it = values_.find(path);
        if (it != values_.end()) {
          places.push_back(fmt::format("{} ({})", it->second.name, it->second.value.origin.text()));
        } else {
          places.push_back(path + " (default)");
        }
      }
      problems_.push_back(fmt::format("{}: {}", fmt::join(places, ", "), error.what()));
    }
  }

  struct Given {
    std::string name;  // as written: the field's path or an alias
    Node value;        // references expanded
  };

  const Schema& schema_;
  void* const object_;
  const Sources& sources_;
  const Node defaults_;
  Interpolator interpolator_;
  std::map<std::string, Node> given_;
  std::map<std::string, Given> values_;
  std::vector<std::string> problems_;
  bool from_nemo_ = false;
  Report report_;
};

}  // namespace

std::vector<Node> read_layers(const std::string& name, const Sources& sources) {
  std::vector<Node> layers;
  std::vector<fs::path> chain;
  read_chain(find_file(name, {}, sources, ""), sources, chain, layers);
  return layers;
}

Overrides parse_overrides(std::span<const std::string> arguments, int layer) {
  Overrides overrides;
  const auto source = std::make_shared<const std::string>("command line");
  for (std::string_view argument : arguments) {
    const std::string_view whole = argument;
    if (argument.starts_with('~')) {
      overrides.removed.emplace_back(argument.substr(1));
      require<UsageError>(argument.size() > 1, "'{}': expected ~key", whole);
      continue;
    }
    while (argument.starts_with('+')) argument.remove_prefix(1);
    const auto equals = argument.find('=');
    require<UsageError>(equals != std::string_view::npos && equals > 0, "'{}': expected key=value", whole);
    const std::string key(argument.substr(0, equals));
    const auto parts = split_path(key);
    const bool whole_words =
        std::none_of(parts.begin(), parts.end(), [](const auto& p) { return p.empty(); });
    require<UsageError>(whole_words && key.back() != '.', "'{}': '{}' is no key", whole, key);
    require<UsageError>(parts.size() <= 16, "'{}': a key of more than 16 parts", whole);
    Node value = parse_yaml(argument.substr(equals + 1), fmt::format("command line, {}", whole));
    Node& place = overrides.values.emplace_back(Node::map()).make_path(key);
    place = std::move(value);
    // Lines mean nothing here.
    const auto strip = [&](const auto& self, Node& node) -> void {
      node.origin = {source, 0, layer};
      for (auto& item : node.items) self(self, item);
      for (auto& entry : node.entries) self(self, entry.second);
    };
    strip(strip, place);
  }
  return overrides;
}

Node merge_layers(const Schema& schema, std::vector<Node> layers, const Overrides& overrides) {
  Node root = Node::map();
  int number = 0;
  for (auto& layer : layers) {
    set_layer(layer, number++);
    expand_short_forms(schema, layer);
    merge(root, std::move(layer));
  }
  for (const auto& path : overrides.removed) {
    const auto dot = path.rfind('.');
    Node* parent = dot == std::string::npos ? &root : root.find_path(path.substr(0, dot));
    const std::string last = dot == std::string::npos ? path : path.substr(dot + 1);
    require<ConfigError>(parent && parent->find(last), "command line: ~{}: there is no such key to remove",
                         path);
    parent->erase(last);
  }
  for (Node value : overrides.values) {
    expand_short_forms(schema, value);
    merge(root, std::move(value));
  }
  return root;
}

Report read_object(const Schema& schema, const Node& root, void* object, const Sources& sources) {
  return Reader(schema, root, object, sources).run(root);
}

}  // namespace stoa::config
