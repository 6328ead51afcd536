#include "foreign/checkpoint/deepspeed_checkpoint.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/torch/torch_tree.h"
#include "foreign/checkpoint/megatron_checkpoint.h"
#include "foreign/checkpoint/megatron_model.h"

namespace stoa::foreign {
namespace {

using ckpt::torch::TorchTree, ckpt::torch::ValueKind;

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

ForeignCheckpoint open_deepspeed_universal(const fs::path& directory, const ForeignOptions& options) {
  const fs::path states = directory / "mp_rank_00_model_states.pt";
  require<IoError>(fs::exists(states), "'{}' does not exist, which holds the arguments of the model",
                   states.string());
  const ckpt::torch::TorchFile file(states);
  const auto args = file.root().is(ValueKind::kDict) ? file.root().find("args") : std::nullopt;
  require<DataError>(args.has_value(), "'{}' holds no args: what the model is cannot be read from it",
                     states.string());
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(directory / "zero"))
    if (fs::exists(item.path() / "fp32.pt")) names.push_back(item.path().filename().string());
  std::sort(names.begin(), names.end());
  require<DataError>(!names.empty(), "'{}' holds no folder of a parameter", (directory / "zero").string());

  MegatronSources sources{
      {}, MegatronTensors(true), MegatronTensors(true), MegatronTensors(true), MegatronTensors(true)};
  const ModuleNames module_names(names);
  std::int64_t updates = 0;
  for (const std::string& name : names) {
    const fs::path folder = directory / "zero" / name;
    const auto add = [&](const char* state, std::initializer_list<MegatronTensors*> to) {
      const fs::path path = folder / fmt::format("{}.pt", state);
      if (!fs::exists(path)) return;
      const auto tree = std::make_shared<const TorchTree>(path);
      sources.alive.push_back(tree);
      // A dict with 'param', or the tensor alone.
      const ckpt::TensorEntry* entry = tree->find_entry("param");
      if (!entry) entry = &tree->entry("");
      for (MegatronTensors* tensors : to)
        tensors->add(*tree, *entry, module_names(name), {}, 0, entry->shape);
    };
    add("fp32", {&sources.weights, &sources.master});
    add("exp_avg", {&sources.exp_avg});
    add("exp_avg_sq", {&sources.exp_avg_sq});
    if (updates == 0 && fs::exists(folder / "step.pt")) {
      const ckpt::torch::TorchFile step(folder / "step.pt");
      updates = counted(step, step.root()).value_or(0);
    }
  }
  ForeignCheckpoint out;
  out.kind = "DeepSpeed, universal";
  MegatronModel model = model_of_megatron(*args, model::ModelKind::kGpt, options.vocabulary, states.string());
  out.notes = std::move(model.notes);
  assemble(out, directory, model.config, std::move(sources));
  read_counters(out, file);
  if (out.state && updates > 0) out.state->updates = updates;
  return out;
}

}  // namespace stoa::foreign
