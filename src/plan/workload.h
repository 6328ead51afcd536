// What is trained and how it is distributed: all inputs of the time model. Built from a configuration
// (cli/plan_predict_command), from a row of published measurements (plan/rows) or by a search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/estimated_config.h"
#include "plan/cluster.h"
#include "plan/software.h"
#include "run/layout.h"

namespace stoa::plan {

inline double real(std::int64_t count) { return static_cast<double>(count); }

// Sizes of a decoder in the notation of the papers: L layers, h hidden, a heads, V vocabulary, s sequence.
struct ModelShape {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0;
  // Multi-head latent attention: widths of the latents, of the rotated part of head_size, and of a value.
  // latent_rank 0: keys and values are projected from the stream; query_rank 0: queries are.
  std::int64_t query_rank = 0, latent_rank = 0, rotated = 0, value_size = 0;
  // Linear attention: number of such layers; columns of queries and keys together, of values; heads; columns
  // of a key.
  std::int64_t linear_layers = 0, linear_keys = 0, linear_values = 0, linear_heads = 0, linear_key_size = 0;
  // Mamba's hybrids, where a layer has one branch: layers of each kind; all 0: every layer has attention and
  // an MLP. A state-space layer has heads, each with rows and columns of a state; groups of heads share
  // inputs.
  std::int64_t state_layers = 0, attention_layers = 0, mlp_layers = 0;
  std::int64_t state_heads = 0, state_head_size = 0, state_size = 0, state_groups = 0;
  // Layers after the last, at its stage, that each predict one token more; the head is computed for each.
  std::int64_t mtp_layers = 0;
  std::int64_t ffn = 0;      // of a dense layer
  bool gated = false;        // two input projections
  bool output_gate = false;  // a projection gates attention's output
  std::int64_t vocabulary = 0, sequence = 0;
  bool tied = true;       // embedding and head are one tensor
  bool positions = true;  // learned absolute positions
  double dropout = 0;     // hidden and attention
  bool biases = true;
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0;
  std::int64_t expert_layers = 0;                     // layers that have experts
  std::int64_t expert_groups = 0, chosen_groups = 0;  // group-limited choice; 0: none
  // Most rows of an expert, in even loads; padded: programs that pad always have so many. None: no limit.
  std::optional<double> expert_capacity;
  bool expert_padding = false;
  std::optional<std::int64_t> window;
  bool causal = true;  // a token attends to those before it, not to all; but in an encoder-decoder
  // Encoder-decoders: layers of the encoder, the first; the others also attend to its output. A sample has a
  // source of `sequence` tokens and a target.
  std::int64_t encoder_layers = 0, target = 0;

  std::int64_t cross_layers() const { return encoder_layers > 0 ? layers - encoder_layers : 0; }
  std::int64_t sample() const { return sequence + target; }  // tokens
  double cross_parameters() const;  // of such a layer's attention to the encoder's output
  double linear_share() const { return share(linear_layers); }
  double expert_share() const { return share(expert_layers); }
  bool single_branches() const { return state_layers + attention_layers + mlp_layers > 0; }
  // Shares of the layers that have softmax attention, a state-space layer, an MLP; half of the branches of a
  // transformer's layer, or all.
  std::int64_t softmax_layers() const {
    return single_branches() ? attention_layers : layers - linear_layers;
  }
  double softmax_share() const { return single_branches() ? share(attention_layers) : 1 - linear_share(); }
  // Of either kind: where linear attention counts as softmax attention does.
  double attention_share() const { return single_branches() ? share(attention_layers) : 1; }
  double state_share() const { return share(state_layers); }
  double mlp_share() const { return single_branches() ? share(mlp_layers) : 1; }
  double branches() const { return single_branches() ? 0.5 : 1; }
  std::int64_t state_inner() const { return state_heads * state_head_size; }
  // What a state-space layer projects its input to: gate, input, B and C of the groups, a step for each head.
  std::int64_t state_columns() const {
    return 2 * state_inner() + 2 * state_groups * state_size + state_heads;
  }
  // For the average layer, if layers differ in attention or have one branch.
  double layer_parameters(bool with_experts) const;         // all experts
  double active_layer_parameters(bool with_experts) const;  // applied to a token
  double expert_parameters() const;                         // of all experts of a layer, without shared ones
  double embedding_parameters() const;                      // without the head
  double mtp_parameters() const;                            // of one of its layers
  double parameters() const;

 private:
  double share(std::int64_t of) const {
    return layers > 0 ? static_cast<double>(of) / static_cast<double>(layers) : 0;
  }
};

// What selective recomputation computes again besides the core of attention; none named: what 2205.05198
// does, and the projections of latents.
struct RecomputedModules {
  bool named = false, up_projections = false, mlp = false, experts = false, shared_experts = false;
};

// What of a model is trained (model.freeze); all by default.
struct TrainedShare {
  std::int64_t first_layer = -1;  // model::ActiveWeights::first_trained
  double layers = 1;              // of the weights of the layers from there on
  double embedding = 1, head = 1;
};

enum class Recompute {
  kNone,
  kSelective,
  kOperators,
  kFull
};  // kOperators: about half of the GEMMs are recomputed

// Whether a schedule has two chunks per rank, r and 2 ranks - 1 - r on rank r: the first pipeline rank then
// has both ends of the model.
bool is_v(const std::string& schedule);

// A point of the search space: tp x cp x pp x dp devices; ep divides dp x cp.
struct Workload {
  ModelShape model;
  TrainedShare trained;
  std::int64_t tp = 1, pp = 1, dp = 1, cp = 1, ep = 1;
  std::int64_t vpp = 1;        // chunks per pipeline rank
  std::int64_t expert_tp = 0;  // 0: as tp
  std::string schedule;        // of schedule::run_schedule_names(); empty: 1f1b, or interleaved where vpp > 1
  std::vector<std::int64_t> chunk_layers;  // of every chunk in model order; empty: even, see even_split()
  std::int64_t micro_batch = 1, global_batch = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  double recomputed_share = 1;           // of the layers to which `recompute` applies
  RecomputedModules modules;             // of selective recomputation
  model::OffloadConfig offload;          // activations offloaded to host memory
  int zero_stage = 0;                    // 3: parameters are gathered per layer and microbatch (FSDP)
  std::int64_t shard_ranks = 0;          // ranks over which ZeRO shards; 0: those of a group of replicas
  std::int64_t optimizer_instances = 1;  // groups of replicas, each with all of the optimizer's state
  bool reshard = true;                   // stage 3: parameters are gathered again for the backward pass
  Format format = Format::kBf16;         // linear layers; the rest has 16 bits unless fp32
  // For fp8; Transformer Engine's default, which is assumed for published measurements that do not state it.
  model::Fp8Recipe fp8_recipe = model::Fp8Recipe::kDelayed;
  bool fp8_parameters = false;  // gathered in 8 bits
  // Replicas are as many ranks apart as a replica has; else stages are, and replicas are neighbours.
  bool replicas_outermost = false;
  bool two_microbatches = false;  // are computed at once, to hide the exchange of experts
  double imbalance = 1;           // tokens of the busiest expert over the mean
  Software software;              // the program that trains

  std::int64_t devices() const { return tp * pp * dp * cp; }
  std::int64_t expert_degree() const { return expert_tp > 0 ? expert_tp : tp; }  // that splits an expert
  std::int64_t ranks_of_shards() const {
    return shard_ranks > 0 ? shard_ranks : std::max<std::int64_t>(1, dp * cp / optimizer_instances);
  }
  // Ranks that hold the same experts, where `ranks` replicas hold the same dense weights.
  double expert_replicas(std::int64_t ranks) const {
    return std::max(1.0, static_cast<double>(ranks * tp) / static_cast<double>(expert_degree() * ep));
  }
  // Ranks from one to the next of a group.
  std::int64_t replica_stride() const { return tp * (replicas_outermost ? pp : 1); }
  std::int64_t expert_stride() const { return expert_degree() * ep * (replicas_outermost ? pp : 1); }
  std::int64_t stage_stride() const { return tp * cp * (replicas_outermost ? 1 : dp); }
  std::int64_t microbatches() const { return global_batch / (dp * micro_batch); }
  double tokens() const { return static_cast<double>(global_batch * model.sample()); }
  // Layers of every chunk: as given, else L / (pp vpp), the remainder distributed over the middle chunks.
  std::vector<std::int64_t> split() const;
  std::vector<std::int64_t> backward_layers() const;  // of every chunk: those that run backward
  std::string schedule_name() const;                  // never empty
  // Attention heads and key/value heads on the tensor-parallel rank that has most.
  std::int64_t rank_heads() const { return (model.heads + tp - 1) / tp; }
  // Rows of experts, of the busiest rank and of a device's memory, over those of an even load.
  double busiest_load() const;
  double declared_load() const { return model.expert_capacity.value_or(1); }
  std::int64_t rank_groups() const { return (model.kv_heads + tp - 1) / tp; }
  // How many layers every pipeline rank has of those from `begin` to `end`; of all; of those that run
  // backward.
  std::vector<std::int64_t> layers_of_ranks(std::int64_t begin, std::int64_t end) const;
  std::vector<std::int64_t> layers_of_ranks() const { return layers_of_ranks(0, model.layers); }
  std::vector<std::int64_t> backward_layers_of_ranks() const {
    return layers_of_ranks(trained.first_layer, model.layers);
  }
  // How many layers of every chunk, from its first on, offload activations to host memory. ConfigError if
  // more are requested than any pipeline rank has.
  std::vector<std::int64_t> offloaded_layers() const;
  std::int64_t rank_of_chunk(std::int64_t chunk) const;
  std::int64_t head_rank() const;  // pipeline rank of the last chunk
  std::string text() const;        // "TP8 PP16 VPP6 DP4 SP, microbatch 1, full recompute"
};

// ConfigError if degrees contradict each other or the model; it names the rule, the values and the nearest
// choice.
void validate(const Workload& w);

ModelShape shape_of(const model::ModelConfig& config, std::int64_t vocabulary);
// The workload of a run's layout. `global_batch` in samples.
Workload workload_of(const model::ModelConfig& config, const run::Layout& layout, std::int64_t vocabulary,
                     std::int64_t micro_batch, std::int64_t global_batch, Format format);

// Multiplications of a token in a state-space layer besides its projections.
double state_products(const ModelShape& m);

// Adds what Stoa does not have.
void add_estimated(const model::EstimatedConfig& estimated, Workload& w);

// FLOPs of a step over all devices. Model: forward and backward of the weights applied to a token, and of
// attention, where a causal mask counts half; hardware: including recomputation.
double model_flops(const Workload& w);
double hardware_flops(const Workload& w);

}  // namespace stoa::plan
