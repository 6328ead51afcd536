#include "infer/adapter_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "ckpt/convert.h"
#include "ckpt/shard_io.h"
#include "infer/adapter_values.h"
#include "infer/prompt_table.h"
#include "model/adapter_targets.h"
#include "model/huggingface/adapter_config.h"
#include "model/huggingface/adapter_tensors.h"
#include "model/huggingface/bottleneck_files.h"
#include "nn/low_rank_rows.h"
#include "nn/rescaled.h"

namespace stoa::infer {

namespace hf = model::huggingface;

namespace {

// ConfigError: PEFT trained the embedding apart from the head, and the model has one matrix for both.
void require_tied(const hf::AdapterDescription& adapter, const model::ModelSpec& base,
                  const hf::Family& family) {
  const auto& saved = adapter.config.modules_to_save;
  if (saved.empty() || adapter.stays_tied || !base.config.ties_head()) return;
  for (const model::LinearModule& module : model::token_modules(base, family))
    for (const std::string& name : saved)
      require<ConfigError>(!model::matches_target(name, module.path, {}),
                           "modules_to_save has '{}' without ensure_weight_tying: PEFT then unties the "
                           "embedding and the head, "
                           "which Stoa does not do for an adapter",
                           name);
}

model::PeftConfig adapter_config(const fs::path& directory, const model::ModelSpec& base,
                                 const hf::Family& family) {
  try {
    const hf::AdapterDescription out = hf::read_adapter_config(read_text(directory / hf::kAdapterConfig));
    require<ConfigError>(out.submodules == 1 || base.config.kind == model::ModelKind::kT5,
                         "num_transformer_submodules {} is of an encoder-decoder, which the model is not",
                         out.submodules);
    require_tied(out, base, family);
    return out.config;
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", directory.string(), error.what());
  }
}

// The end of a text "pattern=value".
double value_of(const std::string& text) { return std::stod(text.substr(text.rfind('=') + 1)); }

// PEFT's patterns of parameters, as patterns of layers: without ".weight"; and where the files hold experts
// one by one, those of the one parameter that is gate and up of all experts, whose rank is that of both where
// the adapter holds them one by one, too.
void name_layers(model::LoraConfig& c, const std::vector<model::LinearModule>& all,
                 const std::map<std::string, FileValues>& values) {
  for (auto* patterns : {&c.rank_pattern, &c.alpha_pattern})
    for (std::string& text : *patterns)
      if (const auto at = text.rfind(".weight="); at != std::string::npos) text.erase(at, 7);
  std::set<std::string> words;
  std::int64_t rank = 0;
  for (const model::LinearModule& module : all) {
    if (module.last_word() == hf::kJointGateUp) return;
    if (!module.is_single_expert() || module.last_word() == hf::kJointDown) continue;
    words.insert(module.last_word());
    const auto found = values.find(module.path + ".lora_A.weight");
    if (found != values.end() && !found->second.shape.empty()) rank = found->second.shape.front();
  }
  const auto take = [](std::vector<std::string>& patterns, double otherwise) {
    double out = otherwise;
    std::erase_if(patterns, [&](const std::string& text) {
      const bool joint = text.substr(0, text.rfind('=')).ends_with(hf::kJointGateUp);
      if (joint) out = value_of(text);
      return joint;
    });
    return out;
  };
  const double of_both = take(c.rank_pattern, static_cast<double>(c.adapter_dim)),
               alpha = take(c.alpha_pattern, c.alpha.value_or(static_cast<double>(c.adapter_dim)));
  if (rank == 0) return;
  const double share = static_cast<double>(rank) / of_both,
               own = alpha * (c.use_rslora ? std::sqrt(share) : share);
  for (const std::string& word : words) {
    if (rank != c.adapter_dim) c.rank_pattern.push_back(fmt::format("*.experts.*.{}={}", word, rank));
    if (own != c.alpha) c.alpha_pattern.push_back(fmt::format("*.experts.*.{}={}", word, own));
  }
}

// AdapterHub names the layers without a bottleneck, layer_selection those with one.
void select_layers(model::BottleneckConfig& c, std::int64_t layers) {
  for (std::int64_t layer = 0; layer < layers && !c.leave_out.empty(); ++layer)
    if (std::find(c.leave_out.begin(), c.leave_out.end(), layer) == c.leave_out.end())
      c.layer_selection.push_back(layer + 1);
}

// The paths of the modules that have a branch.
std::set<std::string> branch_paths(const std::map<std::string, FileValues>& values) {
  std::set<std::string> out;
  for (const auto& [name, tensor] : values)
    for (const std::string_view end : {".lora_A.weight", nn::LowRankRows::kA})
      if (name.ends_with(end)) out.insert(name.substr(0, name.size() - end.size()));
  return out;
}

// PEFT writes the embedding and the head whole where the vocabulary has grown, without saying so. `adapted`:
// the paths of modules with a branch.
void save_token_matrices(model::PeftConfig& c, const model::ModelSpec& base, const hf::Family& family,
                         const std::map<std::string, FileValues>& values,
                         const std::set<std::string>& adapted) {
  // Where rows or branches of the two are trained, nothing else of them has changed.
  if (!c.trainable_token_indices.empty()) return;
  for (const model::LinearModule& module : model::token_modules(base, family))
    if (adapted.contains(module.path)) return;
  for (const hf::Tensor& tensor : hf::tensors(base, family)) {
    if (!hf::is_token_matrix(tensor.parts.front().name) || !values.contains(tensor.name)) continue;
    const std::string path = tensor.name.substr(0, tensor.name.rfind('.'));
    if (std::none_of(c.modules_to_save.begin(), c.modules_to_save.end(),
                     [&](const auto& saved) { return model::matches_target(saved, path, {}); }))
      c.modules_to_save.push_back(path);
  }
}

}  // namespace

AdapterFiles::AdapterFiles(const fs::path& directory, const model::ModelSpec& base,
                           std::string_view model_type)
    : directory_(directory) {
  model::ModelConfig config = base.config;
  const hf::Family& family = hf::family_for(model_type, base.config);
  config.peft = adapter_config(directory, base, family);
  config.peft.base_model_type = std::string(model_type);
  if (config.peft.is_lora()) {
    // Which modules have a branch, the tensors say.
    const std::map<std::string, FileValues> held = read_adapter_values(directory, base, family);
    name_layers(config.peft.lora, model::linear_modules(base, family), held);
    const std::set<std::string> targets = branch_paths(held);
    save_token_matrices(config.peft, base, family, held, targets);
    require<DataError>(!targets.empty(), "'{}' holds no low-rank matrix", directory.string());
    config.peft.lora.target_modules.assign(targets.begin(), targets.end());
  } else if (config.peft.is_ia3()) {
    constexpr std::string_view kEnd = nn::Rescaled::kSuffix;
    std::vector<std::string>&targets = config.peft.ia3.target_modules,
    &inputs = config.peft.ia3.feedforward_modules;
    targets.clear(), inputs.clear();
    for (const auto& [name, values] : read_adapter_values(directory, base, family))
      if (name.ends_with(kEnd)) {
        targets.push_back(name.substr(0, name.size() - kEnd.size()));
        if (values.shape.front() == 1) inputs.push_back(targets.back());
      }
    require<DataError>(!targets.empty(), "'{}' holds no factor of IA3", directory.string());
  } else if (config.peft.is_bottleneck()) {
    select_layers(config.peft.bottleneck, base.config.num_layers);
  } else if (config.peft.peft_scheme == model::PeftScheme::kPTuning) {
    config.peft.peft_scheme = model::PeftScheme::kPrompt;  // what the encoder made is all that is used
  }
  try {
    model_ = model::resolve_model(config, base.vocabulary);
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", directory.string(), error.what());
  }
  scatter_values();
}

AdapterFiles::AdapterFiles(const fs::path& directory, const model::ModelSpec& adapted)
    : directory_(directory), model_(adapted) {
  const model::PeftConfig theirs = adapter_config(directory, adapted, adapted.adapters->family()),
                          &ours = adapted.config.peft;
  const auto text = [&](const model::PeftConfig& c) {
    if (c.has_virtual_tokens())
      return fmt::format("{} virtual tokens of scheme {}", c.virtual_count(),
                         c.peft_scheme == model::PeftScheme::kPrefix ? "prefix" : "prompt or ptuning");
    if (c.is_ia3()) return std::string("IA3");
    if (c.is_bottleneck()) return hf::bottleneck_text(c.bottleneck, adapted.config.hidden_size);
    const std::size_t rows = c.trainable_token_indices.size();
    return fmt::format("rank {}, alpha {}{}{}{}", c.lora.adapter_dim,
                       c.lora.alpha.value_or(static_cast<double>(c.lora.adapter_dim)),
                       c.lora.use_rslora ? ", rsLoRA" : "", c.lora.use_dora ? ", DoRA" : "",
                       rows == 0 ? "" : fmt::format(", rows of {} tokens", rows));
  };
  require<ConfigError>(text(theirs) == text(ours), "'{}' is an adapter of {}; {} has {}: give the same",
                       directory.string(), text(theirs), ours.is_lora() ? "peft.lora_tuning" : "model.peft",
                       text(ours));
  scatter_values();
}

void AdapterFiles::scatter_values() {
  const fs::path& directory = directory_;
  const bool virtual_tokens = model_.config.peft.has_virtual_tokens();
  std::map<std::string, FileValues> files =
      virtual_tokens ? read_virtual_values(directory, model_)
      : model_.config.peft.is_bottleneck()
          ? read_bottleneck_values(directory, model_)
          : read_adapter_values(directory, model_, model_.adapters->family());
  // An encoder of p-tuning is not needed where its result is used, and PEFT's files have none.
  const bool encodes = virtual_tokens && model_.adapters->prompt() &&
                       model_.adapters->prompt()->encoder != nn::PromptEncoderKind::kNone;
  if (virtual_tokens && !encodes)
    std::erase_if(files, [](const auto& file) { return file.first.starts_with("prompt_encoder."); });
  require<DataError>(
      !encodes || files.size() > 1,
      "'{}' holds what its encoder made, without the encoder: continue it with peft_scheme prompt",
      directory.string());
  if (!model_.adapters->token_rows().empty())
    for (const hf::Tensor& tensor : hf::tensors(model::base_of(model_), model_.adapters->family()))
      if (hf::is_token_matrix(tensor.parts.front().name)) files.erase(tensor.name);
  std::vector<std::string> problems;
  if (model_.adapters->adapts_tokens()) drop_token_matrices(files, problems);
  for (const hf::AdapterTensor& tensor : hf::adapter_tensors(model_)) {
    const auto found = files.find(tensor.key);
    if (found == files.end()) {
      if (!tensor.repeats_embedding) problems.push_back(tensor.key + " is missing");
      continue;
    }
    const FileValues values = std::move(found->second);
    files.erase(found);
    if (tensor.repeats_embedding) {
      const std::vector<float>* embedding = find("embedding.tokens.weight");
      if (!embedding || values.values != *embedding)
        problems.push_back(tensor.key + " is not the embedding, to which the model ties it");
      continue;
    }
    std::vector<std::int64_t> expected;
    const Shape shape = tensor.shape();
    for (int i = 0; i < shape.rank(); ++i) expected.push_back(shape[i]);
    if (values.shape != expected) {
      problems.push_back(fmt::format("{} is [{}] instead of [{}]", tensor.key, fmt::join(values.shape, ", "),
                                     fmt::join(expected, ", ")));
      continue;
    }
    hf::scatter_adapter(tensor, DType::kF32, reinterpret_cast<const std::byte*>(values.values.data()),
                        [&](const model::CanonicalTensor& part) {
                          auto& out = values_[part.name];
                          out.resize(static_cast<std::size_t>(part.shape.elements()));
                          return reinterpret_cast<std::byte*>(out.data());
                        });
  }
  for (const auto& [name, values] : files) problems.push_back(name + " is not trained by its configuration");
  require<DataError>(problems.empty(), "'{}' is not the adapter that is described:\n  {}", directory.string(),
                     fmt::join(problems, "\n  "));
}

// With a branch of the embedding or the head, PEFT also writes both matrices, which have not changed.
void AdapterFiles::drop_token_matrices(std::map<std::string, FileValues>& files,
                                       std::vector<std::string>& problems) const {
  for (const model::LinearModule& module : model::token_modules(model_, model_.adapters->family())) {
    const auto found = files.find(module.path + ".weight");
    if (found == files.end() || model_.adapters->trains_base(module.name + ".weight")) continue;
    const std::int64_t rows = found->second.shape.empty() ? 0 : found->second.shape.front();
    if (rows != module.outputs())
      problems.push_back(
          fmt::format("{} has rows of {} tokens, the model of {}: it belongs to a model whose "
                      "vocabulary was resized",
                      found->first, rows, module.outputs()));
    files.erase(found);
  }
}

const std::vector<float>* AdapterFiles::find(const std::string& canonical) const {
  const auto found = values_.find(canonical);
  return found == values_.end() ? nullptr : &found->second;
}

void AdapterFiles::read(const HeldParameters& rank, const std::function<TensorView(nn::ParamId)>& target,
                        const std::function<void(nn::ParamId)>& filled) const {
  fill_held(values_, rank, target, filled);
}

void fill_held(const std::map<std::string, std::vector<float>>& all, const HeldParameters& rank,
               const std::function<TensorView(nn::ParamId)>& target,
               const std::function<void(nn::ParamId)>& filled) {
  for (std::size_t p = 0; p < rank.parts.size(); ++p) {
    const ShardSpec& shard = rank.parts[p];
    const nn::ParamId id{static_cast<int>(p)};
    if (shard.pieces.empty() || !all.contains(shard.pieces.front().name)) continue;
    if (shard.flat && shard.flat->begin >= shard.flat->end) continue;
    const TensorView memory = target(id);
    std::memset(memory.data, 0, memory.bytes());
    for (const ShardPiece& piece : shard.pieces) {
      const std::vector<float>& values = all.at(piece.name);
      ckpt::for_each_run(
          piece, shard.local, shard.local.inner(), shard.flat, [&](const ckpt::ElementRun& run) {
            ckpt::convert_elements(reinterpret_cast<const std::byte*>(values.data() + run.file), DType::kF32,
                                   static_cast<std::byte*>(memory.data) +
                                       static_cast<std::size_t>(run.memory) * size_of(memory.dtype),
                                   memory.dtype, run.count);
          });
    }
    filled(id);
  }
}

std::vector<ckpt::TensorEntry> adapter_entries(const model::ModelSpec& spec, DType type) {
  std::vector<ckpt::TensorEntry> out;
  for (const hf::AdapterTensor& tensor : hf::adapter_tensors(spec))
    out.push_back(ckpt::entry_of({tensor.name(), type, tensor.shape()}));
  return out;
}

void write_adapter(ckpt::ShardedWriter& writer, const model::ModelSpec& spec, DType type,
                   const std::function<TensorView(const std::string&)>& source) {
  std::vector<std::byte> file;
  PromptTable prompt;
  for (const hf::AdapterTensor& tensor : hf::adapter_tensors(spec)) {
    file.resize(static_cast<std::size_t>(tensor.shape().elements()) * size_of(type));
    std::vector<std::vector<std::byte>> parts;  // converted, alive until gathered
    parts.reserve(tensor.tensor.parts.size());
    hf::gather_adapter(
        tensor, type,
        [&](const model::CanonicalTensor& part) -> const std::byte* {
          const TensorView view = tensor.computed ? prompt.view(spec, source) : source(part.name);
          auto& bytes = parts.emplace_back(static_cast<std::size_t>(view.elements()) * size_of(type));
          ckpt::convert_elements(static_cast<const std::byte*>(view.data), view.dtype, bytes.data(), type,
                                 view.elements());
          return bytes.data();
        },
        file.data());
    writer.write_bytes(tensor.name(), file);
  }
}

}  // namespace stoa::infer
