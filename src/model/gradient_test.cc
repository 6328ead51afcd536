// Gradients of whole models against central differences in fp64, on the reference backend.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "model/adapter_plan.h"
#include "model/test_model.h"

namespace stoa::model {
namespace {

using testing::Batch;
using testing::Model;

ModelConfig tiny() {
  ModelConfig c;
  c.num_layers = 2;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.ffn_hidden_size = 12;
  c.encoder_seq_length = 6;
  c.vocab_size = 11;
  c.make_vocab_size_divisible_by = 4;
  c.init_method_std = 0.3;
  return c;
}

ModelConfig llama() {
  ModelConfig c = tiny();
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kRmsNorm;
  c.activation = Activation::kSwiglu;
  c.bias = BiasKind::kNone;
  c.share_embeddings_and_output_weights = false;
  return c;
}

ModelConfig bert() {
  ModelConfig c = tiny();
  c.kind = ModelKind::kBert;
  c.activation = Activation::kGelu;
  c.layernorm_epsilon = 1e-12;
  return c;
}

ChunkOptions options_for(const ModelConfig& c, std::int64_t rows) {
  ChunkOptions o;
  o.layers = c.num_layers;
  o.precision = testing::fp64();
  o.tokens = rows * c.encoder_seq_length;
  return o;
}

struct Case {
  const char* name;
  ModelConfig config;
  std::vector<std::int64_t> documents = {};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  std::vector<Case> out;
  out.push_back({"gpt2", tiny()});
  for (const bool fused : {true, false}) {
    Case lora{fused ? "lora_of_fused_matrices" : "lora_of_pieces", fused ? tiny() : llama()};
    lora.config.peft.peft_scheme = PeftScheme::kLora;
    lora.config.peft.lora.adapter_dim = 2;
    lora.config.peft.lora.alpha = 3;
    lora.config.peft.lora.adapter_dropout = 0.2;
    lora.config.peft.lora.alpha_pattern = {"mlp.up=5"};
    if (!fused) lora.config.peft.lora.rank_pattern = {"v_proj=3"};
    out.push_back(lora);
    lora.name = fused ? "dora_of_fused_matrices" : "dora_of_pieces";
    lora.config.peft.lora.use_dora = true;
    lora.config.peft.lora.adapter_dropout = fused ? 0 : 0.2;
    lora.config.peft.lora.bias = AdapterBias::kAll;
    // Columns that are not scaled.
    lora.config.peft.lora.exclude_modules = {fused ? "attention.out" : "k_proj"};
    lora.config.peft.modules_to_save = {fused ? "wte" : "embed_tokens"};  // below all layers
    out.push_back(lora);
  }
  for (const bool fused : {true, false}) {
    Case packed{fused ? "lora_on_8_bits" : "ia3_on_8_bits", fused ? tiny() : llama()};
    packed.config.peft.peft_scheme = fused ? PeftScheme::kLora : PeftScheme::kIa3;
    packed.config.peft.quantize_base = BaseFormat::kInt8;
    packed.config.peft.lora.adapter_dim = 2;
    packed.config.peft.modules_to_save = {fused ? "wte" : "embed_tokens"};  // below all layers
    out.push_back(packed);
  }
  for (const bool tied : {true, false}) {
    Case tokens{tied ? "lora_of_tokens_tied" : "lora_of_tokens", llama()};
    tokens.config.share_embeddings_and_output_weights = tied;
    tokens.config.apply_embedding_scaling = tied;
    tokens.config.embedding_dropout = 0.1;
    tokens.config.final_logit_softcapping = tied ? std::optional(5.0) : std::nullopt;
    tokens.config.peft.peft_scheme = PeftScheme::kLora;
    tokens.config.peft.lora.adapter_dim = 2;
    tokens.config.peft.lora.alpha = 3;
    tokens.config.peft.lora.adapter_dropout = 0.2;
    tokens.config.peft.lora.target_modules = {"attention.v", "embedding.tokens", "head"};
    tokens.config.peft.lora.rank_pattern = {"head=3"};
    out.push_back(tokens);
  }
  const auto bottleneck = [&](const char* name, ModelConfig config, BottleneckType type) {
    Case one{name, std::move(config)};
    one.config.peft.peft_scheme = PeftScheme::kAdapter;
    one.config.peft.bottleneck.type = type;
    one.config.peft.bottleneck.adapter_dim = 3;
    one.config.peft.bottleneck.scaling = 1.5;
    // Relu has no derivative at zero, near which differences may step.
    one.config.peft.bottleneck.non_linearity = BottleneckActivation::kSwish;
    one.config.hidden_dropout = 0.1;
    out.push_back(one);
  };
  for (const auto& [type, names] :
       {std::pair(BottleneckType::kSequential, std::array{"pfeiffer", "pfeiffer_parallel", "pfeiffer_bert"}),
        std::pair(BottleneckType::kDoubleSequential,
                  std::array{"houlsby", "houlsby_parallel", "houlsby_bert"}),
        std::pair(BottleneckType::kParallel, std::array{"beside", "beside_parallel", "beside_bert"})}) {
    bottleneck(names[0], llama(), type);
    ModelConfig parallel = tiny();
    parallel.use_parallel_residual = true;
    parallel.num_ln_in_parallel_attn = 1;
    bottleneck(names[1], parallel, type);
    bottleneck(names[2], bert(), type);
  }
  Case words{"lora_of_tokens_of_an_encoder", bert()};
  words.config.hidden_dropout = words.config.embedding_dropout = 0.1;
  words.config.peft.peft_scheme = PeftScheme::kLora;
  words.config.peft.lora.adapter_dim = 2;
  words.config.peft.lora.target_modules = {"embedding.tokens"};
  out.push_back(words);
  for (const bool tied : {true, false}) {
    Case rows{tied ? "rows_of_tokens_tied" : "rows_of_tokens", llama()};
    rows.config.share_embeddings_and_output_weights = tied;
    rows.config.apply_embedding_scaling = tied;
    rows.config.embedding_dropout = 0.1;
    rows.config.final_logit_softcapping = tied ? std::optional(5.0) : std::nullopt;
    rows.config.peft.peft_scheme = PeftScheme::kLora;
    rows.config.peft.lora.adapter_dim = 2;
    rows.config.peft.trainable_token_indices = {1, 2, 5};
    out.push_back(rows);
  }
  for (const bool fused : {true, false}) {
    Case ia3{fused ? "ia3_of_fused_matrices" : "ia3_of_pieces", fused ? tiny() : llama()};
    ia3.config.peft.peft_scheme = PeftScheme::kIa3;
    ia3.config.peft.modules_to_save = {fused ? "wte" : "embed_tokens"};  // below all layers
    if (!fused) {
      ia3.config.peft.ia3.target_modules = {"q_proj", "v_proj", "o_proj", "up_proj", "down_proj"};
      ia3.config.peft.ia3.feedforward_modules = {"o_proj"};
    }
    out.push_back(ia3);
  }
  out.push_back({"llama", llama()});
  Case c{"grouped", llama()};
  c.config.num_attention_heads = 4;
  c.config.num_query_groups = 2;
  c.config.kv_channels = 6;  // heads * size differs from hidden
  out.push_back(c);
  c = {"multi_query_tied", llama()};
  c.config.num_query_groups = 1;
  c.config.share_embeddings_and_output_weights = true;
  out.push_back(c);
  c = {"window", llama()};
  c.config.window_size = 2;
  c.config.window_first_layer = 1;
  out.push_back(c);
  c = {"qk_norm", llama()};
  c.config.qk_layernorm = true;
  c.config.num_query_groups = 1;
  out.push_back(c);
  c = {"qk_layernorm_qkv_bias", tiny()};
  c.config.qk_layernorm = true;
  c.config.bias = BiasKind::kQkv;
  out.push_back(c);
  c = {"biases_by_part_window_list", llama()};
  c.config.attention_output_bias = c.config.mlp_bias = true;
  c.config.window_size = 2;
  c.config.num_layers = 3;
  c.config.window_layers = {0, 2};
  out.push_back(c);
  c = {"odd_rotary_part", tiny()};
  c.config.position_embedding_type = PositionEmbedding::kRope;
  c.config.rotary_percentage = 0.75;  // 3 channels of 4: two pairs
  out.push_back(c);
  c = {"partial_rotary_untied", tiny()};
  c.config.position_embedding_type = PositionEmbedding::kRope;
  c.config.rotary_percentage = 0.5;
  c.config.share_embeddings_and_output_weights = false;
  out.push_back(c);
  c = {"geglu_no_positions", tiny()};
  c.config.position_embedding_type = PositionEmbedding::kNone;
  c.config.activation = Activation::kGeglu;
  out.push_back(c);
  c = {"dropout", tiny()};
  c.config.hidden_dropout = 0.2;
  c.config.attention_dropout = 0.3;
  c.config.embedding_dropout = 0.1;
  out.push_back(c);
  c = {"parallel_residual", tiny()};
  c.config.use_parallel_residual = true;
  c.config.position_embedding_type = PositionEmbedding::kRope;
  c.config.rotary_percentage = 0.5;
  c.config.hidden_dropout = 0.2;
  out.push_back(c);
  c = {"norms_after_qk_norm_all_heads", llama()};
  c.config.norm_placement = NormPlacement::kAfter;
  c.config.qk_layernorm = c.config.qk_layernorm_all_heads = true;
  c.config.num_query_groups = 1;
  c.config.hidden_dropout = 0.2;
  out.push_back(c);
  c = {"norms_before_and_after", tiny()};
  c.config.norm_placement = NormPlacement::kBoth;
  out.push_back(c);
  c = {"gemma", llama()};
  c.config.norm_placement = NormPlacement::kBoth;
  c.config.share_embeddings_and_output_weights = true;
  c.config.window_size = 2;
  c.config.window_attn_skip_freq = 2;
  c.config.rope_local_base_freq = 50;
  c.config.query_pre_attn_scalar = 5;
  c.config.attn_logit_softcapping = 0.5;
  c.config.final_logit_softcapping = 0.5;
  c.config.apply_embedding_scaling = true;
  c.config.activation = Activation::kGegluTanh;
  out.push_back(c);
  c = {"alibi_embedding_norm", tiny()};
  c.config.position_embedding_type = PositionEmbedding::kAlibi;
  c.config.embedding_layernorm = true;
  c.config.embedding_dropout = 0.2;
  out.push_back(c);
  c = {"experts", llama()};
  c.config.moe.num_moe_experts = 4;
  c.config.moe.moe_ffn_hidden_size = 6;
  c.config.moe.moe_z_loss_coeff = 0;
  out.push_back(c);
  c.name = "experts_with_capacity";
  c.config.moe.moe_expert_capacity_factor = 0.7;
  out.push_back(c);
  c = {"shared_experts_sigmoid", llama()};
  c.config.moe.num_moe_experts = 6;
  c.config.moe.moe_router_topk = 3;
  c.config.moe.moe_router_score_function = RouterScoreFunction::kSigmoid;
  c.config.moe.moe_router_topk_scaling_factor = 1.5;
  c.config.moe.moe_shared_expert_intermediate_size = 5;
  c.config.moe.moe_dense_layers = {0};
  out.push_back(c);
  c = {"gpt_oss", llama()};
  c.config.bias = BiasKind::kAll;
  c.config.attention_sinks = true;
  c.config.activation = Activation::kClampedSwiglu;
  c.config.activation_limit = 0.6;  // near the values of a tiny model
  c.config.window_size = 2;
  c.config.window_attn_skip_freq = 2;
  c.config.moe.num_moe_experts = 4;
  c.config.moe.moe_ffn_hidden_size = 6;
  c.config.attention_dropout = 0.3;
  out.push_back(c);
  c = {"sinks_clamped_dense", tiny()};
  c.config.attention_sinks = true;
  c.config.activation = Activation::kClampedSwiglu;
  c.config.activation_limit = 0.1;
  out.push_back(c);
  c = {"latent_attention", llama()};
  c.config.latent = {true, 5, 3, 4, 2, 3};
  out.push_back(c);
  c = {"latent_attention_plain_queries_yarn", llama()};
  c.config.latent = {true, {}, 3, 2, 4, 6};
  c.config.rope_scaling.type = RopeScaling::kYarn;
  c.config.rope_scaling.factor = 4;
  c.config.rope_scaling.original_max_position_embeddings = 4;
  c.config.rope_scaling.mscale = c.config.rope_scaling.mscale_all_dim = 1;
  c.config.attention_dropout = 0.3;
  out.push_back(c);
  c = {"smoothed_and_z_loss", llama()};
  c.config.label_smoothing = 0.2;
  c.config.z_loss_coeff = 0.1;
  c.config.final_logit_softcapping = 0.5;
  out.push_back(c);
  c = {"multipliers", llama()};
  c.config.embedding_multiplier = 3;
  c.config.residual_multiplier = 0.4;
  c.config.softmax_scale = 0.7;
  c.config.logit_scale = 0.6;
  c.config.hidden_dropout = 0.2;
  out.push_back(c);
  c = {"one_norm_without_bias", tiny()};
  c.config.use_parallel_residual = true;
  c.config.num_ln_in_parallel_attn = 1;
  c.config.norm_bias = false;
  c.config.residual_multiplier = 0.7;
  out.push_back(c);
  c = {"qk_norm_after_rope_but_in_one_layer", llama()};
  c.config.qk_layernorm = c.config.qk_layernorm_after_rope = true;
  c.config.no_rope_layers = {1};
  c.config.num_query_groups = 1;
  out.push_back(c);
  c = {"first_position_head_bias", tiny()};
  c.config.first_position = 2;
  c.config.lm_head_bias = true;
  out.push_back(c);
  c = {"shared_expert_gate", llama()};
  c.config.moe.num_moe_experts = 4;
  c.config.moe.moe_shared_expert_intermediate_size = 5;
  c.config.moe.moe_shared_expert_gate = true;
  c.config.residual_multiplier = 0.7;
  out.push_back(c);
  c = {"output_gate", llama()};
  c.config.attention_output_gate = true;
  c.config.num_query_groups = 1;
  c.config.attention_dropout = 0.2;
  out.push_back(c);
  c = {"linear_attention", llama()};
  c.config.linear.linear_attention_layers = {0};
  c.config.linear.linear_num_key_heads = 2;
  c.config.linear.linear_num_value_heads = 4;
  c.config.linear.linear_key_head_dim = 3;
  c.config.linear.linear_value_head_dim = 5;
  c.config.linear.linear_conv_kernel_dim = 3;
  c.config.hidden_dropout = 0.1;
  out.push_back(c);
  c.name = "linear_attention_packed_gate_experts";
  c.documents = {2, 3, 1};
  c.config.attention_output_gate = c.config.qk_layernorm = true;
  c.config.moe.num_moe_experts = 4;
  c.config.moe.moe_ffn_hidden_size = 6;
  c.config.moe.moe_shared_expert_intermediate_size = 5;
  c.config.moe.moe_shared_expert_gate = true;
  out.push_back(c);
  out.push_back({"bert", bert()});
  c = {"bert_smoothed_and_z_loss", bert()};
  c.config.label_smoothing = 0.2;
  c.config.z_loss_coeff = 0.1;
  out.push_back(c);
  c = {"bert_dropout_no_sentences", bert()};
  c.config.bert.binary_head = false;
  c.config.bert.num_token_types = 3;
  c.config.bert.first_position = 2;
  c.config.hidden_dropout = 0.2;
  c.config.attention_dropout = 0.3;
  c.config.embedding_dropout = 0.1;
  out.push_back(c);
  c = {"bert_of_megatron", bert()};
  c.config.bert.pre_norm = true;
  c.config.bert.embedding_norm = false;
  c.config.bert.head_activation = Activation::kSilu;
  c.config.hidden_dropout = 0.2;
  c.config.embedding_dropout = 0.1;
  out.push_back(c);
  c = {"encoder_with_windows", bert()};
  c.config.bert = {};
  c.config.bert.binary_head = false;
  c.config.bert.num_token_types = 0;
  c.config.bert.pre_norm = true;
  c.config.bert.classifier_bias = false;
  c.config.position_embedding_type = PositionEmbedding::kRope;
  c.config.activation = Activation::kGeglu;
  c.config.norm_bias = false;
  c.config.bias = BiasKind::kNone;
  c.config.window_size = 2;
  c.config.window_attn_skip_freq = 2;
  c.config.rope_local_base_freq = 50;
  out.push_back(c);
  c = {"encoder_with_relative_bias", bert()};
  c.config.bert.binary_head = false;
  c.config.bert.num_token_types = 0;
  c.config.bert.relative_attention_num_buckets = 8;
  c.config.bert.first_position = 2;
  out.push_back(c);
  c = {"norms_without_weights", llama()};
  c.config.normalization = Normalization::kLayerNorm;
  c.config.norm_weight = c.config.norm_bias = false;
  out.push_back(c);
  c = {"packed", llama()};
  c.documents = {2, 3, 1};
  out.push_back(c);
  return out;
}

// Norms are constants to the gradients (nn/low_rank.h). Magnitudes that move with the norms make them
// constants to the differences, too.
class ConstantNorms {
 public:
  ConstantNorms(Model& model, const ModelSpec& spec) : model_(model), spec_(spec) {
    if (active()) visit([&](std::size_t, double norm, double& m) { factors_.push_back(m / norm); });
  }
  void follow() {
    if (active()) visit([&](std::size_t row, double norm, double& m) { m = factors_[row] * norm; });
  }

 private:
  bool active() const { return spec_.adapters && spec_.adapters->config().lora.use_dora; }
  double* values(const std::string& name) { return model_.canonical_view(name).as<double>(); }
  template <class Body>
  void visit(const Body& body) {
    std::size_t row = 0;
    for (const AdaptedModule& module : spec_.adapters->modules()) {
      const double* const a = values(module.linear.name + ".lora_A.weight");
      for (const auto& piece : module.linear.pieces) {
        const double *const w = values(piece.name + ".weight"), *const b =
                                                                    values(piece.name + ".lora_B.weight");
        double* const m = values(piece.name + ".lora_magnitude_vector");
        for (std::int64_t o = 0; o < piece.outputs; ++o) {
          double squares = 0;
          for (std::int64_t i = 0; i < module.linear.inputs; ++i) {
            double v = w[o * module.linear.inputs + i];
            for (std::int64_t k = 0; k < module.rank; ++k)
              v += module.scale * b[o * module.rank + k] * a[k * module.linear.inputs + i];
            squares += v * v;
          }
          body(row++, std::sqrt(squares), m[o]);
        }
      }
    }
  }

  Model& model_;
  const ModelSpec& spec_;
  std::vector<double> factors_;
};

class Gradient : public ::testing::TestWithParam<Case> {};

TEST_P(Gradient, EqualsCentralDifferences) {
  const ModelConfig& config = GetParam().config;
  const ModelSpec spec = resolve_model(config);
  Model model(spec, options_for(config, 2), testing::reference());
  model.initialize_all(5);
  // Norms, biases and adapters away from one and zero, so that an exchanged or missing one shows.
  for (const auto& tensor : canonical_tensors(spec)) {
    if (tensor.shape.rank() != 1 && !tensor.adapter) continue;
    const TensorView view = model.canonical_view(tensor.name);
    const PhiloxKey key = philox_key(9, RandomPurpose::kTest, tensor.name);
    for (std::int64_t i = 0; i < view.elements(); ++i)
      view.as<double>()[i] += 0.2 * philox_normal(key, static_cast<std::uint64_t>(i));
  }
  const bool masked = config.kind == ModelKind::kBert;
  Batch batch = masked ? Batch::masked({6, 4}, 6, 11, 1)
                       : Batch(2, testing::ids(12, 11, 1), testing::ids(12, 11, 2), GetParam().documents);
  if (!masked) batch.mask[3] = batch.mask[8] = 0;
  const double loss = model.step(batch);
  ASSERT_TRUE(std::isfinite(loss));
  // Gradients first: the steps of the differences overwrite them.
  std::map<std::string, std::vector<double>> analytic;
  for (const auto& tensor : canonical_tensors(spec))
    analytic[tensor.name] = model.canonical(tensor.name, true);
  ConstantNorms norms(model, spec);
  const auto loss_now = [&](const std::string& changed) {
    if (changed.find(".lora_A.") != std::string::npos || changed.find(".lora_B.") != std::string::npos)
      norms.follow();
    return model.step(batch);
  };
  for (const auto& tensor : canonical_tensors(spec)) {
    const TensorView view = model.canonical_view(tensor.name);
    const auto& gradient = analytic[tensor.name];
    EXPECT_EQ(gradient.empty(), !tensor.trained) << tensor.name;
    if (!tensor.trained) continue;
    double norm = 0;
    for (const double g : gradient) norm += g * g;
    // Softmax does not see a bias of k.
    EXPECT_TRUE(norm > 0 || tensor.name.ends_with("k.bias")) << tensor.name;
    const std::int64_t stride = std::max<std::int64_t>(1, view.elements() / 5);
    for (std::int64_t i = 0; i < view.elements(); i += stride) {
      constexpr double kStep = 1e-5;
      const double before = view.as<double>()[i];
      view.as<double>()[i] = before + kStep;
      const double above = loss_now(tensor.name);
      view.as<double>()[i] = before - kStep;
      const double below = loss_now(tensor.name);
      view.as<double>()[i] = before;
      loss_now(tensor.name);
      const double numeric = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], numeric, 1e-8 + 1e-6 * std::abs(numeric))
          << tensor.name << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Options, Gradient, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

// With 16-bit products and the stream in fp32: along the gradient the loss changes by what the gradient says.
// The change of every weight is taken as it is stored.
struct MixedCase {
  const char* name;
  nn::Precision precision;
  bool cpu;
};

class MixedGradient : public ::testing::TestWithParam<MixedCase> {};

TEST_P(MixedGradient, PredictsTheChangeOfTheLoss) {
  for (const ModelConfig& config : {tiny(), llama(), bert()}) {
    const ModelSpec spec = resolve_model(config);
    ChunkOptions options = options_for(config, 2);
    options.precision = GetParam().precision;
    Model model(spec, options, GetParam().cpu ? testing::cpu() : testing::reference());
    model.initialize_all(5);
    Batch batch = config.kind == ModelKind::kBert
                      ? Batch::masked({6, 4}, 6, 11, 1)
                      : Batch(2, testing::ids(12, 11, 1), testing::ids(12, 11, 2));
    ASSERT_TRUE(std::isfinite(model.step(batch)));
    const auto tensors = canonical_tensors(spec);
    std::map<std::string, std::vector<double>> gradient;
    double squares = 0;
    for (const auto& tensor : tensors) {
      gradient[tensor.name] = model.canonical(tensor.name, true);
      for (const double g : gradient[tensor.name]) squares += g * g;
    }
    // Moves every weight by `step` along the gradient of length one; returns gradient x movement.
    std::map<std::string, std::vector<double>> start;
    for (const auto& tensor : tensors) start[tensor.name] = model.canonical(tensor.name);
    const auto move = [&](double step) {
      double predicted = 0;
      for (const auto& tensor : tensors) {
        const TensorView view = model.canonical_view(tensor.name);
        const auto& g = gradient[tensor.name];
        const auto& w = start[tensor.name];
        dispatch_float(view.dtype, [&]<class T>() {
          for (std::size_t i = 0; i < g.size(); ++i) {
            const double target = w[i] + step * g[i] / std::sqrt(squares);
            T stored;
            if constexpr (std::is_same_v<T, double>)
              stored = target;
            else
              stored = T(static_cast<float>(target));
            view.as<T>()[i] = stored;
            double now;
            if constexpr (std::is_same_v<T, double>)
              now = stored;
            else
              now = static_cast<double>(static_cast<float>(stored));
            predicted += g[i] * (now - w[i]);
          }
        });
      }
      return predicted;
    };
    constexpr double kStep = 0.05;
    const double up = move(kStep), above = model.step(batch);
    const double down = move(-kStep), below = model.step(batch);
    ASSERT_GT(up - down, 0.02);
    EXPECT_NEAR((above - below) / (up - down), 1, 0.03) << "change of the loss " << above - below;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MixedGradient,
                         ::testing::Values(MixedCase{"bf16_fp32_stream", {DType::kBF16, DType::kF32}, false},
                                           MixedCase{"fp16_fp32_stream", {DType::kF16, DType::kF32}, false},
                                           MixedCase{"bf16", {DType::kBF16, DType::kBF16}, false},
                                           MixedCase{
                                               "cpu_bf16_fp32_stream", {DType::kBF16, DType::kF32}, true},
                                           MixedCase{"cpu_fp32", {DType::kF32, DType::kF32}, true}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace stoa::model
