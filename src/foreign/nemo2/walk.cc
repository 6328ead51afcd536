// Every key of a recipe is looked up.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "config/yaml.h"
#include "foreign/megatron/table.h"
#include "foreign/nemo2/reading.h"

namespace stoa::foreign {

using config::Node;
using S = Nemo2Section;

namespace {

// Words in `words`, separated by spaces.
bool listed(std::string_view words, std::string_view word) {
  for (std::size_t at = 0; at < words.size();) {
    const auto end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::string last_name(const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); }

std::optional<std::string> recipe_text(const Node& node) {
  const auto type = [](const std::string& name) -> std::string {
    return name == "bfloat16" ? "bf16" : name == "float16" ? "fp16" : name == "float32" ? "fp32" : name;
  };
  if (node.is_scalar()) return node.scalar.starts_with("torch.") ? type(last_name(node.scalar)) : node.scalar;
  if (node.is_sequence()) {
    std::vector<std::string> parts;
    for (const Node& item : node.items) parts.push_back(recipe_text(item).value_or("null"));
    return fmt::format("[{}]", fmt::join(parts, ","));
  }
  const Node* target = node.find("_target_");
  if (!target) return node.is_null() || node.entries.empty() ? std::nullopt : std::optional(node.summary());
  return type(last_name(target->scalar));
}

void set_nemo2_value(Node& root, std::string_view path, std::string_view text) {
  root.make_path(path) = config::parse_yaml(text, "recipe");
}

// Fields that the file does not give are those of the model's class.
void Nemo2Reading::complete_class() {
  if (const Node* of_model = root_.find_path("model._target_"); of_model && of_model->is_scalar())
    require<ConfigError>(
        last_name(of_model->scalar).find("HFAutoModel") == std::string::npos,
        "model: {}: transformers' own code trains it: give the model's directory instead of the "
        "recipe",
        last_name(of_model->scalar));
  Node& config = root_.make_path("model.config");
  if (const Node* target = config.find("_target_")) class_ = last_name(target->scalar);
  if (const auto reason = refused_nemo2_class(class_); !reason.empty())
    fail<ConfigError>("model.config: {}: {}", class_, reason);
  const Nemo2Class* known = find_nemo2_class(class_);
  if (!known) {
    if (!class_.empty() && config.find("num_layers") && config.find("hidden_size"))
      note(fmt::format("{} is no class that Stoa knows: what the recipe does not give is GPTConfig's",
                       class_));
    return;
  }
  for (std::string_view rest = known->fields; !rest.empty();) {
    const auto end = std::min(rest.find(' '), rest.size()), equals = rest.find('=');
    const std::string name(rest.substr(0, equals));
    if (!config.find(name)) set_nemo2_value(config, name, rest.substr(equals + 1, end - equals - 1));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void Nemo2Reading::refuse(const std::string& path, const std::string& value, std::string_view reason) {
  refused_.push_back(path);
  problems_.push_back(fmt::format("{}: {}: Stoa does not have it ({})", path, value, reason));
}

void Nemo2Reading::without_meaning(const std::string& path, const Node& node, const char* reason) {
  if (node.is_map() && !node.entries.empty()) {
    for (const auto& [name, value] : node.entries)
      if (!name.starts_with('_')) without_meaning(path + "." + name, value, reason);
    return;
  }
  if (!node.is_null()) out_.ignored.push_back(fmt::format("{} ({})", path, reason));
}

void Nemo2Reading::argument(std::string_view name, std::vector<std::string> values, std::string shown) {
  arguments_.insert_or_assign(std::string(name), Argument{std::move(values), std::move(shown)});
}

void Nemo2Reading::take(S section, const std::string& path, const std::string& name, const Node& node) {
  const Nemo2Key key = find_nemo2_key(section, name);
  if (key.name.empty()) {
    problems_.push_back(fmt::format("{}: no key of a recipe of NeMo 2 or Megatron-Bridge{}", path,
                                    did_you_mean(name, nemo2_key_names(section))));
    return;
  }
  if (key.use == Nemo2Use::kCode && name == "tokenizer" && node.is_map()) return tokenizer(path, node);
  const auto text = recipe_text(node);
  if (!text) return;
  const std::string shown = fmt::format("{}: {}", path, *text);
  switch (key.use) {
    case Nemo2Use::kFlag:
    case Nemo2Use::kNotFlag:
      if (*text == (key.use == Nemo2Use::kFlag ? "true" : "false"))
        argument(key.text, {}, shown);
      else if (*text != "true" && *text != "false")
        problems_.push_back(fmt::format("{}: expected true or false", shown));
      return;
    case Nemo2Use::kArgument: {
      if (*text == "false" || text->empty()) return;
      const MegatronArgument* row = find_megatron_argument(key.text);
      std::vector<std::string> values{*text};
      if (row && (row->arity == Arity::kAny || row->arity == Arity::kSome) && node.is_sequence()) {
        values.clear();
        for (const Node& item : node.items) values.push_back(recipe_text(item).value_or("null"));
      }
      return argument(key.text, std::move(values), shown);
    }
    case Nemo2Use::kKey:
      return set(key.text, *text);
    case Nemo2Use::kCode:
      code_.insert_or_assign(std::pair(section, name), Given{path, *text});
      return;
    case Nemo2Use::kNone:
      out_.ignored.push_back(fmt::format("{} ({})", path, key.text));
      return;
    case Nemo2Use::kRefused:
      if (!listed(key.usual, *text)) refuse(path, *text, key.text);
      return;
  }
}

void Nemo2Reading::section(S section, const std::string& path, const Node* node) {
  if (!node || node->is_null()) return;
  if (!node->is_map()) {
    problems_.push_back(fmt::format("{}: {}: expected a mapping", path, node->summary()));
    return;
  }
  for (const auto& [name, value] : node->entries)
    if (!name.starts_with('_')) take(section, path + "." + name, name, value);
}

void Nemo2Reading::tokenizer(const std::string& path, const Node& node) {
  for (const auto& [name, value] : node.entries)
    if (!name.starts_with('_')) take(S::kTokenizer, path + "." + name, name, value);
}

// What a callback does to training is the user's own; those of NeMo only log, time and overlap.
void Nemo2Reading::callbacks(const Node& list) {
  for (const Node& callback : list.items) {
    const Node* target = callback.find("_target_");
    const std::string name = target ? last_name(target->scalar) : "a callback";
    const Node* overlap = callback.find("overlap_grad_reduce");
    if (overlap && overlap->is_scalar() && overlap->scalar == "true")
      argument("overlap-grad-reduce", {}, "trainer.callbacks: " + name);
    out_.ignored.push_back(fmt::format("trainer.callbacks ({}: Python code around the steps)", name));
  }
}

void Nemo2Reading::nemo() {
  complete_class();
  const auto unknown = [&](const std::string& path, const std::string& name, std::vector<std::string> names) {
    problems_.push_back(fmt::format("{}: no key of a recipe of NeMo 2{}", path, did_you_mean(name, names)));
  };
  for (const auto& [name, node] : root_.entries) {
    if (name.starts_with('_') || name == "model" || name == "trainer" || name == "optim") continue;
    if (name == "data")
      section(S::kData, name, &node);
    else if (name == "log" || name == "resume")
      run_keys(name, node);
    else if (name == "tokenizer")
      tokenizer(name, node);
    else if (name == "peft" || name == "model_transform") {
      if (const auto text = recipe_text(node)) refuse(name, *text, "adapters: all weights are trained");
    } else
      unknown(name, name, {"model", "trainer", "data", "optim", "log", "resume", "tokenizer", "peft"});
  }
  if (const Node* model = root_.find("model"); model && model->is_map())
    for (const auto& [name, node] : model->entries) {
      const std::string path = "model." + name;
      if (name.starts_with('_') || name == "optim") continue;
      if (name == "config")
        section(S::kModel, path, &node);
      else if (name == "tokenizer")
        tokenizer(path, node);
      else if (name == "use_linear_ce_loss" || name == "model_context_managers")
        without_meaning(path, node, "a choice of kernels or Python classes: Stoa has its own");
      else if (name == "model_transform") {
        if (const auto text = recipe_text(node)) refuse(path, *text, "adapters: all weights are trained");
      } else
        unknown(path, name, {"config", "tokenizer", "optim", "model_transform", "use_linear_ce_loss"});
    }
  if (const Node* trainer = root_.find("trainer"); trainer && trainer->is_map())
    for (const auto& [name, node] : trainer->entries) {
      const std::string path = "trainer." + name;
      if (name.starts_with('_')) continue;
      if (name == "strategy" && node.is_map()) {
        for (const auto& [key, value] : node.entries) {
          if (key == "ddp" && value.is_map())
            section(S::kStrategy, path + ".ddp", &value);
          else if (!key.starts_with('_') && key != "ddp")
            take(S::kStrategy, path + "." + key, key, value);
        }
      } else if (name == "strategy" && node.is_scalar()) {
        refuse(path, node.scalar, "a strategy that is not Megatron's");
      } else if (name == "plugins" && node.is_sequence()) {
        for (const Node& plugin : node.items) section(S::kPrecision, path, &plugin);
      } else if (name == "plugins") {
        section(S::kPrecision, path, &node);
      } else if (name == "callbacks" && node.is_sequence()) {
        callbacks(node);
      } else {
        take(S::kTrainer, path, name, node);
      }
    }
  if (const Node* optim = root_.find("optim"); optim && optim->is_map())
    for (const auto& [name, node] : optim->entries) {
      const std::string path = "optim." + name;
      if (name.starts_with('_')) continue;
      if (name == "config")
        section(S::kOptimizer, path, &node);
      else if (name == "lr_scheduler")
        section(S::kSchedule, path, &node);
      else if (name == "lr_mult" || name == "scale_lr_cond" || name == "no_weight_decay_cond" ||
               name == "optimizer_fn") {
        const auto text = recipe_text(node);
        if (text && *text != "1.0" && *text != "1")
          refuse(path, *text, "Python code that chooses rates and decay; the optimizer is optim.config's");
      } else
        unknown(path, name, {"config", "lr_scheduler", "lr_mult", "scale_lr_cond", "no_weight_decay_cond"});
    }
}

// ConfigContainer of Megatron-Bridge: the same classes, under other names.
void Nemo2Reading::bridge() {
  static constexpr std::pair<std::string_view, S> kSections[] = {
      {"model", S::kModel},         {"ddp", S::kStrategy},       {"dist", S::kStrategy},
      {"optimizer", S::kOptimizer}, {"scheduler", S::kSettings}, {"train", S::kSettings},
      {"validation", S::kSettings}, {"rng", S::kSettings},       {"dataset", S::kData}};
  static constexpr std::string_view kOfTheRun[] = {
      "checkpoint",   "logger",         "profiling",         "ft",
      "straggler",    "nvrx_straggler", "inprocess_restart", "rerun_state_machine",
      "comm_overlap", "tensor_inspect", "env_vars",          "optimizer_config_override_provider"};
  for (const auto& [name, node] : root_.entries) {
    if (name.starts_with('_')) continue;
    const auto* known = std::find_if(std::begin(kSections), std::end(kSections),
                                     [&, &key = name](const auto& entry) { return entry.first == key; });
    if (known != std::end(kSections)) {
      section(known->second, name, &node);
    } else if (name == "mixed_precision") {
      if (node.is_scalar())
        code_.insert_or_assign(std::pair(S::kPrecision, "precision"), Given{name, node.scalar});
      else
        section(S::kPrecision, name, &node);
    } else if (name == "tokenizer") {
      tokenizer(name, node);
    } else if (name == "peft") {
      if (const auto text = recipe_text(node)) refuse(name, *text, "adapters: all weights are trained");
    } else if (std::find(std::begin(kOfTheRun), std::end(kOfTheRun), name) != std::end(kOfTheRun)) {
      without_meaning(name, node, kOfARun);
    } else {
      std::vector<std::string> names(std::begin(kOfTheRun), std::end(kOfTheRun));
      for (const auto& [section_name, section_of] : kSections) names.emplace_back(section_name);
      problems_.push_back(fmt::format("{}: no section of Megatron-Bridge's ConfigContainer{}", name,
                                      did_you_mean(name, names)));
    }
  }
}

}  // namespace stoa::foreign
