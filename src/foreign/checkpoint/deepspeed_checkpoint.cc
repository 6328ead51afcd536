#include "foreign/checkpoint/deepspeed_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/torch/torch_tree.h"
#include "ckpt/viewed_source.h"
#include "foreign/checkpoint/megatron_checkpoint.h"
#include "foreign/checkpoint/megatron_model.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::foreign {
namespace {

namespace hf = model::huggingface;
using ckpt::TensorEntry, ckpt::TensorSource, ckpt::ViewedTensor;
using ckpt::torch::TorchTree, ckpt::torch::Value, ckpt::torch::ValueKind;

constexpr std::int64_t kMostElements = std::int64_t{1} << 48;  // of a parameter

// The number before the first dot, of a module of a pipeline ("4.input_layernorm.weight"); -1: none.
std::int64_t module_number(const std::string& name) {
  std::int64_t number = -1;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
  return read.ec == std::errc() && read.ptr != name.data() + name.size() && *read.ptr == '.' ? number : -1;
}

// Modules of a pipeline are numbered: embedding, layers, norm, head. Their names as those of one model.
class ModuleNames {
 public:
  explicit ModuleNames(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (name.find(".self_attention.") == name.npos) continue;
      if (const std::int64_t number = module_number(name); number >= 0) {
        first_ = first_ < 0 ? number : std::min(first_, number);
        last_ = std::max(last_, number);
      }
    }
  }
  std::string operator()(const std::string& name) const {
    constexpr std::string_view kTied = "tied_modules.embed.";
    if (name.starts_with(kTied)) return "embedding." + name.substr(kTied.size());
    const std::int64_t number = module_number(name);
    if (number < 0) return name;
    const std::string rest = name.substr(name.find('.') + 1);
    if (first_ <= number && number <= last_)
      return fmt::format("encoder.layers.{}.{}", number - first_, rest);
    if (number < first_) return "embedding." + rest;
    return rest.starts_with("lm_head.") || rest.starts_with("word_embeddings.")
               ? "output_layer." + rest.substr(rest.find('.') + 1)
               : "encoder.final_layernorm." +
                     rest.substr(rest.find('.') == rest.npos ? 0 : rest.rfind('.') + 1);
  }

 private:
  std::int64_t first_ = -1, last_ = -1;
};

std::optional<fs::path> config_file(const fs::path& given, const fs::path& directory,
                                    const ForeignOptions& options) {
  if (options.config) return options.config;
  for (const fs::path& folder : {directory, given, fs::absolute(directory).lexically_normal().parent_path()})
    if (fs::exists(folder / "config.json")) return folder / "config.json";
  return std::nullopt;
}

// All of `wanted`, by their names in the family.
std::unique_ptr<TensorSource> of_family(const std::shared_ptr<const TensorSource>& whole,
                                        const std::vector<hf::Tensor>& wanted, const fs::path& config) {
  std::vector<ViewedTensor> out;
  std::string problems;
  for (const hf::Tensor& tensor : wanted) {
    std::vector<std::int64_t> shape;
    for (int d = 0; d < tensor.shape.rank(); ++d) shape.push_back(tensor.shape[d]);
    const TensorEntry* entry = whole->find_entry(tensor.name);
    if (!entry || entry->shape != shape) {
      problems += entry ? fmt::format("\n  wrong shape: {} is {}, expected [{}]", tensor.name,
                                      entry->shape_text(), fmt::join(shape, ", "))
                        : fmt::format("\n  missing: {} [{}]", tensor.name, fmt::join(shape, ", "));
      continue;
    }
    out.push_back({*entry, {{whole.get(), entry, 1, entry->elements(), 0, 0, 0, 0}}});
  }
  require<DataError>(problems.empty(),
                     "the tensors of '{}' are not those of the model that '{}' describes:{}",
                     whole->directory().string(), config.string(), problems);
  return std::make_unique<ckpt::ViewedSource>(whole->directory(), std::move(out),
                                              std::vector<std::shared_ptr<const TensorSource>>{whole});
}

void assemble_of_config(ForeignCheckpoint& out, const fs::path& config, const DeepSpeedTensors& tensors) {
  out.description = hf::read_config(read_text(config));
  out.small_files = config.parent_path();
  const auto wanted = hf::tensors(model::resolve_model(out.description.config), *out.description.family);
  out.weights = of_family(tensors.master, wanted, config);
  if (!tensors.exp_avg || !tensors.exp_avg_sq) return;
  OptimizerState state;
  state.master = of_family(tensors.master, wanted, config);
  state.exp_avg = of_family(tensors.exp_avg, wanted, config);
  state.exp_avg_sq = of_family(tensors.exp_avg_sq, wanted, config);
  out.state = std::move(state);
}

void assemble_of_megatron(ForeignCheckpoint& out, const fs::path& directory, const Value& args,
                          const std::string& source, const DeepSpeedTensors& tensors,
                          const ForeignOptions& options) {
  MegatronSources sources{{},
                          MegatronTensors(model::ModelKind::kGpt),
                          MegatronTensors(model::ModelKind::kGpt),
                          MegatronTensors(model::ModelKind::kGpt),
                          MegatronTensors(model::ModelKind::kGpt)};
  const auto add = [&](const std::shared_ptr<const TensorSource>& from,
                       std::initializer_list<MegatronTensors*> to) {
    if (!from) return;
    sources.alive.push_back(from);
    std::vector<std::string> names;
    for (const TensorEntry* entry : from->entries()) names.push_back(entry->name);
    const ModuleNames name(names);
    for (const TensorEntry* entry : from->entries())
      for (MegatronTensors* each : to) each->add(*from, *entry, name(entry->name), {}, 0, entry->shape);
  };
  add(tensors.master, {&sources.weights, &sources.master});
  add(tensors.exp_avg, {&sources.exp_avg});
  add(tensors.exp_avg_sq, {&sources.exp_avg_sq});
  MegatronModel model = model_of_megatron(args, model::ModelKind::kGpt, options.vocabulary, source);
  out.notes = std::move(model.notes);
  assemble(out, directory, model.config, std::move(sources));
}

}  // namespace

fs::path newest_universal(const fs::path& directory) {
  const fs::path tracker = directory / ckpt::kUniversalTracker;
  if (!fs::exists(tracker)) return {};
  std::string text = read_text(tracker);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  require<DataError>(!text.empty() && text.find('/') == text.npos && text != "..",
                     "'{}' names '{}', no folder", tracker.string(), text.substr(0, 60));
  return directory / text;
}

fs::path model_states_file(const fs::path& directory) {
  constexpr std::string_view kEnd = "mp_rank_00_model_states.pt";
  fs::path first;
  for (const auto& item : fs::directory_iterator(directory))
    if (item.path().filename().string().ends_with(kEnd) && (first.empty() || item.path() < first))
      first = item.path();
  require<IoError>(!first.empty(), "'{}' holds no {}, which says what the parameters are", directory.string(),
                   kEnd);
  return first;
}

std::vector<DeepSpeedParameter> deepspeed_parameters(const ckpt::torch::TorchFile& states) {
  const auto shapes =
      states.root().is(ValueKind::kDict) ? states.root().find("param_shapes") : std::optional<Value>();
  require<DataError>(shapes && shapes->is(ValueKind::kList), "'{}' holds no param_shapes", states.source());
  std::vector<DeepSpeedParameter> out;
  for (std::size_t group = 0; group < shapes->size(); ++group) {
    const Value names = (*shapes)[group];
    for (std::size_t i = 0; i < names.size(); ++i) {
      DeepSpeedParameter parameter{std::string(names.key(i).text()), {}, 1, group};
      const Value sizes = names.value(i);
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        parameter.shape.push_back(sizes[d].integer());
        require<DataError>(
            parameter.shape.back() >= 0 &&
                !__builtin_mul_overflow(parameter.elements, parameter.shape.back(), &parameter.elements) &&
                parameter.elements < kMostElements,
            "'{}': the shape of '{}'", states.source(), parameter.name);
      }
      out.push_back(std::move(parameter));
    }
  }
  return out;
}

ForeignCheckpoint assemble_deepspeed(std::string kind, const fs::path& given, const fs::path& directory,
                                     const ckpt::torch::TorchFile& states, const DeepSpeedTensors& tensors,
                                     const ForeignOptions& options) {
  require<DataError>(states.root().is(ValueKind::kDict), "'{}' holds {}, and expected is a dict",
                     states.source(), states.root());
  ForeignCheckpoint out;
  out.kind = std::move(kind);
  const auto args = states.root().find("args");
  if (args && (args->is(ValueKind::kObject) || args->is(ValueKind::kDict))) {
    assemble_of_megatron(out, directory, *args, states.source(), tensors, options);
    read_counters(out, states);
  } else {
    const auto config = config_file(given, directory, options);
    require<DataError>(config.has_value(),
                       "'{}' does not say what the model is: put its config.json next to it, or give it by "
                       "--config FILE",
                       directory.string());
    assemble_of_config(out, *config, tensors);
  }
  if (!out.state) {
    out.why_no_state = "no moments of Adam are in it";
    return out;
  }
  const auto count = [&](const char* name) { return counted(states, states.root().find(name)).value_or(0); };
  OptimizerState& state = *out.state;
  state.iteration = std::max(state.iteration, count("global_steps"));
  state.samples = std::max(state.samples, count("global_samples"));
  if (state.updates == 0) state.updates = state.iteration - count("skipped_steps");
  return out;
}

ForeignCheckpoint open_deepspeed_universal(const fs::path& given, const fs::path& directory,
                                           const ForeignOptions& options) {
  const ckpt::torch::TorchFile states(model_states_file(directory));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  if (states.root().is(ValueKind::kDict) && states.root().find("param_shapes"))
    for (DeepSpeedParameter& parameter : deepspeed_parameters(states))
      shapes.emplace(std::move(parameter.name), std::move(parameter.shape));
  std::int64_t updates = 0;
  const auto whole = [&](const char* state) -> std::shared_ptr<const TensorSource> {
    std::vector<ViewedTensor> tensors;
    std::vector<std::shared_ptr<const TensorSource>> alive;
    for (const auto& item : fs::directory_iterator(directory / "zero")) {
      const fs::path file = item.path() / fmt::format("{}.pt", state);
      if (!fs::exists(file)) continue;
      const auto tree = std::make_shared<const TorchTree>(file);
      // A dict with 'param', or the tensor alone.
      const TensorEntry* found = tree->find_entry("param");
      if (!found) found = &tree->entry("");
      TensorEntry named = *found;
      named.name = item.path().filename().string();
      // Those of stage 3 are flat.
      if (const auto said = shapes.find(named.name); said != shapes.end() && named.shape.size() == 1) {
        named.shape = said->second;
        require<DataError>(named.elements() == found->elements(), "'{}' holds {}, expected [{}]",
                           file.string(), found->shape_text(), fmt::join(named.shape, ", "));
      }
      tensors.push_back({std::move(named), {{tree.get(), found, 1, found->elements(), 0, 0, 0, 0}}});
      alive.push_back(tree);
      if (updates == 0 && fs::exists(item.path() / "step.pt")) {
        const ckpt::torch::TorchFile step(item.path() / "step.pt");
        updates = counted(step, step.root()).value_or(0);
      }
    }
    if (tensors.empty()) return nullptr;
    return std::make_shared<ckpt::ViewedSource>(directory, std::move(tensors), std::move(alive));
  };
  const DeepSpeedTensors tensors{whole("fp32"), whole("exp_avg"), whole("exp_avg_sq")};
  require<DataError>(tensors.master != nullptr, "'{}' holds no folder of a parameter",
                     (directory / "zero").string());
  ForeignCheckpoint out =
      assemble_deepspeed("DeepSpeed, universal", given, directory, states, tensors, options);
  if (out.state && updates > 0) out.state->updates = updates;
  return out;
}

}  // namespace stoa::foreign
