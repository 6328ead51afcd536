// Parameter-efficient tuning: the keys of NeMo under model.peft, and what PEFT has besides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::model {

// kPTuning, kPrompt and kPrefix put virtual tokens in front of every text. kAdapter: bottlenecks.
enum class PeftScheme { kNone, kLora, kIa3, kPTuning, kPrompt, kPrefix, kAdapter };
// Where bottlenecks are and what they read (nn/bottleneck.h), by AdapterHub's names: kSequential after
// feed-forward layers, reading the sum (Pfeiffer); kDoubleSequential after both, reading the branch
// (Houlsby); kParallel next to feed-forward layers (He).
enum class BottleneckType { kSequential, kDoubleSequential, kParallel };
enum class BottleneckActivation { kRelu, kSwish, kGelu, kGeluNew, kTanh, kSigmoid };
// The network of kPTuning (nn/adapter_policy.h).
enum class PromptEncoder { kMlp, kLstm, kTensorMlp };
// Initial values of the matrix A of a low-rank branch: kKaiming is uniform within 1 / sqrt(inputs) (PEFT's
// default), kXavier normal with variance 2 / (inputs + rank), kNormal normal with deviation 0.2 (NeMo's),
// kGaussian normal with deviation 1 / rank (PEFT's "gaussian").
enum class LowRankInit { kKaiming, kXavier, kNormal, kGaussian };
// Which biases are trained besides.
enum class AdapterBias { kNone, kAll, kLoraOnly };

std::span<const config::EnumName<PeftScheme>> enum_names(PeftScheme);
std::span<const config::EnumName<LowRankInit>> enum_names(LowRankInit);
std::span<const config::EnumName<AdapterBias>> enum_names(AdapterBias);
std::span<const config::EnumName<PromptEncoder>> enum_names(PromptEncoder);
std::span<const config::EnumName<BottleneckType>> enum_names(BottleneckType);
std::span<const config::EnumName<BottleneckActivation>> enum_names(BottleneckActivation);

struct LoraConfig {
  std::int64_t adapter_dim = 16;  // rank
  std::optional<double> alpha;    // null: the rank
  double adapter_dropout = 0;
  std::vector<std::string> target_modules{"all-linear"};
  std::vector<std::string> exclude_modules;
  std::vector<std::int64_t> layer_selection;  // numbered from 1; empty: all
  bool use_rslora = false;                    // scale alpha / sqrt(rank) instead of alpha / rank
  bool use_dora = false;                      // norms of rows are trained apart from their directions
  std::vector<std::string> rank_pattern;      // "pattern=rank"
  std::vector<std::string> alpha_pattern;     // "pattern=alpha"
  LowRankInit column_init_method = LowRankInit::kKaiming;
  double loraplus_lr_ratio = 1;  // learning rate of B / learning rate of A
  AdapterBias bias = AdapterBias::kNone;
};

struct Ia3Config {
  std::vector<std::string> target_modules;  // empty: keys, values and what leaves the feed-forward layers
  std::vector<std::string> feedforward_modules;  // of those: whose inputs are scaled
  std::vector<std::int64_t> layer_selection;     // as of LoRA
};

struct BottleneckConfig {
  BottleneckType type = BottleneckType::kSequential;
  std::optional<std::int64_t> adapter_dim;            // null: hidden size / reduction_factor
  std::optional<double> reduction_factor;             // null: 16; 2 of kParallel
  std::optional<BottleneckActivation> non_linearity;  // null: relu; swish of kDoubleSequential
  std::optional<double> scaling;                      // null: 1; 4 of kParallel
  std::vector<std::int64_t> layer_selection;          // as of LoRA
  // No key: of adapters of AdapterHub, layers that are not selected, numbered from 0.
  std::vector<std::int64_t> leave_out;

  bool is_parallel() const { return type == BottleneckType::kParallel; }
  // With what null means.
  std::int64_t width(std::int64_t hidden) const;
  BottleneckActivation activation() const;
  double scale() const { return scaling.value_or(is_parallel() ? 4 : 1); }
};

struct VirtualTokenConfig {
  std::int64_t virtual_tokens = 10;
  PromptEncoder encoder_type = PromptEncoder::kMlp;
  std::int64_t bottleneck_dim = 1024;         // hidden width of the encoder
  std::optional<std::int64_t> embedding_dim;  // of what it reads; null: the model's width
  std::int64_t num_layers = 2;                // of an LSTM
  double init_std = 0.023;
};

// How the frozen matrices of linear layers are held: in the precision of the training, in 8 bits with a scale
// per row, in 4 bits (QLoRA, 2305.14314).
enum class BaseFormat { kNone, kInt8, kNf4 };
std::span<const config::EnumName<BaseFormat>> enum_names(BaseFormat);
std::string_view name_of(BaseFormat format);
BaseFormat base_format(std::string_view name);  // DataError: no such format

struct PeftConfig {
  PeftScheme peft_scheme = PeftScheme::kNone;
  std::optional<std::string> restore_from_path;  // an adapter to start from
  std::optional<std::string> base_model_type;    // of the model's config.json; null: of the family that fits
  std::vector<std::string> modules_to_save;      // trained in full
  BaseFormat quantize_base = BaseFormat::kNone;
  // Tokens whose rows of the embedding and the head are trained.
  std::vector<std::int64_t> trainable_token_indices;
  // No key: false of adapters of PEFT that have no rows of an untied head.
  bool trainable_token_head = true;
  LoraConfig lora;
  Ia3Config ia3;
  BottleneckConfig bottleneck;
  VirtualTokenConfig virtual_tokens;

  bool active() const { return peft_scheme != PeftScheme::kNone; }
  bool is_lora() const { return peft_scheme == PeftScheme::kLora; }
  bool is_ia3() const { return peft_scheme == PeftScheme::kIa3; }
  bool is_bottleneck() const { return peft_scheme == PeftScheme::kAdapter; }
  bool has_virtual_tokens() const { return active() && !is_lora() && !is_ia3() && !is_bottleneck(); }
  // In front of every text.
  std::int64_t virtual_count() const { return has_virtual_tokens() ? virtual_tokens.virtual_tokens : 0; }
};

void declare_peft(config::Section<PeftConfig>& s);

}  // namespace stoa::model
