// What a configuration means in layers.
#pragma once

#include <memory>

#include "model/config.h"
#include "nn/embedding.h"
#include "nn/lm_head.h"
#include "nn/recompute.h"
#include "nn/rope.h"
#include "nn/transformer_block.h"

namespace stoa::model {

class AdapterPlan;

// A validated configuration with its vocabulary.
struct ModelSpec {
  ModelConfig config;
  std::int64_t vocabulary = 0;                            // rows of the embedding in files
  std::int64_t padded_vocabulary = 0;                     // rows in memory
  std::shared_ptr<const AdapterPlan> adapters = nullptr;  // of model.peft; null: none
  // Types of the files' matrices that ranks hold as they are; null: none, all are decoded.
  std::shared_ptr<const nn::StoredTypes> stored = nullptr;
};

// `tokenizer_vocabulary`: number of ids of the tokenizer, 0 when there is none (then the configuration must
// say vocab_size). ConfigError: contradictory sizes, a vocabulary smaller than the tokenizer's, names in
// model.freeze or model.peft that are none.
ModelSpec resolve_model(const ModelConfig& config, std::int64_t tokenizer_vocabulary = 0);

// `place`: where this rank stands in its tensor-parallel group.
nn::EmbeddingOptions embedding_options(const ModelSpec& spec, nn::Precision precision,
                                       const parallel::TensorPlace& place);
nn::LmHeadOptions head_options(const ModelSpec& spec, nn::Precision precision,
                               const parallel::TensorPlace& place);
nn::TransformerBlockOptions block_options(const ModelSpec& spec, std::int64_t layer, nn::Precision precision,
                                          const parallel::TensorPlace& place,
                                          const parallel::ExpertPlace& experts);
// What a tensor-parallel group splits, for parallel::check_split; `tokens` of a microbatch, 0 when not known.
parallel::TensorSplit tensor_split(const ModelSpec& spec, std::int64_t tokens);
nn::NormOptions norm_options(const ModelConfig& config);
ops::ActivationKind activation_kind(Activation activation);
// None unless position_embedding_type is rope; the second is that of layers with a window, where they have
// their own.
std::vector<nn::RopeOptions> rope_tables(const ModelConfig& config);
// Indices among the chunk's constants of what a layer reads; -1: none.
struct PositionTables {
  int rope = -1, distance = -1;
};
PositionTables position_tables(const ModelConfig& config, std::int64_t layer);
// The first of the two constants of a prefix of keys (nn/key_prefix.h), which come after those of positions.
int prefix_constants(const ModelConfig& config);
// Keys visible to a query of this layer; 0: all before it.
std::int64_t layer_window(const ModelConfig& config, std::int64_t layer);
// Cache of generation, of a layer, on a rank of a tensor-parallel group: columns per token and heads that
// they belong to; the same tensor for keys and values, or one for each.
struct CacheSizes {
  std::int64_t heads = 0, width = 0;
  bool shared = false;
};
CacheSizes cache_sizes(const ModelConfig& config, const parallel::TensorPlace& place = {});
// Those of some layers that keep something of the texts under way: all but an encoder's, which reads whole
// texts. Keys and values of a source are of the same sizes as those of the target that is generated for it.
std::vector<std::int64_t> caching_layers(const ModelConfig& config, const parallel::Part& layers);

// What a layer of linear attention keeps of a text on such a rank, in the accumulation type.
struct StateSizes {
  Shape convolved, state;  // nn::KvLayer, of one text
};
StateSizes state_sizes(const ModelConfig& config, const parallel::TensorPlace& place = {});
nn::RecomputeOptions recompute_options(const RecomputeConfig& config, std::int64_t layers);

// Name and shape of every tensor of the model as files hold it, and of its adapters: unfused, unpadded, tied
// ones once, in order of the layers.
struct CanonicalTensor {
  std::string name;
  Shape shape;
  bool trained = true;   // model.freeze, model.peft
  bool matrix = false;   // held in compute precision
  bool adapter = false;  // not in the model's own files
};
std::vector<CanonicalTensor> canonical_tensors(const ModelSpec& spec);
// Number of weights, tied ones counted once.
std::int64_t parameter_count(const ModelSpec& spec);
std::int64_t trained_parameter_count(const ModelSpec& spec);
// Those that one token meets: of a layer with experts, the chosen and the shared ones.
std::int64_t active_parameter_count(const ModelSpec& spec);

// Weights that a token meets, part by part, and what is trained of them. A tied embedding counts as such.
struct ActiveWeights {
  struct Part {
    std::int64_t all = 0, trained = 0;
    double trained_share() const {
      return all > 0 ? static_cast<double>(trained) / static_cast<double>(all) : 0;
    }
  };
  Part embedding, head;
  std::vector<Part> layers;
  // The first layer in which something is trained: those before it need no backward pass, nor does the
  // embedding. -1: the embedding is trained; the number of layers: the head alone is.
  std::int64_t first_trained = -1;
  bool runs_backward(std::int64_t layer) const { return layer >= first_trained; }
};
ActiveWeights active_weights(const ModelSpec& spec);

}  // namespace stoa::model
