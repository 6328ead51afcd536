#include "plan/base_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/console.h"
#include "base/error.h"
#include "model/model_spec.h"

namespace stoa::plan {

std::span<const config::EnumName<BaseFamily>> enum_names(BaseFamily) {
  static constexpr std::array<config::EnumName<BaseFamily>, 5> kNames{{{"gpt", BaseFamily::kGpt},
                                                                       {"bert", BaseFamily::kBert},
                                                                       {"t5", BaseFamily::kT5},
                                                                       {"llama", BaseFamily::kLlama},
                                                                       {"moe", BaseFamily::kMoe}}};
  return kNames;
}

std::span<const config::EnumName<BaseRecompute>> enum_names(BaseRecompute) {
  static constexpr std::array<config::EnumName<BaseRecompute>, 3> kNames{
      {{"none", BaseRecompute::kNone},
       {"selective", BaseRecompute::kSelective},
       {"full", BaseRecompute::kFull}}};
  return kNames;
}

namespace {

// Sizes of models with fewer than `below` billion parameters (of the same and fewer where `inclusive`).
struct Band {
  double below;
  std::int64_t hidden, heads, ffn, groups;
  double lr;
  std::int64_t head_size = 0;  // 0: hidden / heads
  bool inclusive = false;
  std::int64_t experts = 0, top_k = 0;
};

// 24.12 auto_configurator/base_configs: GPT; ffn 4 h, as many key heads as heads.
constexpr Band kGptBands[] = {{0.25, 768, 12, 3072, 12, 6e-4},        {0.5, 1024, 16, 4096, 16, 3e-4},
                              {1, 1536, 16, 6144, 16, 2.5e-4},        {2, 2048, 16, 8192, 16, 2e-4},
                              {3, 2560, 32, 10240, 32, 1.6e-4},       {4.5, 3072, 32, 12288, 32, 1.4e-4},
                              {8, 4096, 32, 16384, 32, 1.2e-4},       {15, 5120, 40, 20480, 40, 1e-4},
                              {25, 6144, 48, 24576, 48, 1e-4},        {52, 8192, 64, 32768, 64, 0.8e-4},
                              {105, 10240, 80, 40960, 80, 0.7e-4},    {205, 12288, 96, 49152, 96, 0.6e-4},
                              {405, 20480, 128, 81920, 128, 0.5e-4},  {805, 20480, 128, 81920, 128, 0.4e-4},
                              {1105, 25600, 160, 102400, 160, 0.3e-4}};
constexpr Band kBertBands[] = {{0.25, 768, 12, 3072, 12, 2e-4},
                               {0.5, 1024, 16, 4096, 16, 2e-4},
                               {1, 1536, 16, 6144, 16, 1e-4},
                               {2, 2048, 16, 8192, 16, 1e-4},
                               {4.5, 2560, 32, 10240, 32, 1e-4},
                               {8, 4096, 32, 16384, 32, 1e-4},
                               {15, 5120, 40, 20480, 40, 1e-4},
                               {25, 6144, 48, 24576, 48, 1e-4, 0, true},
                               {46.5, 7680, 48, 30720, 48, 1e-4, 0, true},
                               {165.5, 9216, 96, 36864, 96, 1e-4, 0, true},
                               {250.5, 12288, 96, 49152, 96, 1e-4, 0, true}};
constexpr Band kT5Bands[] = {{0.1, 512, 6, 1024, 6, 1e-4, 64},
                             {0.4, 768, 12, 2048, 12, 1e-4, 64},
                             {1, 1024, 16, 2816, 16, 1e-4, 64},
                             {5, 2048, 32, 5120, 32, 1e-4, 64},
                             {15, 4096, 64, 10240, 64, 1e-4, 64},
                             {25.9, 5120, 80, 10880, 80, 1e-4, 64},
                             {43, 6144, 96, 10880, 96, 1e-4, 64},
                             {85.5, 6144, 96, 16384, 96, 1e-4, 64, true},
                             {165.5, 7680, 96, 20480, 96, 1e-4, 128, true},
                             {250, 12288, 96, 32768, 96, 1e-4, 128, true}};
// Llama 3.2 1B and 3B, Llama 1 and 2 7B and 13B, Llama 1 33B, Llama 3 70B and 405B.
constexpr Band kLlamaBands[] = {{2, 2048, 32, 8192, 8, 4e-4},      {5, 3072, 24, 8192, 8, 3e-4},
                                {10, 4096, 32, 14336, 8, 3e-4},    {20, 5120, 40, 13824, 40, 3e-4},
                                {50, 6656, 52, 17920, 52, 1.5e-4}, {150, 8192, 64, 28672, 8, 1.5e-4},
                                {500, 16384, 128, 53248, 8, 8e-5}};
// Qwen3-30B-A3B (128 experts of 768, 8 per token), Mixtral 8x7B and 8x22B (2 of 8), Qwen3-235B-A22B.
constexpr Band kMoeBands[] = {{38, 2048, 32, 768, 4, 4e-4, 128, false, 128, 8},
                              {90, 4096, 32, 14336, 8, 3e-4, 128, false, 8, 2},
                              {190, 6144, 48, 16384, 8, 2e-4, 128, false, 8, 2},
                              {400, 4096, 64, 1536, 4, 1.5e-4, 128, false, 128, 8}};

struct FamilyTable {
  std::string_view name;
  std::span<const Band> bands;
  std::int64_t sequence, vocabulary;
  double smallest;  // billions
  const char* source;
};

const FamilyTable& table_of(BaseFamily family) {
  static constexpr const char* kTool = "NVIDIA NeMo Framework Launcher 24.12, auto-configurator";
  static const std::array<FamilyTable, 5> kTables{
      {{"gpt", kGptBands, 2048, 51200, 0.03, kTool},
       {"bert", kBertBands, 512, 30522, 0.03, kTool},
       {"t5", kT5Bands, 512, 29000, 0.02, kTool},
       {"llama", kLlamaBands, 4096, 128256, 0.3, "Llama 1, 2 and 3 (2302.13971, 2307.09288, 2407.21783)"},
       {"moe", kMoeBands, 4096, 32000, 1, "Mixtral (2401.04088) and Qwen3 (2505.09388)"}}};
  return kTables[static_cast<std::size_t>(family)];
}

const Band& band_of(const FamilyTable& table, double billions) {
  for (const Band& band : table.bands)
    if (billions < band.below || (band.inclusive && billions <= band.below)) return band;
  fail<ConfigError>("the table of {} ({}) ends at {:g}B parameters, got {:g}B: give at most that", table.name,
                    table.source, table.bands.back().below, billions);
}

// 24.12 auto_configurator: the first layer count that comes close enough, from powers of two, multiples of
// 16, even numbers, multiples of 5, then any. The tolerance grows in steps of a hundredth.
std::int64_t find_layers(double parameters, const std::function<double(std::int64_t)>& count,
                         std::int64_t most) {
  struct Kind {
    std::function<bool(std::int64_t)> is;
    int tolerance;
  };
  const Kind kinds[] = {{[](std::int64_t n) { return (n & (n - 1)) == 0; }, 10},
                        {[](std::int64_t n) { return n % 16 == 0; }, 6},
                        {[](std::int64_t n) { return n % 2 == 0; }, 6},
                        {[](std::int64_t n) { return n % 5 == 0; }, 6},
                        {[](std::int64_t) { return true; }, 10}};
  for (const Kind& kind : kinds)
    for (int percent = 1; percent <= kind.tolerance; ++percent)
      for (std::int64_t layers = 1; layers <= most; ++layers)
        if (kind.is(layers) && std::abs(count(layers) / parameters - 1) < percent / 100.0) return layers;
  std::int64_t best = 1;
  for (std::int64_t layers = 2; layers <= most; ++layers)
    if (std::abs(count(layers) - parameters) < std::abs(count(best) - parameters)) best = layers;
  return best;
}

// Encoder and decoder of `layers` each: self and cross attention, a gated MLP (24.12 auto_configurator).
double t5_parameters(const model::ModelConfig& m, std::int64_t layers) {
  const auto h = static_cast<double>(m.hidden_size), f = static_cast<double>(m.ffn_size()),
             p = static_cast<double>(m.num_attention_heads * m.head_size()), n = static_cast<double>(layers);
  return 2 * n * 1.5 * f + 3 * n * p +
         h * (2 + 4 * n * 1.5 * f + n * (21 + 12 * p) + static_cast<double>(m.encoder_seq_length) +
              static_cast<double>(*m.vocab_size));
}

double bert_parameters(const model::ModelConfig& m, std::int64_t layers) {
  const auto h = static_cast<double>(m.hidden_size), f = static_cast<double>(m.ffn_size()),
             n = static_cast<double>(layers);
  return n * (f + h * (4 * h + 3 * static_cast<double>(m.num_attention_heads) + 2 * f + 6)) +
         h * (static_cast<double>(*m.vocab_size + m.encoder_seq_length) + h + 5);
}

// Parameters of the GPT family, counted exactly. Layers are alike, so the total is affine in their number.
struct Counted {
  double base = 0, layer = 0, active_base = 0, active_layer = 0;
};
Counted count_gpt(model::ModelConfig config) {
  const auto at = [&](std::int64_t layers) {
    config.num_layers = layers;
    const model::ModelSpec spec = model::resolve_model(config);
    return std::pair(static_cast<double>(model::parameter_count(spec)),
                     static_cast<double>(model::active_parameter_count(spec)));
  };
  const auto [one, active_one] = at(1);
  const auto [two, active_two] = at(2);
  return {one - (two - one), two - one, active_one - (active_two - active_one), active_two - active_one};
}

model::ModelConfig shape(const BaseRequest& request, const FamilyTable& table, const Band& band) {
  model::ModelConfig m;
  m.hidden_size = band.hidden;
  m.num_attention_heads = band.heads;
  m.ffn_hidden_size = band.ffn;
  m.encoder_seq_length = request.sequence.value_or(table.sequence);
  m.vocab_size = request.vocabulary.value_or(table.vocabulary);
  if (band.head_size > 0) m.kv_channels = band.head_size;
  if (band.groups != band.heads) m.num_query_groups = band.groups;
  switch (request.family) {
    case BaseFamily::kGpt:
      m.activation = model::Activation::kGelu;
      m.init_method_std = 0.64 / std::sqrt(static_cast<double>(band.hidden));
      break;
    case BaseFamily::kBert:
      m.activation = model::Activation::kGelu;
      m.init_method_std = 0.64 / std::sqrt(static_cast<double>(band.hidden));
      break;
    case BaseFamily::kT5:
      m.activation = model::Activation::kGeglu;
      m.init_method_std = 0.015;
      break;
    case BaseFamily::kMoe:
      m.moe.num_moe_experts = band.experts;
      m.moe.moe_router_topk = band.top_k;
      m.moe.moe_aux_loss_coeff = 0.02;
      [[fallthrough]];
    case BaseFamily::kLlama:
      m.activation = model::Activation::kSwiglu;
      m.normalization = model::Normalization::kRmsNorm;
      m.position_embedding_type = model::PositionEmbedding::kRope;
      m.rotary_base = 500000;
      m.bias = model::BiasKind::kNone;
      // Llama 3.2's small models tie the embeddings, larger models do not.
      m.share_embeddings_and_output_weights =
          request.family == BaseFamily::kLlama && request.parameters < 4e9;
      break;
  }
  return m;
}

// 80 GB, 2048 tokens (T5, BERT: 512). Columns: upper limit in billions, global batch, TP, PP.
struct Degrees {
  double most;
  std::int64_t batch, tensor, pipeline;
};
constexpr Degrees kGptDegrees[] = {{1, 256, 1, 1},      {4, 1024, 1, 1},     {8, 2048, 2, 1},
                                   {13, 2048, 4, 1},    {20.6, 2048, 8, 1},  {45.6, 2048, 8, 2},
                                   {123.6, 2048, 8, 4}, {196.6, 2048, 8, 8}, {392.2, 2048, 8, 16},
                                   {735, 2048, 8, 32},  {1105, 2048, 8, 64}};
constexpr Degrees kT5Degrees[] = {{1, 2048, 1, 1},    {5, 1920, 2, 1},      {11.5, 1920, 4, 1},
                                  {18.5, 1920, 8, 1}, {25.9, 1920, 8, 2},   {43, 1920, 8, 4},
                                  {85.5, 1920, 8, 8}, {165.5, 1920, 8, 16}, {250, 1920, 8, 32}};
constexpr Degrees kBertDegrees[] = {{1, 256, 1, 1},     {3.2, 1024, 1, 1},   {8, 2048, 2, 1},
                                    {13, 2048, 4, 1},   {25.5, 2048, 8, 1},  {46.5, 2048, 8, 2},
                                    {87.5, 2048, 8, 4}, {165.5, 4096, 8, 8}, {250.5, 2048, 8, 16}};

Degrees degrees_of(const BaseRequest& request, double billions) {
  std::span<const Degrees> table = kGptDegrees;
  if (request.family == BaseFamily::kT5) table = kT5Degrees;
  if (request.family == BaseFamily::kBert) table = kBertDegrees;
  for (const Degrees& d : table)
    if (billions <= d.most) return d;
  return table.back();
}

std::string size_text(double parameters) {
  const double billions = parameters / 1e9;
  if (billions < 1) return fmt::format("{:.0f}m", billions * 1000);
  return fmt::format("{}b", std::round(billions * 10) / 10);
}

}  // namespace

namespace {

// FLOPs per token, forward and backward, of attention scores and values (GEMMs without weights).
double attention_flops(const BaseConfig& base) {
  const auto s = static_cast<double>(base.model.encoder_seq_length),
             width = static_cast<double>(base.model.num_attention_heads * base.model.head_size()),
             layers = static_cast<double>(base.model.num_layers);
  const double all = 12 * layers * width * s;  // every token sees every other
  if (base.family == BaseFamily::kBert) return all;
  if (base.family != BaseFamily::kT5) return all / 2;
  // Decoder: d tokens see half of each other, and all s of the encoder.
  const auto d = static_cast<double>(base.decoder_sequence);
  return all * (1 + d * d / (2 * s * s) + d / s);
}

// Weights that are applied to a token of the encoder, with its share of decoder tokens.
double met_parameters(const BaseConfig& base) {
  if (base.family != BaseFamily::kT5) return base.active_parameters;
  const auto h = static_cast<double>(base.model.hidden_size), f = static_cast<double>(base.model.ffn_size()),
             width = static_cast<double>(base.model.num_attention_heads * base.model.head_size()),
             layers = static_cast<double>(base.model.num_layers);
  const double share =
      static_cast<double>(base.decoder_sequence) / static_cast<double>(base.model.encoder_seq_length);
  const double side = 4 * h * width + 3 * h * f;  // of cross attention the encoder's tokens meet half
  return layers * (side * (1 + share) + 2 * h * width * (1 + share)) +
         share * h * static_cast<double>(*base.model.vocab_size);
}

}  // namespace

double BaseConfig::flops_per_token() const { return 6 * met_parameters(*this) + attention_flops(*this); }

double BaseConfig::flops_per_token(BaseRecompute recompute) const {
  switch (recompute) {
    case BaseRecompute::kNone:
      return flops_per_token();
    case BaseRecompute::kSelective:
      return flops_per_token() + attention_flops(*this) / 3;
    case BaseRecompute::kFull: {
      const double embeddings = static_cast<double>(model.hidden_size * *model.vocab_size) *
                                (family == BaseFamily::kT5                   ? 0.25
                                 : model.share_embeddings_and_output_weights ? 1
                                                                             : 2);
      return flops_per_token() + 2 * (met_parameters(*this) - embeddings) + attention_flops(*this) / 3;
    }
  }
  fail<InternalError>("unknown recomputation");
}

double flops_per_token(BaseRequest request, double parameters, BaseRecompute recompute) {
  const FamilyTable& table = table_of(request.family);
  request.parameters = std::clamp(parameters, table.smallest * 1e9, (table.bands.back().below - 1e-6) * 1e9);
  const BaseConfig base = base_config(request);
  return base.flops_per_token(recompute) / base.parameters * parameters;
}

BaseConfig base_config(const BaseRequest& request) {
  const FamilyTable& table = table_of(request.family);
  const double billions = request.parameters / 1e9;
  require<ConfigError>(billions >= table.smallest, "a {} of {} parameters: expected at least {:g}B",
                       table.name, format_count(request.parameters), table.smallest);
  require<ConfigError>(request.tokens > 0, "a training of {} tokens: expected more than 0", request.tokens);
  require<ConfigError>(request.device_gb >= 16, "devices of {} GB: expected at least 16", request.device_gb);
  const Band& band = band_of(table, billions);
  BaseConfig base;
  base.family = request.family;
  base.source = table.source;
  base.model = shape(request, table, band);
  base.tokens = request.tokens;

  model::ModelConfig& m = base.model;
  if (request.family == BaseFamily::kT5 || request.family == BaseFamily::kBert) {
    const auto count = [&](std::int64_t layers) {
      return request.family == BaseFamily::kT5 ? t5_parameters(m, layers) : bert_parameters(m, layers);
    };
    m.num_layers = find_layers(request.parameters, count, 199);
    base.parameters = base.active_parameters = count(m.num_layers);
    if (request.family == BaseFamily::kT5) base.decoder_sequence = m.encoder_seq_length / 4;
  } else {
    const Counted counted = count_gpt(m);
    m.num_layers = find_layers(
        request.parameters,
        [&](std::int64_t layers) { return counted.base + counted.layer * static_cast<double>(layers); }, 199);
    const auto layers = static_cast<double>(m.num_layers);
    base.parameters = counted.base + counted.layer * layers;
    base.active_parameters = counted.active_base + counted.active_layer * layers;
  }
  base.name = fmt::format("{}-{}", table.name, size_text(request.parameters));

  base.lr = band.lr;
  base.min_lr = band.lr / 10;
  const Degrees degrees = degrees_of(request, base.parameters / 1e9);
  base.tensor = degrees.tensor;
  base.pipeline = degrees.pipeline;
  base.global_batch = degrees.batch;
  if (request.family != BaseFamily::kT5 && request.family != BaseFamily::kBert)  // tokens per step stay
    base.global_batch = std::max<std::int64_t>(1, degrees.batch * 2048 / m.encoder_seq_length);
  if (request.device_gb < 80) (base.tensor < 8 ? base.tensor : base.pipeline) *= 2;
  while (m.num_layers % base.pipeline != 0) base.pipeline /= 2;
  base.sequence_parallel = base.parameters > 13e9 && base.tensor > 1;
  base.micro_batch = request.family == BaseFamily::kT5 ? 8 : base.parameters < 10e9 ? 4 : 1;
  base.max_steps = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(
             std::llround(request.tokens / static_cast<double>(m.encoder_seq_length * base.global_batch))));
  const auto steps = static_cast<double>(base.max_steps);
  if (request.family == BaseFamily::kT5) {
    base.warmup_steps = std::llround(0.01 * steps);
  } else if (request.family == BaseFamily::kGpt || request.family == BaseFamily::kBert) {
    base.warmup_steps = std::llround(0.0015 * steps);
    base.constant_steps = std::llround(0.166 * steps);
  } else {
    base.warmup_steps = std::min<std::int64_t>(2000, std::llround(0.01 * steps));
  }
  base.warmup_steps = std::max<std::int64_t>(1, base.warmup_steps);
  if (request.family == BaseFamily::kGpt || request.family == BaseFamily::kT5 ||
      request.family == BaseFamily::kBert)
    base.dropout = 0.1;
  if (request.family == BaseFamily::kBert) base.beta2 = 0.98;
  if (request.family == BaseFamily::kT5) base.beta2 = 0.999;
  if (request.family == BaseFamily::kBert || request.family == BaseFamily::kT5) base.weight_decay = 0.01;
  return base;
}

namespace {

std::string bool_text(bool value) { return value ? "true" : "false"; }

void write_shape(const BaseConfig& base, std::string& out) {
  const model::ModelConfig& m = base.model;
  const auto line = [&](std::string_view key, const auto& value) {
    out += fmt::format("  {}: {}\n", key, value);
  };
  const bool t5 = base.family == BaseFamily::kT5;
  line("num_layers", t5 ? 2 * m.num_layers : m.num_layers);  // T5: of both stacks
  line("hidden_size", m.hidden_size);
  line("ffn_hidden_size", m.ffn_size());
  line("num_attention_heads", m.num_attention_heads);
  if (m.num_query_groups) line("num_query_groups", *m.num_query_groups);
  if (m.kv_channels) line("kv_channels", *m.kv_channels);
  line("encoder_seq_length", m.encoder_seq_length);
  line("vocab_size", *m.vocab_size);
  line("init_method_std", fmt::format("{:.4g}", m.init_method_std));
  line("hidden_dropout", base.dropout);
  line("attention_dropout", base.dropout);
  if (base.family == BaseFamily::kGpt || base.family == BaseFamily::kBert) line("activation", "gelu");
  if (t5) {
    line("activation", "geglu_tanh");
    line("normalization", "rmsnorm");
    line("position_embedding_type", "relative");
    line("bias", "none");
    line("t5", fmt::format("{{seq_length_dec: {}}}", base.decoder_sequence));
  }
  if (base.family != BaseFamily::kLlama && base.family != BaseFamily::kMoe) return;
  line("activation", "swiglu");
  line("normalization", "rmsnorm");
  line("position_embedding_type", "rope");
  line("rotary_base", m.rotary_base);
  line("bias", "none");
  line("share_embeddings_and_output_weights", bool_text(m.share_embeddings_and_output_weights));
  if (base.family != BaseFamily::kMoe) return;
  line("num_moe_experts", *m.moe.num_moe_experts);
  line("moe_router_topk", m.moe.moe_router_topk);
  line("moe_aux_loss_coeff", m.moe.moe_aux_loss_coeff);
}

}  // namespace

std::string to_yaml(const BaseConfig& base) {
  const bool all_meet = base.active_parameters == base.parameters;
  std::string out = fmt::format(
      "# {} parameters{}, {} tokens. Shape, batch, learning rate and degrees: {}.\n"
      "# A start: 'stoa plan search' finds the degrees for a machine.\n",
      format_count(base.parameters),
      all_meet ? "" : fmt::format(", of which {} are active per token", format_count(base.active_parameters)),
      format_count(base.tokens), base.source);
  out += fmt::format(
      "# Compute-optimal for this size: about {} tokens (20 per parameter, Hoffmann et al. 2022, "
      "2203.15556); more "
      "make a\n# better model of the same size.\n",
      format_count(compute_optimal_tokens(base.active_parameters)));
  out += fmt::format("name: {}\n", base.name);
  out += fmt::format("trainer: {{max_steps: {}, precision: bf16, gradient_clip_val: 1.0}}\n", base.max_steps);
  out += "model:\n";
  if (base.family == BaseFamily::kBert) out += "  kind: bert\n";
  if (base.family == BaseFamily::kT5) out += "  kind: t5\n";
  out +=
      fmt::format("  micro_batch_size: {}\n  global_batch_size: {}\n", base.micro_batch, base.global_batch);
  out += fmt::format("  tensor_model_parallel_size: {}\n  pipeline_model_parallel_size: {}\n", base.tensor,
                     base.pipeline);
  out += fmt::format("  sequence_parallel: {}\n", bool_text(base.sequence_parallel));
  write_shape(base, out);
  const bool t5 = base.family == BaseFamily::kT5;
  out += fmt::format(
      "  optim:\n    name: adamw\n    lr: {:g}\n    weight_decay: {:g}\n    betas: [0.9, {:g}]\n    sched: "
      "{{name: {}, "
      "warmup_steps: {}, constant_steps: {}, min_lr: {:g}}}\n",
      base.lr, base.weight_decay, base.beta2, t5 ? "WarmupAnnealing" : "CosineAnnealing", base.warmup_steps,
      base.constant_steps, base.min_lr);
  return out;
}

double compute_optimal_tokens(double parameters) { return 20 * parameters; }
double compute_optimal_parameters(double flops) { return std::sqrt(flops / (6 * 20)); }

}  // namespace stoa::plan
