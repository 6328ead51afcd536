#include "ckpt/import_torchtitan.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ckpt/import_builder.h"
#include "ckpt/torch/distributed_checkpoint.h"

namespace stoa::ckpt {
namespace {

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

ShapeFile shape_file(const fs::path& directory, const ImportOptions& options) {
  if (options.config) return ShapeFile(*options.config);
  for (const char* name : {"params.json", "config.json"})
    if (fs::exists(directory / name)) return ShapeFile(directory / name);
  fail<DataError>(
      "'{}' is a torchtitan checkpoint, which does not hold its number of heads: give the model's "
      "params.json or config.json by --config FILE",
      directory.string());
}

// PyTorch's rotary positions turn neighbouring channels, Hugging Face's those half a head apart.
std::vector<ImportBuilder::Rows> halves(std::int64_t heads, std::int64_t head_dim) {
  std::vector<ImportBuilder::Rows> rows;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t odd = 0; odd < 2; ++odd)
      for (std::int64_t i = 0; i < head_dim / 2; ++i) rows.push_back({head * head_dim + 2 * i + odd, 1});
  return rows;
}

bool is_other_state(const std::string& name) {
  for (const char* start :
       {"optimizer", "lr_scheduler", "train_state", "dataloader", "freqs_cis", "model.freqs_cis"})
    if (name.starts_with(start)) return true;
  return false;
}

}  // namespace

ImportedModel import_torchtitan(const fs::path& directory, const ImportOptions& options) {
  ImportedModel out;
  out.kind = "torchtitan (torch.distributed.checkpoint)";
  out.source = std::make_unique<torch::DistributedCheckpoint>(directory);
  ShapeFile file = shape_file(directory, options);
  ImportBuilder builder(*out.source);
  const std::string prefix = builder.has("model.tok_embeddings.weight") ? "model." : "";
  const TensorEntry& words = out.source->entry(prefix + "tok_embeddings.weight");
  const TensorEntry& gate = out.source->entry(prefix + "layers.0.feed_forward.w1.weight");
  require<DataError>(words.shape.size() == 2 && gate.shape.size() == 2,
                     "'{}': '{}' is {} and '{}' is {}, and both are matrices", directory.string(), words.name,
                     words.shape_text(), gate.name, gate.shape_text());
  LlamaShape shape;
  while (out.source->find_entry(fmt::format("{}layers.{}.attention_norm.weight", prefix, shape.layers)))
    ++shape.layers;
  const std::int64_t padded = words.shape[0];
  shape.hidden = words.shape[1];
  shape.ffn = gate.shape[0];
  file.require_size("n_layers", "num_hidden_layers", shape.layers);
  file.require_size("dim", "hidden_size", shape.hidden);
  if (file.is_huggingface()) file.require_size("intermediate_size", "intermediate_size", shape.ffn);
  shape.vocabulary = options.vocabulary.value_or(padded);
  shape.heads = file.get<std::int64_t>("n_heads", "num_attention_heads", std::nullopt);
  shape.groups = file.get<std::int64_t>("n_kv_heads", "num_key_value_heads", shape.heads);
  require<DataError>(shape.heads > 0 && shape.groups > 0 && shape.heads % shape.groups == 0,
                     "'{}' says {} heads in {} groups", file.path().string(), shape.heads, shape.groups);
  shape.head_dim = file.get<std::int64_t>("head_dim", "head_dim", shape.hidden / shape.heads);
  require<DataError>(shape.head_dim > 0 && shape.head_dim % 2 == 0, "'{}': heads of {} channels",
                     file.path().string(), shape.head_dim);
  shape.norm_epsilon = file.get<double>("norm_eps", "rms_norm_eps", 1e-5);
  shape.rope_base = file.get<double>("rope_theta", "rope_theta", file.is_huggingface() ? 1e4 : 5e5);
  shape.positions = file.get<std::int64_t>("max_seq_len", "max_position_embeddings", 8192);
  shape.tied = !builder.has(prefix + "output.weight");

  const auto vocabulary = builder.vocabulary(shape.vocabulary, padded);
  builder.add("model.embed_tokens.weight", builder.whole(words.name, {padded, shape.hidden}), vocabulary);
  const std::int64_t queries = shape.heads * shape.head_dim, keys = shape.groups * shape.head_dim;
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    const std::string from = fmt::format("{}layers.{}.", prefix, i), to = fmt::format("model.layers.{}.", i);
    const auto part = [&](const char* name, std::vector<std::int64_t> size) {
      return builder.whole(from + name + ".weight", size);
    };
    builder.add(to + "input_layernorm.weight", part("attention_norm", {shape.hidden}));
    builder.add(to + "self_attn.q_proj.weight", part("attention.wq", {queries, shape.hidden}),
                halves(shape.heads, shape.head_dim));
    builder.add(to + "self_attn.k_proj.weight", part("attention.wk", {keys, shape.hidden}),
                halves(shape.groups, shape.head_dim));
    builder.add(to + "self_attn.v_proj.weight", part("attention.wv", {keys, shape.hidden}));
    builder.add(to + "self_attn.o_proj.weight", part("attention.wo", {shape.hidden, queries}));
    builder.add(to + "post_attention_layernorm.weight", part("ffn_norm", {shape.hidden}));
    builder.add(to + "mlp.gate_proj.weight", part("feed_forward.w1", {shape.ffn, shape.hidden}));
    builder.add(to + "mlp.up_proj.weight", part("feed_forward.w3", {shape.ffn, shape.hidden}));
    builder.add(to + "mlp.down_proj.weight", part("feed_forward.w2", {shape.hidden, shape.ffn}));
  }
  builder.add("model.norm.weight", builder.whole(prefix + "norm.weight", {shape.hidden}));
  if (!shape.tied)
    builder.add("lm_head.weight", builder.whole(prefix + "output.weight", {padded, shape.hidden}),
                vocabulary);
  out.tensors = builder.finish(is_other_state);

  if (file.is_huggingface()) {
    // It may say more than the shape above does, such as scaled positions.
    file.json()["vocab_size"] = shape.vocabulary;
    file.json()["tie_word_embeddings"] = shape.tied;
    out.config = file.json().dump(2) + "\n";
    return out;
  }
  require<DataError>(
      !file.json().value("use_scaled_rope", false),
      "'{}' asks for scaled rotary positions without saying how they are scaled: give the model's "
      "config.json by --config FILE",
      file.path().string());
  out.config = shape.config(out.tensors.front().entry.type);
  return out;
}

}  // namespace stoa::ckpt
