#include "foreign/nemo/nemo_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "config/interpolation.h"
#include "config/reader.h"
#include "foreign/nemo/hydra.h"
#include "foreign/nemo/translation.h"

namespace stoa::foreign {
namespace {

using config::Node;

constexpr std::string_view kMissing = "???";  // OmegaConf's word for a value that must be filled in
constexpr int kMaxIndirections = 8;

// What a training file has at its top; everything else around it belongs to the launcher.
bool of_training_file(std::string_view key) {
  static constexpr std::string_view kKeys[] = {"model", "trainer",           "exp_manager", "name",
                                               "run",   "restore_from_path", "training",    "hydra"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

std::string first_part(std::string_view key) { return std::string(key.substr(0, key.find('.'))); }

std::string key_of(std::string_view override) {
  while (!override.empty() && (override.front() == '+' || override.front() == '~')) override.remove_prefix(1);
  return std::string(override.substr(0, override.find('=')));
}

// Names at the top level that references of the file ask for: `data_dir` of `${data_dir}/bpe`.
void references(const Node& node, std::set<std::string>& names) {
  if (node.is_scalar()) {
    for (auto at = node.scalar.find("${"); at != std::string::npos; at = node.scalar.find("${", at + 2)) {
      const auto end = node.scalar.find_first_of(":}.$", at + 2);
      if (end != std::string::npos && end > at + 2) names.insert(node.scalar.substr(at + 2, end - at - 2));
    }
  }
  for (const Node& item : node.items) references(item, names);
  for (const auto& entry : node.entries) references(entry.second, names);
}

// Expands references; a field whose value hangs on what is not given is left out.
class OpenValues {
 public:
  OpenValues(const Node& tree, const config::Schema& schema) : tree_(tree), schema_(schema) {}

  Node expand(const Node& node, const std::string& path) {
    if (node.is_map() && !schema_.find(path)) {
      Node result = node;
      result.entries.clear();
      for (const auto& [key, value] : node.entries) {
        const std::string below = config::join_path(path, key);
        if (auto expanded = leaf_or_map(value, below)) result.entries.emplace_back(key, std::move(*expanded));
      }
      return result;
    }
    return node;
  }

  // Name that is not given, fields that need it.
  std::map<std::string, std::vector<std::string>> open;

 private:
  std::optional<Node> leaf_or_map(const Node& node, const std::string& path) {
    if (node.is_map() && !schema_.find(path)) return expand(node, path);
    std::string missing;
    config::Interpolator interpolator(tree_, [&](const std::string& key) -> std::optional<Node> {
      if (of_training_file(first_part(key))) return std::nullopt;
      missing = key;
      return Node::plain(std::string(kMissing));
    });
    Node value;
    try {
      value = interpolator.expand(node, path);
    } catch (const ConfigError&) {
      return node;  // the reader of fields expands it again, with defaults, and reports what is wrong
    }
    if (missing.empty() && !has_missing(value)) return value;
    if (!schema_.find(path)) return node;  // without effect; reported as such
    if (missing.empty()) missing = unfilled(node, kMaxIndirections);
    open[missing.empty() ? path : missing].push_back(path);
    return std::nullopt;
  }

  // The key at the top that is ??? and that a value refers to, directly or not.
  std::string unfilled(const Node& node, int indirections) const {
    std::set<std::string> names;
    references(node, names);
    for (const std::string& name : names) {
      const Node* named = tree_.find(name);
      if (!named || of_training_file(name)) continue;
      if (named->is_scalar() && named->scalar == kMissing) return name;
      if (indirections == 0) continue;
      if (std::string found = unfilled(*named, indirections - 1); !found.empty()) return found;
    }
    return {};
  }

  static bool has_missing(const Node& node) {
    if (node.is_scalar()) return node.scalar.find(kMissing) != std::string::npos;
    return std::any_of(node.items.begin(), node.items.end(), has_missing) ||
           std::any_of(node.entries.begin(), node.entries.end(),
                       [](const auto& entry) { return has_missing(entry.second); });
  }

  const Node& tree_;
  const config::Schema& schema_;
};

// The user's changes: those of the training file, and those of the launcher around it.
struct SortedOverrides {
  std::vector<std::string> training, launcher;
};

SortedOverrides sort_overrides(const std::vector<std::string>& overrides, const Node& around,
                               const std::set<std::string>& names) {
  SortedOverrides sorted;
  for (const std::string& override : overrides) {
    const std::string key = key_of(override), first = first_part(key);
    if (first == "training" && key.size() > first.size()) {
      std::string stripped = override;
      stripped.erase(override.find("training."), 9);
      sorted.training.push_back(std::move(stripped));
    } else if (!of_training_file(first) && (around.find(first) || names.contains(first))) {
      sorted.launcher.push_back(override);
    } else {
      sorted.training.push_back(override);
    }
  }
  return sorted;
}

void report_open(const OpenValues& values, Purpose purpose, NemoFile& out,
                 std::vector<std::string>& problems) {
  for (const auto& [name, paths] : values.open) {
    const bool own = paths.front() == name;
    const std::string how = name.starts_with("oc.env:")
                                ? fmt::format("set the environment variable {}", name.substr(7))
                                : fmt::format("give {}=…", name);
    if (purpose == Purpose::kTrain) {
      problems.push_back(own ? fmt::format("{}: the file leaves it open, as {}: {}", name, kMissing, how)
                             : fmt::format("{}: {} is not given: {}", fmt::join(paths, ", "), name, how));
    } else {
      out.notes.push_back(
          own ? fmt::format("{} is left open by the file ({})", name, how)
              : fmt::format("left open, as {} is not given ({}): {}", name, how, fmt::join(paths, ", ")));
    }
  }
}

NemoFile read_composed(Composed composed, std::vector<std::string> remaining, const config::Schema& schema,
                       Purpose purpose) {
  NemoFile out;
  for (const std::string& choice : composed.choices) out.notes.push_back("read too: " + choice);
  if (!composed.left_out.empty())
    out.notes.push_back(
        fmt::format("not read, as they are no part of training: {}", fmt::join(composed.left_out, ", ")));
  // The launcher mounts the training file below `training`; keys around it are there for references alone.
  Node around = Node::map(), training = std::move(composed.root);
  if (const Node* mounted = training.find("training"); mounted && mounted->is_map()) {
    Node inner = *mounted;
    training.erase("training");
    around = std::move(training);
    training = std::move(inner);
  }
  std::set<std::string> names;
  references(training, names);
  references(around, names);
  const SortedOverrides sorted = sort_overrides(remaining, around, names);
  std::vector<Node> layers;
  layers.push_back(std::move(training));
  training = config::merge_layers(schema, std::move(layers), config::parse_overrides(sorted.training, 1));
  layers.assign(1, std::move(around));
  around = config::merge_layers(schema, std::move(layers), config::parse_overrides(sorted.launcher, 1));
  Node tree = training;
  for (const auto& [key, value] : around.entries)
    if (!tree.find(key)) tree.entries.emplace_back(key, value);

  OpenValues values(tree, schema);
  out.root = values.expand(training, "");
  std::vector<std::string> problems;
  report_open(values, purpose, out, problems);
  NemoTranslation translation(out.root, purpose);
  if (const Node* model = tree.find_path("model.tokenizer.model"); model && model->is_scalar())
    translation.opened_tokenizer = model->scalar;
  translation.run();
  std::move(translation.notes.begin(), translation.notes.end(), std::back_inserter(out.notes));
  std::move(translation.problems.begin(), translation.problems.end(), std::back_inserter(problems));
  require<ConfigError>(problems.empty(), "{}", fmt::join(problems, "\n"));
  return out;
}

}  // namespace

bool is_nemo(const Node& root) {
  if (!root.is_map() || root.find("base")) return false;
  for (const char* path :
       {"defaults", "training", "trainer.accelerator", "trainer.logger", "exp_manager.create_wandb_logger",
        "model.mcore_gpt", "model.megatron_amp_O2", "model.transformer_engine", "model.encoder"})
    if (root.find_path(path)) return true;
  return false;
}

NemoFile read_nemo(const fs::path& file, std::span<const std::string> overrides, const config::Schema& schema,
                   Purpose purpose) {
  std::vector<std::string> remaining(overrides.begin(), overrides.end());
  Composed composed = compose_hydra(file, remaining);
  return read_composed(std::move(composed), std::move(remaining), schema, purpose);
}

NemoFile read_nemo(config::Node root, std::span<const std::string> overrides, const config::Schema& schema,
                   Purpose purpose) {
  root.erase("defaults");
  return read_composed({std::move(root), {}, {}}, {overrides.begin(), overrides.end()}, schema, purpose);
}
}  // namespace stoa::foreign
