#include "foreign/checkpoint/torch_dist_writing.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/torch/distributed_writer.h"
#include "foreign/checkpoint/megatron_names.h"
#include "foreign/checkpoint/rearranged_source.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::foreign {
namespace {

namespace hf = model::huggingface;
using ckpt::TensorEntry, ckpt::TensorSource;
using ckpt::torch::PickleWriter, ckpt::torch::WrittenPart, ckpt::torch::WrittenTensor;

// A name of the family taken apart: "decoder.layers." 3 ".mlp.experts." 5 ".linear_fc1.weight".
struct TensorPlace {
  std::string stack, rest;  // of a layer: "decoder.layers.", "mlp.linear_fc1.weight"
  std::int64_t layer = -1, expert = -1;
};

// "5.linear_fc1.weight": what follows the number and its dot.
std::string after_number(std::string_view text, std::int64_t& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return std::string(text.substr(static_cast<std::size_t>(read.ptr - text.data()) + 1));
}

TensorPlace place_of(const std::string& name) {
  TensorPlace out{"", name};
  for (const char* stack : {"decoder.layers.", "encoder.layers."}) {
    if (!name.starts_with(stack)) continue;
    out.stack = stack;
    out.rest = after_number(std::string_view(name).substr(out.stack.size()), out.layer);
  }
  constexpr std::string_view kExperts = "mlp.experts.";
  if (out.layer >= 0 && out.rest.starts_with(kExperts)) {
    out.rest =
        "mlp.experts.experts." + after_number(std::string_view(out.rest).substr(kExperts.size()), out.expert);
  }
  return out;
}

// What an encoder-decoder has under two names, since two of its modules hold it.
std::string second_name(const std::string& name, const model::ModelConfig& c) {
  if (c.kind != model::ModelKind::kT5) return "";
  if (name == "embedding.position_embeddings.weight") return "position_embeddings.weight";
  return name.starts_with("output_layer.") ? "lm_head." + name : "";
}

// The names in checkpoints. Transformer Engine's layers hold the norm before them, and Megatron-Core's own
// say the same of every norm, so that some have two names.
std::vector<std::string> stored_names(const std::string& rest, bool latent, bool experts) {
  constexpr std::pair<std::string_view, std::string_view> kFused[] = {
      {"input_layernorm.", "self_attention.linear_qkv.layer_norm_"},
      {"pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_"},
      {"self_attention.q_layernorm.", "self_attention.linear_q_up_proj.layer_norm_"},
      {"self_attention.kv_layernorm.", "self_attention.linear_kv_up_proj.layer_norm_"}};
  for (const auto& [own, fused] : kFused) {
    if (!rest.starts_with(own)) continue;
    if (!latent && rest.starts_with("self_attention.")) break;  // a norm of the queries of a head
    const std::string other = std::string(fused) + rest.substr(own.size());
    if (latent || (experts && rest.starts_with("pre_mlp_"))) return {rest, other};
    return {other};
  }
  return {rest};
}

// The tensors of a checkpoint: layers, and experts in them, stacked.
class Stacks {
 public:
  explicit Stacks(const model::ModelSpec& spec) : spec_(spec) {
    const model::ModelConfig& c = spec.config;
    for (std::int64_t layer = 1; layer < c.num_layers; ++layer)
      alike_ = alike_ && c.moe.has_experts(layer) == c.moe.has_experts(0);
  }

  bool alike() const { return alike_; }

  // `prefix`: "optimizer.state.exp_avg.", or what stands before the names of weights.
  std::vector<WrittenTensor> of(const std::vector<hf::Tensor>& tensors, const TensorSource& source,
                                const std::string& prefix, ckpt::StorageType type) const {
    const model::ModelConfig& c = spec_.config;
    std::map<std::string, WrittenTensor> out;
    for (const hf::Tensor& tensor : tensors) {
      const TensorEntry* entry = source.find_entry(tensor.name);
      if (!entry) continue;  // without a state in the optimizer
      const TensorPlace place = place_of(tensor.name);
      const bool stacked = alike_ && place.layer >= 0;
      std::string stem = prefix + place.stack;
      if (place.layer >= 0 && !stacked) stem += std::to_string(place.layer) + ".";
      const bool experts =
          c.kind == model::ModelKind::kGpt && place.layer >= 0 && c.moe.has_experts(place.layer);
      WrittenPart part{{}, {}, &source, entry, 0};
      std::vector<std::int64_t> shape;
      if (stacked) {
        shape.push_back(layers(place.stack));
        part.offsets.push_back(place.layer);
        part.sizes.push_back(1);
      }
      if (place.expert >= 0) {
        shape.push_back(*c.moe.num_moe_experts);
        part.offsets.push_back(place.expert);
        part.sizes.push_back(1);
      }
      for (const std::int64_t size : entry->shape) {
        shape.push_back(size);
        part.offsets.push_back(0);
        part.sizes.push_back(size);
      }
      auto names = stored_names(place.rest, c.latent.multi_latent_attention, experts);
      if (const std::string second = second_name(place.rest, c); !second.empty()) names.push_back(second);
      for (const std::string& rest : names) {
        WrittenTensor& to = out[stem + rest];
        to.name = stem + rest;
        // A router's bias of the choice is fp32 whatever the weights are.
        to.type = rest.ends_with(".expert_bias") ? ckpt::StorageType::kF32 : type;
        to.shape = shape;
        to.parts.push_back(part);
      }
    }
    std::vector<WrittenTensor> list;
    for (auto& [key, tensor] : out) list.push_back(std::move(tensor));
    return list;
  }

  // What Transformer Engine's layers save besides, which is nothing without 8-bit weights.
  std::vector<std::string> extra_states(const std::string& prefix) const {
    const model::ModelConfig& c = spec_.config;
    const bool pairs = c.kind == model::ModelKind::kT5, encoder = c.kind == model::ModelKind::kBert;
    std::vector<std::string> out;
    if (pairs || encoder) out.emplace_back("output_layer._extra_state/shard_0_1");
    if (pairs) out.emplace_back("lm_head.output_layer._extra_state/shard_0_1");
    for (const char* stack : {"decoder.layers.", "encoder.layers."}) {
      if (!pairs && encoder != (stack[0] == 'e')) continue;
      out.push_back(fmt::format("{}coder.final_layernorm._extra_state/shard_0_1", std::string(stack, 2)));
      for (std::int64_t layer = 0; layer < layers(stack); ++layer)
        for (const std::string& module : modules(c, stack[0] == 'd' && pairs, layer)) {
          const std::string name = alike_ ? fmt::format("{}{}._extra_state/shard_", stack, module)
                                          : fmt::format("{}{}.{}._extra_state/shard_", stack, layer, module);
          if (module.find(".experts.") == module.npos) {
            out.push_back(alike_ ? fmt::format("{}{}_{}", name, layer, layers(stack)) : name + "0_1");
            continue;
          }
          for (std::int64_t expert = 0; expert < *c.moe.num_moe_experts; ++expert)
            out.push_back(alike_ ? fmt::format("{}{}.{}_{}.{}", name, layer, expert, layers(stack),
                                               *c.moe.num_moe_experts)
                                 : fmt::format("{}{}_{}", name, expert, *c.moe.num_moe_experts));
        }
    }
    for (std::string& name : out) name.insert(0, prefix);
    return out;
  }

 private:
  std::int64_t layers(std::string_view stack) const {
    const model::ModelConfig& c = spec_.config;
    if (c.kind != model::ModelKind::kT5) return c.num_layers;
    return stack.starts_with("encoder") ? c.encoder_layers() : c.num_layers - c.encoder_layers();
  }
  static std::vector<std::string> modules(const model::ModelConfig& c, bool cross, std::int64_t layer) {
    std::vector<std::string> out{"self_attention.core_attention", "self_attention.linear_proj"};
    if (c.latent.multi_latent_attention)
      out.insert(out.end(), {"self_attention.linear_q_proj", "self_attention.linear_q_down_proj",
                             "self_attention.linear_q_up_proj", "self_attention.linear_kv_down_proj",
                             "self_attention.linear_kv_up_proj"});
    else
      out.emplace_back("self_attention.linear_qkv");
    if (cross)
      out.insert(out.end(), {"cross_attention.core_attention", "cross_attention.linear_q",
                             "cross_attention.linear_kv", "cross_attention.linear_proj"});
    if (c.kind == model::ModelKind::kGpt && c.moe.has_experts(layer)) {
      out.insert(out.end(), {"mlp.experts.experts.linear_fc1", "mlp.experts.experts.linear_fc2"});
      if (c.moe.moe_shared_expert_intermediate_size)
        out.insert(out.end(), {"mlp.shared_experts.linear_fc1", "mlp.shared_experts.linear_fc2"});
    } else {
      out.insert(out.end(), {"mlp.linear_fc1", "mlp.linear_fc2"});
    }
    return out;
  }

  const model::ModelSpec& spec_;
  bool alike_ = true;
};

// Which optimizer of Megatron's: its parameters are those of experts on several ranks, and some do not decay.
struct OptimizerPart {
  bool experts = false, undecayed = true;
};

// param_groups of Megatron's optimizers, told apart by four keys: vectors and biases do not decay. Megatron
// loads no group that it does not have.
void write_groups(PickleWriter& out, const CanonicalState& state, OptimizerPart part) {
  out.text("param_groups").begin_list();
  for (const double decays : {1.0, 0.0}) {
    if (decays == 0 && !part.undecayed) continue;
    out.begin_dict();
    out.text("wd_mult").real(decays).text("lr_mult").real(1).text("is_expert_parallel").boolean(part.experts);
    out.text("is_decoupled_lr").boolean(false).text("default_config").boolean(true);
    out.text("max_lr")
        .real(state.adam.learning_rate)
        .text("min_lr")
        .none()
        .text("lr")
        .real(state.adam.learning_rate);
    out.text("betas").begin_tuple().real(state.adam.beta1).real(state.adam.beta2).end_tuple();
    out.text("eps").real(state.adam.epsilon).text("weight_decay").real(decays * state.adam.weight_decay);
    out.text("step").integer(state.counters.updates);
    for (const char* off : {"amsgrad", "maximize", "capturable", "differentiable"})
      out.text(off).boolean(false);
    for (const char* open : {"foreach", "fused"}) out.text(open).none();
    out.text("decoupled_weight_decay").boolean(true).text("bias_correction").boolean(true);
    out.end_dict();
  }
  out.end_list();
}

// One optimizer in the words of all of Megatron's: of fp32, of 16 bits with fp32 masters, and the distributed
// one.
void write_optimizer(PickleWriter& out, const CanonicalState& state, OptimizerPart part,
                     std::string_view sharding_type) {
  const auto inner = [&] {
    write_groups(out, state, part);
    out.text("state").begin_dict().text("common_step").integer(state.counters.updates).end_dict();
  };
  out.begin_dict();
  inner();
  out.text("optimizer").begin_dict();
  inner();
  out.end_dict();
  out.text("param_state_sharding_type").text(sharding_type);
  out.end_dict();
}

}  // namespace

bool layers_are_alike(const model::ModelSpec& spec) { return Stacks(spec).alike(); }

void require_expert_ranks(const model::ModelSpec& spec, std::int64_t ranks) {
  const std::int64_t experts =
      spec.config.kind == model::ModelKind::kGpt ? spec.config.moe.num_moe_experts.value_or(1) : 1;
  require<ConfigError>(ranks >= 1 && experts % ranks == 0,
                       "--expert-model-parallel-size {}: a number that divides the model's {} {} is expected",
                       ranks, experts, experts == 1 ? "expert" : "experts");
}

void write_megatron_optimizer(PickleWriter& out, const model::ModelSpec& spec, const CanonicalState& state,
                              std::int64_t expert_ranks, std::string_view sharding_type) {
  if (expert_ranks == 1) return write_optimizer(out, state, {}, sharding_type);
  out.begin_dict();
  out.integer(0);
  write_optimizer(out, state, {}, sharding_type);
  out.integer(1);
  write_optimizer(out, state, {.experts = true, .undecayed = spec.config.bias == model::BiasKind::kAll},
                  sharding_type);
  out.end_dict();
}

MegatronExport write_torch_dist(const model::ModelSpec& spec, const CanonicalState& state,
                                const MegatronForm& form, const std::string& prefix,
                                const std::string& common, const fs::path& folder,
                                const ckpt::ExportProgress& progress) {
  const Stacks stacks(spec);
  const auto tensors = hf::tensors(spec, megatron_family());
  std::vector<std::shared_ptr<const TensorSource>> alive;
  std::vector<WrittenTensor> written;
  const auto add = [&](const std::shared_ptr<const TensorSource>& canonical, const std::string& state_name,
                       ckpt::StorageType storage, bool trained) {
    if (!canonical) return;
    alive.push_back(rearranged(canonical, spec, hf::stoa_family(), megatron_family()));
    for (const hf::Tensor& tensor : tensors)
      require<DataError>(
          alive.back()->find_entry(tensor.name) || (trained && tensor.name.ends_with(".expert_bias")),
          "'{}' holds no tensor for Megatron's '{}'", canonical->directory().string(), tensor.name);
    for (WrittenTensor& tensor : stacks.of(tensors, *alive.back(), state_name + prefix, storage))
      if (!trained || !tensor.name.ends_with(".expert_bias")) written.push_back(std::move(tensor));
  };
  add(state.weights, "", ckpt::storage_type(form.type), false);
  constexpr auto kWide = ckpt::StorageType::kF32;
  // Under both names: of the distributed optimizer, and of the one with masters of its own.
  if (state.exp_avg) {
    const auto& master = state.master ? state.master : state.weights;
    add(master, "optimizer.state.param.", kWide, true);
    if (form.type != DType::kF32) add(master, "optimizer.state.fp32_param.", kWide, true);
  }
  add(state.exp_avg, "optimizer.state.exp_avg.", kWide, true);
  add(state.exp_avg_sq, "optimizer.state.exp_avg_sq.", kWide, true);

  MegatronExport out;
  out.tensors = static_cast<std::int64_t>(written.size());
  ckpt::torch::write_distributed(folder, written, stacks.extra_states(prefix), form.max_file_bytes,
                                 [&](std::uint64_t done, std::uint64_t total) {
                                   out.bytes = total;
                                   if (progress) progress(done, total);
                                 });
  write_text(folder / "common.pt", common);
  write_text(
      folder / "metadata.json",
      R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1})");
  return out;
}

}  // namespace stoa::foreign
