#include "ckpt/import_builder.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace stoa::ckpt {
namespace {

std::int64_t product_of(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const auto d : shape) n *= d;
  return n;
}

std::string torch_type_name(StorageType type) {
  switch (type) {
    case StorageType::kBF16:
      return "bfloat16";
    case StorageType::kF16:
      return "float16";
    default:
      return "float32";
  }
}

}  // namespace

std::string LlamaShape::config(StorageType type) const {
  const char* model = qk_norm ? "qwen3" : qkv_bias ? "qwen2" : "llama";
  const char* architecture = qk_norm    ? "Qwen3ForCausalLM"
                             : qkv_bias ? "Qwen2ForCausalLM"
                                        : "LlamaForCausalLM";
  nlohmann::ordered_json json{{"architectures", {architecture}},
                              {"model_type", model},
                              {"dtype", torch_type_name(type)},
                              {"torch_dtype", torch_type_name(type)},
                              {"vocab_size", vocabulary},
                              {"hidden_size", hidden},
                              {"intermediate_size", ffn},
                              {"num_hidden_layers", layers},
                              {"num_attention_heads", heads},
                              {"num_key_value_heads", groups},
                              {"head_dim", head_dim},
                              {"hidden_act", "silu"},
                              {"max_position_embeddings", positions},
                              {"rms_norm_eps", norm_epsilon},
                              {"rope_theta", rope_base},
                              {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", rope_base}}},
                              {"tie_word_embeddings", tied}};
  if (!qkv_bias && !qk_norm) json["attention_bias"] = json["mlp_bias"] = false;
  if (qk_norm) json["attention_bias"] = false;
  return json.dump(2) + "\n";
}

SourcePart ImportBuilder::part(const std::string& name, std::int64_t layer, std::vector<std::int64_t> whole,
                               const std::vector<std::int64_t>& shape) {
  SourcePart out{source_.find_entry(name), layer * product_of(shape), shape};
  if (!out.tensor) {
    problems_.insert(fmt::format("missing: {} [{}]", name, fmt::join(whole, ", ")));
    return out;
  }
  used_.insert(name);
  if (out.tensor->shape != whole)
    problems_.insert(fmt::format("wrong shape: {} is {}, expected [{}]", name, out.tensor->shape_text(),
                                 fmt::join(whole, ", ")));
  return out;
}

SourcePart ImportBuilder::whole(const std::string& name, const std::vector<std::int64_t>& shape) {
  return part(name, 0, shape, shape);
}

SourcePart ImportBuilder::layer(const std::string& prefix, const std::string& suffix, std::int64_t layer,
                                std::int64_t layers, const std::vector<std::int64_t>& shape) {
  if (!has(prefix + suffix)) return part(fmt::format("{}{}.{}", prefix, layer, suffix), 0, shape, shape);
  std::vector<std::int64_t> stacked{layers};
  stacked.insert(stacked.end(), shape.begin(), shape.end());
  return part(prefix + suffix, layer, stacked, shape);
}

bool ImportBuilder::has_layer(const std::string& prefix, const std::string& suffix) const {
  return has(prefix + suffix) || has(prefix + "0." + suffix);
}

std::vector<ImportBuilder::Rows> ImportBuilder::vocabulary(std::int64_t entries, std::int64_t rows) const {
  require<DataError>(0 < entries && entries <= rows,
                     "'{}': the vocabulary is {}, and the embedding has {} rows",
                     source_.directory().string(), entries, rows);
  return {{0, entries}};
}

void ImportBuilder::add(const std::string& name, const SourcePart& part, const std::vector<Rows>& rows) {
  if (!part.tensor) return;
  const std::int64_t row = product_of(part.shape) / part.shape.at(0);
  ImportedTensor out;
  out.entry.name = name;
  out.entry.type = part.tensor->type;
  out.entry.shape = part.shape;
  out.entry.shape[0] = 0;
  for (const auto& [first, count] : rows) {
    out.runs.push_back({part.tensor, part.begin + first * row, count * row});
    out.entry.shape[0] += count;
  }
  tensors_.push_back(std::move(out));
}

std::vector<ImportedTensor> ImportBuilder::finish(const std::function<bool(const std::string&)>& needless) {
  for (const TensorEntry* entry : source_.entries())
    if (!used_.contains(entry->name) && !needless(entry->name))
      problems_.insert(fmt::format("unknown: {} {}", entry->name, entry->shape_text()));
  constexpr std::size_t kShown = 20;
  std::string text;
  std::size_t shown = 0;
  for (const auto& problem : problems_)
    if (++shown <= kShown) text += "\n  " + problem;
  if (problems_.size() > kShown) text += fmt::format("\n  and {} more", problems_.size() - kShown);
  require<DataError>(problems_.empty(), "the tensors of '{}' are not those of the model that it describes:{}",
                     source_.directory().string(), text);
  return std::move(tensors_);
}

}  // namespace stoa::ckpt
