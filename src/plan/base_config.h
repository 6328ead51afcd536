// A configuration to start from, for a model of a given size: shape, batch, learning rate and degrees by
// published tables. The tables of GPT, BERT and T5 are those of NVIDIA's auto-configurator (NeMo Framework
// Launcher 24.12); Llama's are of 2302.13971, 2307.09288 and 2407.21783, the experts' of 2401.04088 and
// Qwen3 (2505.09388).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "config/value.h"
#include "model/config.h"

namespace stoa::plan {

enum class BaseFamily { kGpt, kBert, kT5, kLlama, kMoe };
std::span<const config::EnumName<BaseFamily>> enum_names(BaseFamily);

// What runs twice: nothing; the attention core (Korthikanti et al. 2022, 2205.05198); all layers.
enum class BaseRecompute { kNone, kSelective, kFull };
std::span<const config::EnumName<BaseRecompute>> enum_names(BaseRecompute);

struct BaseRequest {
  BaseFamily family = BaseFamily::kGpt;
  double parameters = 0;
  double tokens = 300e9;                        // of the whole training
  std::optional<std::int64_t> sequence = {};    // none: the family's
  std::optional<std::int64_t> vocabulary = {};  // none: the family's
  std::int64_t device_gb = 80;                  // 40 doubles the model-parallel degree
};

struct BaseConfig {
  BaseFamily family = BaseFamily::kGpt;
  std::string name;  // "gpt-5b"
  // Shape. T5: `layers` of encoder and of decoder each, `model` carries the sizes that both share.
  model::ModelConfig model;
  std::int64_t decoder_sequence = 0;  // T5
  double parameters = 0;
  double active_parameters = 0;  // that a token meets
  // Training.
  double tokens = 0;
  double lr = 0, min_lr = 0, weight_decay = 0.1;
  double beta2 = 0.95;
  double dropout = 0;
  std::int64_t global_batch = 0, micro_batch = 1;
  std::int64_t tensor = 1, pipeline = 1;
  bool sequence_parallel = false;
  std::int64_t max_steps = 0, warmup_steps = 0, constant_steps = 0;
  std::string source;  // of the bands

  // Floating-point operations of one token, forward and backward, without recomputation: six per weight that
  // it meets, and attention (causal at half).
  double flops_per_token() const;
  // The same with what is recomputed.
  double flops_per_token(BaseRecompute recompute) const;
};

// ConfigError where the tables do not reach: says the sizes that they cover.
BaseConfig base_config(const BaseRequest& request);

// FLOPs executed per token by a model of `parameters` with the shape in the tables; outside of their range,
// scaled from the shape at the end.
double flops_per_token(BaseRequest request, double parameters, BaseRecompute recompute);

// The configuration as YAML for `stoa train`, with sources as comments.
std::string to_yaml(const BaseConfig& base);

// Tokens with which a model of this size makes the best use of its computation: about 20 per parameter
// (Hoffmann et al. 2022, 2203.15556, table 3; Besiroglu et al. 2024, 2404.10102, find the same on their
// data).
double compute_optimal_tokens(double parameters);
// The size that 6 N D = flops with D = compute_optimal_tokens(N) gives.
double compute_optimal_parameters(double flops);

}  // namespace stoa::plan
