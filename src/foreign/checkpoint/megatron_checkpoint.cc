#include "foreign/checkpoint/megatron_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ckpt/convert.h"
#include "ckpt/torch/distributed_checkpoint.h"
#include "foreign/checkpoint/bucket_states.h"
#include "foreign/checkpoint/megatron_model.h"
#include "foreign/checkpoint/megatron_names.h"

namespace stoa::foreign {
namespace {

namespace hf = model::huggingface;
using ckpt::torch::Value, ckpt::torch::ValueKind;

std::optional<Value> member(const std::optional<Value>& value, std::string_view name) {
  if (!value) return std::nullopt;
  if (value->is(ValueKind::kDict)) return value->find(name);
  if (value->is(ValueKind::kObject)) return value->attribute(name);
  return std::nullopt;
}

// How the distributed optimizer cut its state: "dp_reshardable". In content_metadata of current versions, and
// with the state, which may be a chain of several.
std::string sharding_type(const Value& root) {
  constexpr std::string_view kWithTheState = "param_state_sharding_type";
  auto said = member(member(root, "content_metadata"), "distrib_optim_sharding_type");
  const auto optimizer = member(root, "optimizer");
  if (!said) said = member(optimizer, kWithTheState);
  if (!said && optimizer && optimizer->is(ValueKind::kDict))
    for (std::size_t i = 0; i < optimizer->size() && !said; ++i)
      said = member(optimizer->value(i), kWithTheState);
  return said && said->is(ValueKind::kString) ? std::string(said->text()) : "";
}

// Whether the optimizer's weights are the model's, as far as the rounding of 16 bits goes: some elements of
// each.
bool same_weights(const ckpt::TensorSource& master, const ckpt::TensorSource& weights) {
  constexpr std::int64_t kSample = 64;
  std::vector<std::byte> of_master, of_weights;
  std::vector<float> wide(kSample), narrow(kSample);
  for (const ckpt::TensorEntry* entry : master.entries()) {
    const ckpt::TensorEntry& other = weights.entry(entry->name);
    for (const std::int64_t middle : {std::int64_t{0}, entry->elements() / 2, entry->elements() - 1}) {
      const std::int64_t begin = std::clamp<std::int64_t>(
                             middle, 0, std::max<std::int64_t>(0, entry->elements() - kSample)),
                         count = std::min(kSample, entry->elements() - begin);
      ckpt::convert_elements(master.elements(*entry, begin, begin + count, of_master).data(), entry->dtype(),
                             reinterpret_cast<std::byte*>(wide.data()), DType::kF32, count);
      ckpt::convert_elements(weights.elements(other, begin, begin + count, of_weights).data(), other.dtype(),
                             reinterpret_cast<std::byte*>(narrow.data()), DType::kF32, count);
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        if (!(std::abs(wide[i] - narrow[i]) <= std::abs(narrow[i]) / 128 + 1e-7F)) return false;
    }
  }
  return true;
}

// Takes the state out of the buffers of the distributed optimizer. Empty: done; otherwise why it cannot be
// told which parameter lies where.
std::string assemble_buckets(ForeignCheckpoint& out, const fs::path& directory,
                             const model::ModelConfig& config,
                             const std::shared_ptr<const ckpt::TensorSource>& source, const Value& args) {
  const auto degree = [&](const char* name) { return std::max<std::int64_t>(1, int_of(args, name, 1)); };
  const RankLayout layout{degree("tensor_model_parallel_size"), degree("pipeline_model_parallel_size"),
                          degree("virtual_pipeline_model_parallel_size"),
                          int_of(args, "padded_vocab_size", config.vocab_size.value_or(1))};
  std::string why;
  for (const bool fused : {true, false}) {
    MegatronSources sources = torch_dist_sources(source, config.kind);
    why = add_buckets(sources, *source, config, layout, fused);
    if (why.empty()) why = take_fitting_state(out, directory, config, std::move(sources));
    if (why.empty()) return "";
  }
  return why;
}

}  // namespace

std::int64_t int_of(const Value& args, std::string_view name, std::int64_t otherwise) {
  const auto found = member(args, name);
  return found && found->is(ValueKind::kInt) ? found->integer() : otherwise;
}

std::optional<std::int64_t> counted(const ckpt::torch::TorchFile& file, const std::optional<Value>& value) {
  if (!value) return std::nullopt;
  double number = -1;
  if (value->is(ValueKind::kInt) || value->is(ValueKind::kFloat)) {
    number = value->number();
  } else if (value->is(ValueKind::kTensor) && value->tensor().elements() == 1 &&
             value->tensor().type->stored == ckpt::StorageType::kF32) {
    std::vector<std::byte> scratch;
    float element = 0;
    std::memcpy(&element, file.elements(value->tensor(), 0, 1, scratch).data(), sizeof element);
    number = static_cast<double>(element);
  }
  constexpr double kMost = 1e15;
  return number >= 0 && number < kMost ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

std::optional<std::int64_t> optimizer_step(const ckpt::torch::TorchFile& file,
                                           std::optional<Value> optimizer) {
  for (int depth = 0; depth < 4 && optimizer; ++depth) {
    if (const auto step = counted(file, member(member(optimizer, "state"), "common_step"))) return step;
    if (const auto states = member(optimizer, "state");
        states && states->is(ValueKind::kDict) && states->size() > 0)
      if (const auto step = counted(file, member(states->value(0), "step"))) return step;
    if (const auto groups = member(optimizer, "param_groups"); groups && groups->is(ValueKind::kList))
      for (std::size_t i = 0; i < groups->size(); ++i)
        if (const auto step = counted(file, member((*groups)[i], "step"))) return step;
    if (optimizer->is(ValueKind::kDict) && optimizer->size() > 0 && !member(optimizer, "optimizer") &&
        optimizer->value(0).is(ValueKind::kDict))
      optimizer = optimizer->value(0);
    else if (optimizer->is(ValueKind::kList) && optimizer->size() > 0)
      optimizer = (*optimizer)[0];
    else
      optimizer = member(optimizer, "optimizer");
  }
  return std::nullopt;
}

std::optional<AdamSettings> adam_settings(std::optional<Value> optimizer) {
  const auto number = [](const Value& group, const char* name) {
    const auto value = member(group, name);
    return value && (value->is(ValueKind::kFloat) || value->is(ValueKind::kInt)) ? value->number() : 0;
  };
  for (int depth = 0; depth < 4 && optimizer; ++depth) {
    std::optional<AdamSettings> out;
    if (const auto groups = member(optimizer, "param_groups"); groups && groups->is(ValueKind::kList))
      for (std::size_t i = 0; i < groups->size(); ++i) {
        const Value group = (*groups)[i];
        const auto betas = member(group, "betas");
        const bool pair =
            betas && (betas->is(ValueKind::kTuple) || betas->is(ValueKind::kList)) && betas->size() == 2;
        if (!pair || !(*betas)[0].is(ValueKind::kFloat) || !(*betas)[1].is(ValueKind::kFloat)) continue;
        const double decay = out ? out->weight_decay : 0;
        out = AdamSettings{number(group, "lr"), std::max(decay, number(group, "weight_decay")),
                           (*betas)[0].number(), (*betas)[1].number(), number(group, "eps")};
      }
    if (out) return out;
    if (const auto inner = member(optimizer, "optimizer"))
      optimizer = inner;
    else if (optimizer->is(ValueKind::kDict) && optimizer->size() > 0)
      optimizer = optimizer->value(0);
    else if (optimizer->is(ValueKind::kList) && optimizer->size() > 0)
      optimizer = (*optimizer)[0];
    else
      return std::nullopt;
  }
  return std::nullopt;
}

model::ModelKind megatron_kind(std::span<const ckpt::TensorSource* const> parts) {
  bool encoder = false, decoder = false, bert = false;
  for (const ckpt::TensorSource* part : parts)
    for (const ckpt::TensorEntry* entry : part->entries()) {
      const auto has = [&](std::string_view part_of_name) {
        return entry->name.find(part_of_name) != std::string::npos;
      };
      encoder = encoder || has("encoder.layers.");
      decoder = decoder || has("decoder.layers.");
      bert = bert || has("binary_head.") || has("tokentype_embeddings.") || has("lm_head.dense.");
    }
  if (encoder && decoder) return model::ModelKind::kT5;
  return bert ? model::ModelKind::kBert : model::ModelKind::kGpt;
}

MegatronSources torch_dist_sources(std::shared_ptr<const ckpt::TensorSource> source, model::ModelKind kind) {
  MegatronSources out{
      {source}, MegatronTensors(kind), MegatronTensors(kind), MegatronTensors(kind), MegatronTensors(kind)};
  out.weights.add(*source);
  for (const std::string_view chain : {"", "chained_0.", "chained_1."}) {
    const auto state = [&](std::string_view key) { return fmt::format("{}optimizer.state.{}.", chain, key); };
    out.master.add(*source, state("fp32_param"));
    out.master.add(*source, state("param"));
    out.exp_avg.add(*source, state("exp_avg"));
    out.exp_avg_sq.add(*source, state("exp_avg_sq"));
  }
  return out;
}

void assemble(ForeignCheckpoint& out, const fs::path& directory, const model::ModelConfig& config,
              MegatronSources sources) {
  out.description.family = &megatron_family();
  out.description.config = config;
  const auto tensors = hf::tensors(model::resolve_model(config), megatron_family());
  const bool gated = model::is_gated(config.activation);
  const std::string name = fmt::format("'{}'", directory.string());
  const auto view = [&](const MegatronTensors& from, const std::vector<hf::Tensor>& wanted,
                        const std::string& what) {
    return std::make_unique<ckpt::ViewedSource>(directory, from.joined(wanted, gated, what), sources.alive);
  };
  if (config.kind != model::ModelKind::kGpt)  // their names in Megatron-LM's own models
    for (MegatronTensors* set : {&sources.weights, &sources.master, &sources.exp_avg, &sources.exp_avg_sq})
      for (const char* end : {"weight", "bias"})
        set->rename(fmt::format("lm_head.{}", end), fmt::format("output_layer.{}", end));
  if (config.ties_head())  // the copy of a last pipeline stage
    for (MegatronTensors* set : {&sources.weights, &sources.master, &sources.exp_avg, &sources.exp_avg_sq})
      set->erase("output_layer.weight");
  out.weights = view(sources.weights, tensors, name);
  if (sources.exp_avg.empty()) return;
  require<DataError>(!sources.exp_avg_sq.empty(), "{} holds first moments of Adam without second ones", name);
  // The bias of the choice of experts is not trained by the optimizer.
  std::vector<hf::Tensor> trained = tensors;
  std::erase_if(trained, [](const hf::Tensor& tensor) { return tensor.name.ends_with(".expert_bias"); });
  OptimizerState state;
  state.exp_avg = view(sources.exp_avg, trained, "the optimizer in " + name);
  state.exp_avg_sq = view(sources.exp_avg_sq, trained, "the optimizer in " + name);
  // Without fp32 weights of its own the optimizer works on the model's.
  if (!sources.master.empty()) state.master = view(sources.master, trained, "the optimizer in " + name);
  out.state = std::move(state);
}

std::string take_fitting_state(ForeignCheckpoint& out, const fs::path& directory,
                               const model::ModelConfig& config, MegatronSources sources) {
  ForeignCheckpoint tried;
  try {
    assemble(tried, directory, config, std::move(sources));
  } catch (const DataError& error) {
    return error.what();
  }
  if (!tried.state || !tried.state->master || !same_weights(*tried.state->master, *tried.weights))
    return "its weights are not those of the model where they were looked for";
  out.state = std::move(tried.state);
  return "";
}

void read_counters(ForeignCheckpoint& out, const ckpt::torch::TorchFile& file) {
  if (!out.state) return;
  OptimizerState& state = *out.state;
  const std::optional<Value> root = file.root(), args = member(root, "args");
  const auto count = [&](const std::optional<Value>& in, const char* name) {
    return counted(file, member(in, name)).value_or(0);
  };
  // "global_step" and the data module's samples: Lightning's words, of NeMo 2.
  state.iteration =
      std::max({count(root, "iteration"), count(args, "iteration"), count(root, "global_step")});
  state.updates = optimizer_step(file, member(root, "optimizer")).value_or(state.iteration);
  state.adam = adam_settings(member(root, "optimizer"));
  state.samples = count(args, "consumed_train_samples");
  if (state.samples == 0) state.samples = count(member(root, "opt_param_scheduler"), "num_steps");
  for (const char* data : {"PreTrainingDataModule", "MockDataModule", "FineTuningDataModule"})
    if (state.samples == 0) state.samples = count(member(root, data), "consumed_samples");
  if (state.samples == 0)
    state.samples = state.iteration * std::max<std::int64_t>(1, count(args, "global_batch_size"));
}

ForeignCheckpoint open_megatron(const fs::path& directory, const ForeignOptions& options) {
  ForeignCheckpoint out;
  out.kind = "Megatron-Core, torch_dist";
  const auto source = std::make_shared<ckpt::torch::DistributedCheckpoint>(directory);
  const ckpt::torch::TorchFile common(directory / "common.pt");
  const auto args = member(common.root(), "args");
  require<DataError>(args.has_value(), "'{}' holds no args: what the model is cannot be read from it",
                     common.source());
  const model::ModelKind kind = megatron_kind(std::vector<const ckpt::TensorSource*>{source.get()});
  MegatronModel model = model_of_megatron(*args, kind, options.vocabulary, common.source());
  out.notes = std::move(model.notes);
  assemble(out, directory, model.config, torch_dist_sources(source, kind));
  const std::string why_no_buckets = !out.state && holds_buckets(*source)
                                         ? assemble_buckets(out, directory, model.config, source, *args)
                                         : "";
  read_counters(out, common);
  const std::string type = sharding_type(common.root());
  if (!out.state)
    for (const std::string& item : source->other_items())
      if (item.find("optimizer") != std::string::npos && out.why_no_state.empty())
        out.why_no_state = fmt::format(
            "the distributed optimizer's state is in the form {}, which depends on the layout of the ranks "
            "that wrote it ('{}'){}: load the checkpoint in Megatron-LM and save it with "
            "--dist-ckpt-optim-fully-reshardable; the weights are read as they are",
            type.empty() ? "of its buffers" : "'" + type + "'", item,
            why_no_buckets.empty() ? "" : ", and " + why_no_buckets);
  return out;
}

}  // namespace stoa::foreign
