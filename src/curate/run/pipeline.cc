#include "curate/run/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "config/reader.h"
#include "config/reference.h"
#include "config/yaml.h"
#include "curate/run/process.h"
#include "curate/run/stage_kinds.h"

namespace stoa::curate {
namespace {

config::Section<PipelineSettings> settings_section() {
  config::Section<PipelineSettings> s;
  s.field("shard_bytes", &PipelineSettings::shard_bytes)
      .range(1, 1e12)
      .unit("bytes")
      .help("Text read per pair of output files: what is lost at most when a run is killed.");
  s.field("allow_empty", &PipelineSettings::allow_empty).help("Keeping no document at all is no error.");
  s.field("document_seconds", &PipelineSettings::document_seconds)
      .range(0, 1e9)
      .unit("s")
      .help("Processor time that a document may take before it goes to quarantine; 0: any.");
  s.section(
      "input", &PipelineSettings::input, [](config::Section<InputOptions>& inner) { declare(inner); },
      "What documents are.");
  return s;
}

// An item of a list of kinds: `name`, or `name: {keys}`. Calls make(name, keys, values of all keys).
template <class Make>
config::Node read_item(const config::Node& item, const std::string& what, Make&& make) {
  const bool bare = item.is_scalar();
  require<ConfigError>(
      bare || (item.is_map() && item.entries.size() == 1),
      "{}: an item of `{}` is a name, or a name and its keys (`- name: {{key: value}}`); got {}",
      item.origin.text(), what, item.summary());
  const std::string& name = bare ? item.scalar : item.entries.front().first;
  const config::Node keys = bare ? config::Node() : item.entries.front().second;
  require<ConfigError>(keys.is_null() || keys.is_map(), "{}: the keys of '{}' are a mapping; got {}",
                       item.origin.text(), name, keys.summary());
  config::Node values, resolved = config::Node::map();
  try {
    make(name, keys, values);
  } catch (const ConfigError& e) {
    fail<ConfigError>("`{}` ({}): {}", what, item.origin.text(), e.what());
  }
  resolved.entries.emplace_back(name, std::move(values));
  return resolved;
}

template <class Kind>
const Kind& kind_named(std::span<const Kind> kinds, const std::string& name) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) {
    if (kind.name == name) return kind;
    names.emplace_back(kind.name);
  }
  fail<ConfigError>("'{}' is none of {}{}", name, fmt::join(names, ", "), did_you_mean(name, names));
}

// Takes the list out of the tree; empty where there is none.
std::vector<config::Node> take_list(config::Node& root, const std::string& key) {
  const config::Node* found = root.find(key);
  if (found == nullptr) return {};
  require<ConfigError>(found->is_sequence(), "{}: `{}` is a list; got {}", found->origin.text(), key,
                       found->summary());
  std::vector<config::Node> items = found->items;
  root.erase(key);
  return items;
}

// Configurations of programs whose filters are stages here, under other keys.
void refuse_other_programs(const config::Node& root, const fs::path& path) {
  const config::Node* const stages = root.find("stages");
  const bool nemo = stages != nullptr && stages->is_sequence() && !stages->items.empty() &&
                    stages->items.front().is_map() && stages->items.front().find("_target_") != nullptr;
  require<ConfigError>(
      !nemo,
      "'{}' is a configuration of NeMo Curator; write the limits of its filters as `stages: "
      "[nemo_heuristics: {{min_words: 50, …}}]` and its deduplication as `deduplicate: [exact]` or "
      "`[nemo_minhash]`",
      path.string());
  require<ConfigError>(
      root.find("taggers") == nullptr && root.find("streams") == nullptr,
      "'{}' is a configuration of dolma; write its taggers and the limits of its mixer as `stages: "
      "[dolma_taggers: {{…}}]`, and give its documents with --input",
      path.string());
}

template <class Kind>
std::string kinds_reference(std::string_view title, std::span<const Kind> kinds) {
  std::string text;
  for (const Kind& kind : kinds)
    text += fmt::format("\n## {} {}\n\n{}.\n\n{}", title, kind.name, kind.help,
                        config::reference_tables(kind.schema, kind.defaults));
  return text;
}

}  // namespace

Pipeline read_pipeline(const fs::path& path) {
  config::Node root = config::read_yaml(path);
  require<ConfigError>(root.is_map(), "'{}' is no pipeline; expected a mapping with `stages`", path.string());
  refuse_other_programs(root, path);
  const auto has = [&](const char* list) {
    const config::Node* found = root.find(list);
    return found != nullptr && (!found->is_sequence() || !found->items.empty());
  };
  require<ConfigError>(has("stages") || has("deduplicate") || has("cut"),
                       "'{}' has no list `stages`, `deduplicate` or `cut`; expected e.g. `stages: "
                       "[gopher_repetition, gopher_quality]`",
                       path.string());
  return pipeline_of(std::move(root));
}

Pipeline pipeline_of(config::Node root) {
  const std::vector<config::Node> stages = take_list(root, "stages"),
                                  deduplications = take_list(root, "deduplicate"),
                                  cuts = take_list(root, "cut");
  Pipeline pipeline;
  const auto section = settings_section();
  config::read_object(section.schema(), root, &pipeline.settings, {});
  config::Node resolved = section.schema().print(&pipeline.settings);
  std::vector<config::Node> stage_items, deduplication_items, cut_items;
  for (const config::Node& item : stages)
    stage_items.push_back(read_item(
        item, "stages", [&](const std::string& name, const config::Node& keys, config::Node& values) {
          pipeline.stages.push_back({name, kind_named(stage_kinds(), name).make(keys, values)});
        }));
  for (const config::Node& item : deduplications)
    deduplication_items.push_back(read_item(
        item, "deduplicate", [&](const std::string& name, const config::Node& keys, config::Node& values) {
          pipeline.deduplications.push_back(kind_named(deduplication_kinds(), name).make(keys, values));
        }));
  for (const config::Node& item : cuts)
    cut_items.push_back(
        read_item(item, "cut", [&](const std::string& name, const config::Node& keys, config::Node& values) {
          pipeline.cuts.push_back({name, kind_named(cut_kinds(), name).make(keys, values)});
        }));
  resolved.entries.emplace_back("stages", config::Node::sequence(std::move(stage_items)));
  resolved.entries.emplace_back("deduplicate", config::Node::sequence(std::move(deduplication_items)));
  if (!cut_items.empty()) resolved.entries.emplace_back("cut", config::Node::sequence(std::move(cut_items)));
  pipeline.resolved = config::write_yaml(resolved);
  return pipeline;
}

std::vector<std::string> stage_names(const Pipeline& pipeline) {
  std::vector<std::string> names{kInputStage};
  for (const auto& stage : pipeline.stages)
    if (std::find(names.begin(), names.end(), stage.name) == names.end()) names.push_back(stage.name);
  for (const auto& how : pipeline.deduplications) names.push_back(how.name);
  for (const auto& cut : pipeline.cuts) names.push_back(cut.name);
  return names;
}

std::string pipeline_reference() {
  const PipelineSettings defaults;
  const auto section = settings_section();
  std::string text =
      "# Stages of the data factory\n\nGenerated by `stoa data stages` from the declarations in the code; do "
      "not edit. "
      "[data.md](data.md) explains pipelines.\n";
  text += config::reference_tables(section.schema(), section.schema().print(&defaults));
  text += kinds_reference("Stage", stage_kinds());
  text += kinds_reference("Deduplication", deduplication_kinds());
  text += kinds_reference("Cut", cut_kinds());
  return text;
}

}  // namespace stoa::curate
