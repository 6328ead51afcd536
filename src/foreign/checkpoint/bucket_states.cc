#include "foreign/checkpoint/bucket_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rounding.h"
#include "foreign/checkpoint/megatron_names.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::foreign {
namespace {

namespace hf = model::huggingface;
using Sizes = std::vector<std::int64_t>;

constexpr std::string_view kGroup = "optimizer.distributed.dp_group_idx_", kBuffer = ".gbuf_idx_",
                           kBucket = ".bucket_idx_";

// A bucket's tensor of one kind: "param", "exp_avg", "exp_avg_sq".
struct BucketKey {
  std::int64_t group, buffer, bucket;
  std::string state;
  auto operator<=>(const BucketKey&) const = default;
};

std::optional<BucketKey> bucket_key(std::string_view name) {
  if (!name.starts_with(kGroup)) return std::nullopt;
  const auto group = number_after(name, kGroup), buffer = number_after(name, kBuffer),
             bucket = number_after(name, kBucket);
  if (!group || !buffer || !bucket) return std::nullopt;
  return BucketKey{*group, *buffer, *bucket, std::string(name.substr(name.rfind('.') + 1))};
}

// A parameter of a rank, under the name that the whole model has for it.
struct RankParameter {
  std::string name;
  Sizes shape;
  bool shared = false;  // the embedding that a head on another rank has too: alone in its bucket
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    return n;
  }
};

// The parameters of ranks in the order in which their modules declare them.
class RankModel {
 public:
  RankModel(const model::ModelConfig& config, const RankLayout& layout, bool fused)
      : config_(config), layout_(layout), fused_(fused) {
    for (const hf::Tensor& tensor : hf::tensors(model::resolve_model(config), megatron_family())) {
      Sizes shape;
      for (int d = 0; d < tensor.shape.rank(); ++d) shape.push_back(tensor.shape[d]);
      shapes_.emplace(tensor.name, std::move(shape));
    }
    if (config.ties_head())
      shapes_.emplace("output_layer.weight", shapes_.at("embedding.word_embeddings.weight"));
  }

  // Of chunk `chunk` of pipeline rank `stage`; those of all tensor ranks are of one size.
  std::vector<RankParameter> parameters(std::int64_t stage, std::int64_t chunk) const {
    std::vector<RankParameter> out;
    const bool bert = config_.kind == model::ModelKind::kBert, first = stage == 0 && chunk == 0,
               last = stage == layout_.pipeline - 1 && chunk == layout_.chunks - 1;
    if (first)
      for (const char* table : {"word", "position", "tokentype"})
        add(out, fmt::format("embedding.{}_embeddings", table));
    const std::string stack = bert ? "encoder" : "decoder";
    const std::int64_t count = config_.num_layers / (layout_.pipeline * layout_.chunks),
                       begin = (chunk * layout_.pipeline + stage) * count;
    for (std::int64_t layer = begin; layer < begin + count; ++layer) {
      const auto part = [&](const char* name) {
        add(out, fmt::format("{}.layers.{}.{}", stack, layer, name));
      };
      if (!fused_) part("input_layernorm");
      part("self_attention.linear_proj");
      if (fused_) part("input_layernorm");
      for (const char* name : {"linear_qkv", "q_layernorm", "k_layernorm"})
        add(out, fmt::format("{}.layers.{}.self_attention.{}", stack, layer, name));
      for (const char* name : {"pre_mlp_layernorm", "mlp.linear_fc1", "mlp.linear_fc2"}) part(name);
    }
    if (!last) return out;
    add(out, stack + ".final_layernorm");
    if (bert)
      for (const char* name : {"lm_head.dense", "lm_head.layer_norm"}) add(out, name);
    // A tied head that is on the embedding's rank has no matrix of its own.
    if (config_.ties_head() && first)
      add_one(out, "output_layer.bias");
    else
      add(out, "output_layer");
    if (bert)
      for (const char* name : {"binary_head", "pooler.dense"}) add(out, name);
    return out;
  }

 private:
  void add(std::vector<RankParameter>& out, const std::string& module) const {
    for (const char* end : {".weight", ".bias"}) add_one(out, module + end);
  }
  void add_one(std::vector<RankParameter>& out, const std::string& name) const {
    const auto found = shapes_.find(name);
    if (found == shapes_.end()) return;
    RankParameter parameter{name, found->second};
    const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    const bool vocabulary = has("word_embeddings.") || has("output_layer.");
    if (vocabulary) parameter.shape[0] = layout_.vocabulary;
    if (vocabulary || has("linear_qkv.") || has("linear_fc1."))
      parameter.shape[0] /= layout_.tensor;
    else if (has("linear_proj.weight") || has("linear_fc2.weight"))
      parameter.shape[1] /= layout_.tensor;
    parameter.shared = vocabulary && name.ends_with(".weight") && config_.ties_head() && layout_.pipeline > 1;
    out.push_back(std::move(parameter));
  }

  const model::ModelConfig& config_;
  const RankLayout& layout_;
  const bool fused_;
  std::map<std::string, Sizes> shapes_;
};

// Where a parameter lies.
struct BucketPlace {
  std::int64_t bucket = 0, begin = 0;
};

// Fills the buckets of a buffer, whose sizes are known, with the parameters from the last to the first.
// nullopt: they do not fill them.
std::optional<std::vector<BucketPlace>> places_in(const std::vector<RankParameter>& parameters,
                                                  const Sizes& buckets) {
  std::vector<BucketPlace> out(parameters.size());
  std::size_t bucket = 0;
  std::int64_t filled = 0;
  const auto aligned = [](std::int64_t at) { return round_up(at, kBucketAlignment); };
  for (std::size_t i = parameters.size(); i-- > 0;) {
    // A bucket that ends before a shared embedding ends where that would have begun.
    if (bucket < buckets.size() && filled > 0 &&
        (filled == buckets[bucket] || (parameters[i].shared && aligned(filled) == buckets[bucket]))) {
      ++bucket;
      filled = 0;
    }
    if (bucket == buckets.size()) return std::nullopt;
    out[i] = {static_cast<std::int64_t>(bucket), aligned(filled)};
    filled = out[i].begin + parameters[i].elements();
    if (filled > buckets[bucket]) return std::nullopt;
  }
  if (bucket + 1 != buckets.size() || filled != buckets[bucket]) return std::nullopt;
  return out;
}

}  // namespace

bool holds_buckets(const ckpt::TensorSource& source) {
  return std::any_of(source.entries().begin(), source.entries().end(),
                     [](const ckpt::TensorEntry* entry) { return bucket_key(entry->name).has_value(); });
}

std::string add_buckets(MegatronSources& out, const ckpt::TensorSource& source,
                        const model::ModelConfig& config, const RankLayout& layout, bool fused) {
  if (config.kind == model::ModelKind::kT5 || config.moe.num_moe_experts ||
      config.latent.multi_latent_attention || config.linear.any())
    return "where parameters lie is known only for decoders and encoders without experts, latent attention "
           "and linear attention";
  if (config.num_layers % (layout.pipeline * layout.chunks) != 0 || layout.vocabulary % layout.tensor != 0)
    return "the layers or the rows of the vocabulary do not divide evenly among the ranks";
  std::map<BucketKey, const ckpt::TensorEntry*> buckets;
  for (const ckpt::TensorEntry* entry : source.entries())
    if (auto key = bucket_key(entry->name)) buckets.emplace(*std::move(key), entry);
  const RankModel ranks(config, layout, fused);
  for (std::int64_t group = 0; group < layout.tensor * layout.pipeline; ++group)
    for (std::int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
      const std::int64_t stage = group / layout.tensor;
      Sizes sizes;
      for (std::int64_t bucket = 0;; ++bucket) {
        const auto entry = buckets.find({group, chunk, bucket, "exp_avg"});
        if (entry == buckets.end()) break;
        sizes.push_back(entry->second->elements());
      }
      const std::vector<RankParameter> parameters = ranks.parameters(stage, chunk);
      const auto places = places_in(parameters, sizes);
      if (!places)
        return fmt::format("the parameters of model-parallel rank {} are not those that fill its {} buckets",
                           group, sizes.size());
      const MegatronPlace place{group % layout.tensor, 0, 0, chunk * layout.pipeline + stage};
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const RankParameter& parameter = parameters[i];
        const auto [bucket, begin] = (*places)[i];
        for (const auto& [state, set] :
             {std::pair("param", &out.master), {"exp_avg", &out.exp_avg}, {"exp_avg_sq", &out.exp_avg_sq}}) {
          const auto entry = buckets.find({group, chunk, bucket, state});
          if (entry == buckets.end() || entry->second->elements() < begin + parameter.elements())
            return fmt::format("the bucket of '{}' has no '{}'", parameter.name, state);
          set->add(source, *entry->second, parameter.name, place, begin, parameter.shape);
        }
      }
    }
  return "";
}

}  // namespace stoa::foreign
