#include "config/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
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
  require<ConfigError>(!fs::is_directory(path, ignored), "{}'{}' is a directory, expected a YAML file{}",
                       where, path.string(),
                       fs::is_regular_file(path / "config.yaml", ignored)
                           ? fmt::format(": give '{}'", (path / "config.yaml").string())
                           : std::string());
  require<ConfigError>(
      !fs::exists(path, ignored),
      "{}'{}' is a pipe or a device, expected a file: a configuration is read more than once; "
      "write it to a file first",
      where, path.string());
  const std::string_view key = std::string_view(name).substr(0, name.find('='));
  require<ConfigError>(key == name || key.find('/') != key.npos || !where.empty(),
                       "'{}' is given where the configuration is expected: give a file or a preset first, "
                       "then the changes, as in: tiny {}",
                       name, name);
  fail<ConfigError>(
      "{}no configuration file '{}'{}{}", where, path.string(),
      names.empty()
          ? (sources.presets.empty() ? std::string(", and no presets: the program searches for configs or "
                                                   "share/stoa/configs in the directories above it")
                                     : std::string())
          : fmt::format(" and no preset '{}'; presets: {}", name, fmt::join(names, ", ")),
      did_you_mean(name, names));
}

void read_chain(const fs::path& path, const Sources& sources, std::vector<fs::path>& chain,
                std::vector<Node>& layers) {
  const fs::path canonical = fs::weakly_canonical(path);
  if (std::find(chain.begin(), chain.end(), canonical) != chain.end()) {
    std::vector<std::string> names;
    for (const auto& link : chain) names.push_back(link.string());
    fail<ConfigError>("{}: 'base' is circular: {} -> {}", path.string(), fmt::join(names, " -> "),
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
    for (const auto& condition : sources_.conditions) run_condition(condition);
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

  // Finds which keys are given, and reports unknown ones.
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
      field.read(object_, given.value);
    } catch (const ValueError& error) {
      problem(given.value.origin, given.name,
              fmt::format("{}; expected {}{}", given.value.summary(), error.expected, error.hint));
    }
  }

  void run_check(const CrossCheck& check) {
    try {
      check.run(object_);
    } catch (const ConfigError& error) {
      problems_.push_back(
          fmt::format("{}: {}", fmt::join(places_of(check, error.what()), ", "), error.what()));
    }
  }

  // The places of the keys that a message names; if it names none, of all keys of the check.
  std::vector<std::string> places_of(const CrossCheck& check, std::string_view message) const {
    std::vector<std::string> places, all;
    for (const auto& path : check.paths) all.push_back(place_of(path));
    for (const auto& field : schema_.fields) {
      // Names stand for the keys of the check's own sections, and of others that were given.
      const bool own = std::any_of(check.paths.begin(), check.paths.end(), [&](const std::string& path) {
        return section_of(path) == section_of(field.path);
      });
      if (names_key(message, split_path(field.path).back()) && (own || values_.contains(field.path)))
        places.push_back(place_of(field.path));
    }
    return places.empty() ? all : places;
  }

  static std::string_view section_of(std::string_view path) {
    const auto dot = path.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }

  // `key` stands in the text as a word of its own. Words of the language that are keys too are not meant.
  static bool names_key(std::string_view text, std::string_view key) {
    if (key.find('_') == std::string_view::npos) return false;
    const auto inside = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
    for (auto at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
      const bool begins = at == 0 || !inside(text[at - 1]), end = at + key.size() == text.size();
      if (begins && (end || !inside(text[at + key.size()]))) return true;
    }
    return false;
  }

  std::string place_of(const std::string& path) const {
    const auto it = values_.find(path);
    if (it == values_.end()) return path + " (default)";
    return fmt::format("{} ({})", it->second.name, it->second.value.origin.text());
  }

  bool of_preset(const Origin& origin) const {
    return !sources_.presets.empty() && origin.source &&
           fs::path(*origin.source).parent_path() == sources_.presets;
  }

  // Keys set where they have no effect are rejected. If a later layer caused that, and in files written for
  // NeMo, they are reported and reset to their defaults.
  void run_condition(const Condition& condition) {
    if (condition.holds(object_)) return;
    int decided = -1;
    for (const auto& path : condition.on)
      if (const auto it = values_.find(path); it != values_.end())
        decided = std::max(decided, it->second.value.origin.layer);
    for (const auto& field : schema_.fields) {
      const bool covered = std::any_of(condition.keys.begin(), condition.keys.end(),
                                       [&](const auto& key) { return pattern_covers(key, field.path); });
      const auto it = values_.find(field.path);
      const Node* usual = defaults_.find_path(field.path);
      if (!covered || it == values_.end() || !usual || field.print(object_).same_value(*usual)) continue;
      const Given& given = it->second;
      if (given.value.origin.layer < sources_.judged_from) {
        field.read(object_, *usual);
        continue;
      }
      const std::string text =
          fmt::format("{} has no effect: it is used only with {}", given.value.summary(), condition.words);
      if (from_nemo_) {
        report_.ignored.push_back(fmt::format("{} ({}): used only with {}", given.name,
                                              given.value.origin.text(), condition.words));
      } else if (given.value.origin.layer < decided) {
        if (!of_preset(given.value.origin))  // not written by the user who runs it
          report_.notes.push_back(fmt::format("{} ({}): {}", given.name, given.value.origin.text(), text));
      } else {
        problem(given.value.origin, given.name, text + "; leave it out");
        continue;
      }
      field.read(object_, *usual);
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
    require<UsageError>(equals != std::string_view::npos && equals > 0,
                        "'{}': expected key=value (several values of an option are one word: --gpus 8,16)",
                        whole);
    const std::string key(argument.substr(0, equals));
    const auto parts = split_path(key);
    const bool whole_words =
        std::none_of(parts.begin(), parts.end(), [](const auto& p) { return p.empty(); });
    require<UsageError>(whole_words && key.back() != '.', "'{}': '{}' is not a key", whole, key);
    require<UsageError>(parts.size() <= 16, "'{}': a key of more than 16 parts", whole);
    const std::string_view text = argument.substr(equals + 1);
    // YAML would make a space of a line break that stands in a name.
    const bool lines = text.find('\n') != std::string_view::npos,
               collection =
                   !text.empty() && std::string_view("[{\"'|>").find(text.front()) != std::string_view::npos;
    Node value = lines && !collection ? Node::text(std::string(text))
                                      : parse_yaml(text, fmt::format("command line, {}", whole));
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
