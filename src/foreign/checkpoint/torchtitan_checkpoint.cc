#include "foreign/checkpoint/torchtitan_checkpoint.h"

#include <fmt/ranges.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/torch/distributed_checkpoint.h"
#include "ckpt/viewed_source.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::foreign {
namespace {

namespace hf = model::huggingface;

// A params.json of Meta's names or a config.json of Hugging Face's.
class ShapeFile {
 public:
  explicit ShapeFile(const fs::path& path)
      : path_(path),
        json_(nlohmann::ordered_json::parse(read_text(path), nullptr, /*allow_exceptions=*/false)) {
    require<DataError>(json_.is_object(), "'{}' is not a JSON object", path.string());
  }
  // DataError where the file and the checkpoint have different sizes.
  void require_size(const char* meta, const char* huggingface, std::int64_t found) const {
    const auto said = get<std::int64_t>(meta, huggingface, found);
    require<DataError>(said == found, "'{}' says {} = {}, and the checkpoint has {}", path_.string(),
                       is_huggingface() ? huggingface : meta, said, found);
  }
  bool is_huggingface() const { return json_.contains("model_type"); }
  nlohmann::ordered_json& json() { return json_; }
  const fs::path& path() const { return path_; }

  template <class T>
  T get(const char* meta, const char* huggingface, std::optional<T> otherwise) const {
    for (const char* key : {meta, huggingface})
      if (json_.contains(key) && !json_[key].is_null()) {
        require<DataError>(json_[key].is_number(), "'{}': '{}' is not a number", path_.string(), key);
        return json_[key].get<T>();
      }
    require<DataError>(otherwise.has_value(), "'{}' has neither '{}' nor '{}'", path_.string(), meta,
                       huggingface);
    return *otherwise;
  }

 private:
  const fs::path path_;
  nlohmann::ordered_json json_;
};

ShapeFile shape_file(const fs::path& directory, const ForeignOptions& options) {
  if (options.config) return ShapeFile(*options.config);
  for (const char* name : {"params.json", "config.json"})
    if (fs::exists(directory / name)) return ShapeFile(directory / name);
  fail<DataError>(
      "'{}' is a torchtitan checkpoint, which does not hold its number of heads: give the model's "
      "params.json or config.json by --config FILE",
      directory.string());
}

// torchtitan's names for those of the family llama.
constexpr std::pair<std::string_view, std::string_view> kTorchtitanNames[] = {
    {"model.embed_tokens.", "tok_embeddings."},
    {"self_attn.q_proj.", "attention.wq."},
    {"self_attn.k_proj.", "attention.wk."},
    {"self_attn.v_proj.", "attention.wv."},
    {"self_attn.o_proj.", "attention.wo."},
    {"mlp.gate_proj.", "feed_forward.w1."},
    {"mlp.down_proj.", "feed_forward.w2."},
    {"mlp.up_proj.", "feed_forward.w3."},
    {"input_layernorm.", "attention_norm."},
    {"post_attention_layernorm.", "ffn_norm."},
    {"model.norm.", "norm."},
    {"lm_head.", "output."}};

std::string torchtitan_name(std::string name) {
  for (const auto& [from, to] : kTorchtitanNames)
    if (const auto at = name.find(from); at != name.npos && (at == 0 || name[at - 1] == '.')) {
      name.replace(at, from.size(), to);
      break;
    }
  constexpr std::string_view kStem = "model.layers.";
  return name.starts_with(kStem) ? name.substr(6) : name;
}

// Which tensors of the checkpoint make up those of the model.
class TorchtitanView {
 public:
  TorchtitanView(std::shared_ptr<const ckpt::TensorSource> source, const model::ModelConfig& config,
                 std::int64_t padded)
      : source_(std::move(source)), config_(config), padded_(padded) {}

  // `stored`: the name under which the checkpoint has a tensor.
  std::unique_ptr<ckpt::TensorSource> of(const std::vector<hf::Tensor>& wanted,
                                         const std::function<std::string(const std::string&)>& stored) {
    std::vector<ckpt::ViewedTensor> out;
    for (const hf::Tensor& tensor : wanted) {
      const std::string name = stored(torchtitan_name(tensor.name));
      const bool vocabulary = tensor.name == "model.embed_tokens.weight" || tensor.name == "lm_head.weight";
      std::vector<std::int64_t> shape, in_file;
      for (int d = 0; d < tensor.shape.rank(); ++d) shape.push_back(tensor.shape[d]);
      in_file = shape;
      if (vocabulary) in_file[0] = padded_;
      const ckpt::TensorEntry* entry = source_->find_entry(name);
      if (!entry || entry->shape != in_file) {
        problems_.insert(entry ? fmt::format("wrong shape: {} is {}, expected [{}]", name,
                                             entry->shape_text(), fmt::join(in_file, ", "))
                               : fmt::format("missing: {} [{}]", name, fmt::join(in_file, ", ")));
        continue;
      }
      used_.insert(name);
      ckpt::ViewedTensor view;
      view.entry.name = tensor.name;
      view.entry.type = entry->type;
      view.entry.shape = shape;
      const bool turned = tensor.name.ends_with("q_proj.weight") || tensor.name.ends_with("k_proj.weight");
      if (turned)
        add_halves(view, *entry);
      else
        view.parts.push_back({source_.get(), entry, 1, view.entry.elements(), 0, 0, 0, 0});
      out.push_back(std::move(view));
    }
    return std::make_unique<ckpt::ViewedSource>(
        source_->directory(), problems_.empty() ? std::move(out) : std::vector<ckpt::ViewedTensor>(),
        std::vector<std::shared_ptr<const ckpt::TensorSource>>{source_});
  }

  // DataError: something was missing, of another shape, or is left over that is no state of a training.
  void finish() {
    for (const ckpt::TensorEntry* entry : source_->entries())
      if (!used_.contains(entry->name) && !is_other_state(entry->name))
        problems_.insert(fmt::format("unknown: {} {}", entry->name, entry->shape_text()));
    require<DataError>(problems_.empty(),
                       "the tensors of '{}' are not those of the model that it describes:\n  {}",
                       source_->directory().string(), fmt::join(problems_, "\n  "));
  }

 private:
  static bool is_other_state(const std::string& name) {
    for (const char* start :
         {"optimizer", "lr_scheduler", "train_state", "dataloader", "freqs_cis", "model.freqs_cis"})
      if (name.starts_with(start)) return true;
    return false;
  }

  // PyTorch's rotary positions turn neighbouring channels, Hugging Face's those half a head apart.
  void add_halves(ckpt::ViewedTensor& view, const ckpt::TensorEntry& entry) const {
    const std::int64_t head = config_.head_size(), width = view.entry.shape[1];
    for (std::int64_t first = 0; first < view.entry.shape[0]; first += head)
      for (std::int64_t odd = 0; odd < 2; ++odd)
        view.parts.push_back({source_.get(), &entry, head / 2, width, (first + odd) * width, 2 * width,
                              (first + odd * head / 2) * width, width});
  }

  const std::shared_ptr<const ckpt::TensorSource> source_;
  const model::ModelConfig& config_;
  const std::int64_t padded_;
  std::set<std::string> used_, problems_;
};

// config.json of the family llama.
std::string llama_config(ShapeFile& file, const ckpt::TensorSource& source, const std::string& prefix,
                         const ForeignOptions& options) {
  const std::string directory = source.directory().string();
  const ckpt::TensorEntry& words = source.entry(prefix + "tok_embeddings.weight");
  const ckpt::TensorEntry& gate = source.entry(prefix + "layers.0.feed_forward.w1.weight");
  require<DataError>(words.shape.size() == 2 && gate.shape.size() == 2,
                     "'{}': '{}' is {} and '{}' is {}, and both are matrices", directory, words.name,
                     words.shape_text(), gate.name, gate.shape_text());
  std::int64_t layers = 0;
  while (source.find_entry(fmt::format("{}layers.{}.attention_norm.weight", prefix, layers))) ++layers;
  const std::int64_t hidden = words.shape[1], ffn = gate.shape[0];
  file.require_size("n_layers", "num_hidden_layers", layers);
  file.require_size("dim", "hidden_size", hidden);
  if (file.is_huggingface()) file.require_size("intermediate_size", "intermediate_size", ffn);
  const std::int64_t vocabulary = options.vocabulary.value_or(words.shape[0]);
  require<DataError>(0 < vocabulary && vocabulary <= words.shape[0],
                     "'{}': the vocabulary is {}, and the embedding has {} rows", directory, vocabulary,
                     words.shape[0]);
  const bool tied = !source.find_entry(prefix + "output.weight");
  if (file.is_huggingface()) {
    // It may say more than the keys below do, such as scaled positions.
    file.json()["vocab_size"] = vocabulary;
    file.json()["tie_word_embeddings"] = tied;
    return file.json().dump(2);
  }
  require<DataError>(
      !file.json().value("use_scaled_rope", false),
      "'{}' asks for scaled rotary positions without saying how they are scaled: give the model's "
      "config.json by --config FILE",
      file.path().string());
  const auto heads = file.get<std::int64_t>("n_heads", "num_attention_heads", std::nullopt),
             groups = file.get<std::int64_t>("n_kv_heads", "num_key_value_heads", heads);
  require<DataError>(heads > 0 && groups > 0 && heads % groups == 0, "'{}' says {} heads in {} groups",
                     file.path().string(), heads, groups);
  const auto head = file.get<std::int64_t>("head_dim", "head_dim", hidden / heads);
  require<DataError>(head > 0 && head % 2 == 0, "'{}': heads of {} channels", file.path().string(), head);
  const double base = file.get<double>("rope_theta", "rope_theta", 5e5);
  return nlohmann::ordered_json{
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", vocabulary},
      {"hidden_size", hidden},
      {"intermediate_size", ffn},
      {"num_hidden_layers", layers},
      {"num_attention_heads", heads},
      {"num_key_value_heads", groups},
      {"head_dim", head},
      {"hidden_act", "silu"},
      {"max_position_embeddings", file.get<std::int64_t>("max_seq_len", "max_position_embeddings", 8192)},
      {"rms_norm_eps", file.get<double>("norm_eps", "rms_norm_eps", 1e-5)},
      {"rope_theta", base},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", base}}},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", tied}}
      .dump(2);
}

// Adam's t: a tensor of one float32 for each parameter, all alike.
std::int64_t updates_of(const ckpt::TensorSource& source, const std::string& name) {
  const ckpt::TensorEntry* entry = source.find_entry(name);
  if (!entry || entry->elements() != 1 || entry->type != ckpt::StorageType::kF32) return 0;
  std::vector<std::byte> scratch;
  float step = 0;
  std::memcpy(&step, source.all_elements(*entry, scratch).data(), sizeof step);
  require<DataError>(step >= 0 && step < 1e9f, "'{}': '{}' is {}", source.directory().string(), name, step);
  return static_cast<std::int64_t>(step);
}

}  // namespace

ForeignCheckpoint open_torchtitan(const fs::path& directory, const ForeignOptions& options) {
  ForeignCheckpoint out;
  out.kind = "torchtitan (torch.distributed.checkpoint)";
  const auto source = std::make_shared<const ckpt::torch::DistributedCheckpoint>(directory);
  ShapeFile file = shape_file(directory, options);
  const std::string prefix = source->find_entry("model.tok_embeddings.weight") ? "model." : "";
  out.description = hf::read_config(llama_config(file, *source, prefix, options));
  TorchtitanView view(source, out.description.config,
                      source->entry(prefix + "tok_embeddings.weight").shape[0]);
  const auto wanted = hf::tensors(model::resolve_model(out.description.config), *out.description.family);
  out.weights = view.of(wanted, [&](const std::string& name) { return prefix + name; });
  const auto stored = [](const char* key) {
    return [key](const std::string& name) { return fmt::format("optimizer.state.{}.{}", name, key); };
  };
  if (source->find_entry(stored("exp_avg")("tok_embeddings.weight"))) {
    OptimizerState state;
    state.exp_avg = view.of(wanted, stored("exp_avg"));
    state.exp_avg_sq = view.of(wanted, stored("exp_avg_sq"));
    state.updates = state.iteration = updates_of(*source, stored("step")("tok_embeddings.weight"));
    out.state = std::move(state);
  }
  view.finish();
  return out;
}

}  // namespace stoa::foreign
