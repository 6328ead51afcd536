// From files and overrides to a checked object.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "config/condition.h"
#include "config/node.h"
#include "config/schema.h"

namespace stoa::config {

// A key found in users' files that this program does not use.
struct ForeignKey {
  std::string_view pattern;  // "trainer.accelerator"; "run.*" is `run` and all below it
  std::string_view reason;   // why it has no effect here, or cannot be honoured
  // Comma-separated values with which it is harmless ("false,null"); "*": any. With another value the key is
  // refused.
  std::string_view harmless = "*";
};

// Where files and presets are found, and what else is known.
struct Sources {
  fs::path presets;  // directory for `base: gpt2-124m`; may be empty
  std::span<const ForeignKey> foreign = {};
  std::vector<Condition> conditions = {};
  // Layer. A program wrote those before it: their keys get the defaults where they have no effect.
  int judged_from = 0;
};

// The result of reading besides the values themselves.
struct Report {
  std::vector<std::string> ignored;  // "trainer.accelerator (run.yaml:7): …reason"
  std::vector<std::string> notes;    // defaults taken from NeMo, and the like
};

// The layers of a file: its bases first (a `base: FILE` key at the top; relative to the file, or the name of
// a preset), the file last. ConfigError on a cycle or a missing base. `name` is a path or the name of a
// preset.
std::vector<Node> read_layers(const std::string& name, const Sources& sources);

// One layer from `key=value` arguments; the value is YAML. `+key=` and `++key=` mean the same as `key=`;
// `~key` removes what the files say. UsageError where the form is wrong.
struct Overrides {
  std::vector<Node> values;  // one tree per argument, in order
  std::vector<std::string> removed;
};
Overrides parse_overrides(std::span<const std::string> arguments, int layer);

// Merges the layers in order (mappings key by key, anything else whole; short forms expanded first) into one
// tree.
Node merge_layers(const Schema& schema, std::vector<Node> layers, const Overrides& overrides = {});

// Reads the tree into `object` (of the type the schema was declared for, default-constructed), then resolves
// and checks. Throws one ConfigError that lists everything that is wrong, each with its place.
Report read_object(const Schema& schema, const Node& root, void* object, const Sources& sources);

// All of the above.
template <class T>
T load(const Section<T>& section, const std::string& name, std::span<const std::string> overrides,
       const Sources& sources, Report* report = nullptr) {
  std::vector<Node> layers = read_layers(name, sources);
  const int top = static_cast<int>(layers.size());
  const Node root = merge_layers(section.schema(), std::move(layers), parse_overrides(overrides, top));
  T object;
  Report found = read_object(section.schema(), root, &object, sources);
  if (report) *report = std::move(found);
  return object;
}

}  // namespace stoa::config
