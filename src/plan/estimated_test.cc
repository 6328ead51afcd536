// What Stoa does not train and plans estimate for Megatron-LM: state-space layers, multi-token prediction,
// weights and optimizer state in few bits, recomputation of single modules.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/test_paths.h"
#include "model/config.h"
#include "plan/estimate_text.h"
#include "plan/memory_estimate.h"
#include "plan/predict.h"
#include "plan/workload.h"

namespace stoa::plan {
namespace {

Cluster h100() { return load_cluster("dgx-h100", test::source_dir() / "configs/clusters"); }

struct Planned {
  model::ModelConfig model;
  model::EstimatedConfig estimated;

  Workload workload(std::int64_t vocabulary) const {
    Workload w;
    w.model = shape_of(model, vocabulary);
    add_estimated(estimated, w);
    return w;
  }
  double parameters(std::int64_t vocabulary) const { return workload(vocabulary).model.parameters(); }
};

// Nemotron-H and Nemotron Nano 2 (2504.03624, 2508.14444): layers of one branch each.
Planned nemotron_h(std::int64_t hidden, std::int64_t heads, std::int64_t ffn, const char* pattern,
                   std::int64_t state) {
  Planned out;
  model::ModelConfig& c = out.model;
  out.estimated.hybrid_override_pattern = pattern;
  c.num_layers = static_cast<std::int64_t>(out.estimated.hybrid_override_pattern.size());
  c.hidden_size = hidden;
  c.num_attention_heads = heads;
  c.num_query_groups = 8;
  c.ffn_hidden_size = ffn;
  c.activation = model::Activation::kSquaredRelu;
  c.bias = model::BiasKind::kNone;
  c.normalization = model::Normalization::kRmsNorm;
  c.position_embedding_type = model::PositionEmbedding::kNone;
  c.share_embeddings_and_output_weights = false;
  c.encoder_seq_length = 8192;
  out.estimated.mamba_state_dim = state;
  return out;
}

constexpr const char* k8B = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";
constexpr const char* k56B =
    "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-"
    "M-M*-"
    "M-M-M-M-M-";

Workload on_ranks(const Planned& c, std::int64_t tp, std::int64_t dp) {
  Workload w = c.workload(131072);
  w.tp = tp;
  w.dp = dp;
  w.global_batch = dp;
  w.zero_stage = 1;
  w.sequence_parallel = tp > 1;
  return w;
}

TEST(Estimated, ParametersOfModelsWithStateSpaceLayers) {
  EXPECT_NEAR(nemotron_h(4096, 32, 21504, k8B, 128).parameters(131072), 8.1e9, 0.1e9);
  EXPECT_NEAR(nemotron_h(8192, 64, 32768, k56B, 256).parameters(131072), 56.3e9, 0.6e9);
  Planned nano =
      nemotron_h(5120, 40, 20480, "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-", 128);
  nano.model.kv_channels = 128;
  nano.estimated.mamba_num_heads = 128;
  nano.estimated.mamba_head_dim = 80;
  EXPECT_NEAR(nano.parameters(131072), 12.3e9, 0.15e9);
  // Mamba 2 alone, 2.7 billion (2405.21060), with a head of its own.
  Planned mamba;
  mamba.model.num_layers = 64;
  mamba.model.hidden_size = 2560;
  mamba.model.num_attention_heads = 1;
  mamba.model.bias = model::BiasKind::kNone;
  mamba.model.position_embedding_type = model::PositionEmbedding::kNone;
  mamba.estimated.hybrid_override_pattern = std::string(64, 'M');
  mamba.estimated.mamba_num_groups = 1;
  EXPECT_NEAR(mamba.parameters(50280), 2.70e9, 0.03e9);
}

// A hybrid with as many attention layers and MLPs as a transformer has of both is that transformer.
TEST(Estimated, LayersOfOneBranchAreHalvesOfATransformers) {
  Planned whole = nemotron_h(4096, 32, 16384, "", 128);
  whole.model.num_layers = 16;
  std::string pattern;
  for (int i = 0; i < 16; ++i) pattern += "*-";
  const Planned halves = nemotron_h(4096, 32, 16384, pattern.c_str(), 128);
  const Workload a = on_ranks(whole, 2, 8), b = on_ranks(halves, 2, 8);
  EXPECT_NEAR(a.model.parameters() / b.model.parameters(), 1, 1e-12);
  EXPECT_NEAR(model_flops(a) / model_flops(b), 1, 1e-12);
  EXPECT_NEAR(estimate_memory(a).activations / estimate_memory(b).activations, 1, 1e-12);
  EXPECT_NEAR(predict(a, h100(), {}).seconds / predict(b, h100(), {}).seconds, 1, 0.01);
}

TEST(Estimated, StateSpaceLayersCountInMemoryAndTime) {
  const Planned c = nemotron_h(4096, 32, 21504, k8B, 128);
  const Workload w = on_ranks(c, 2, 32);
  const auto with = [&](auto change) {
    Planned other = c;
    change(other.estimated);
    return on_ranks(other, 2, 32);
  };
  const Workload state = with([](auto&e) { e.mamba_state_dim = 256; }),
                 heads = with([](auto&e) { e.mamba_num_heads = 256; }),
                 rows = with([](auto&e) { e.mamba_num_heads = 128, e.mamba_head_dim = 128; }),
                 groups = with([](auto&e) { e.mamba_num_groups = 16; });
  for (const Workload& more : {state, heads, rows, groups}) {
    EXPECT_GT(more.model.parameters(), w.model.parameters());
    EXPECT_GT(estimate_memory(more).activations, estimate_memory(w).activations);
    EXPECT_GT(predict(more, h100(), {}).seconds, predict(w, h100(), {}).seconds);
  }
  EXPECT_THROW(validate(on_ranks(c, 256, 1)), ConfigError);
}

Planned deepseek_v3() {
  Planned out;
  model::ModelConfig& c = out.model;
  c.num_layers = 61;
  c.hidden_size = 7168;
  c.num_attention_heads = 128;
  c.ffn_hidden_size = 18432;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.share_embeddings_and_output_weights = false;
  c.encoder_seq_length = 4096;
  c.latent.multi_latent_attention = true;
  c.latent.q_lora_rank = 1536;
  c.latent.kv_lora_rank = 512;
  c.latent.qk_head_dim = 128;
  c.latent.qk_pos_emb_head_dim = 64;
  c.latent.v_head_dim = 128;
  c.moe.num_moe_experts = 256;
  c.moe.moe_router_topk = 8;
  c.moe.moe_ffn_hidden_size = 2048;
  c.moe.moe_shared_expert_intermediate_size = 2048;
  c.moe.moe_dense_layers = {0, 1, 2};
  return out;
}

Workload sixteen_stages(const Planned& c) {
  Workload w = c.workload(129280);
  w.pp = 16;
  w.ep = 64;
  w.dp = 64;
  w.chunk_layers = {3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2};
  w.global_batch = 1024;
  w.zero_stage = 1;
  w.recompute = Recompute::kSelective;
  return w;
}

// The model has 671 billion parameters, and with its further layer 685 as published, which has the embedding
// and the head (0.93 billion each) twice.
TEST(Estimated, ALayerThatPredictsOneTokenMore) {
  Planned c = deepseek_v3();
  const Workload plain = sixteen_stages(c);
  EXPECT_NEAR(plain.model.parameters(), 671e9, 1e9);
  c.estimated.mtp_num_layers = 1;
  const Workload further = sixteen_stages(c);
  EXPECT_NEAR(further.model.parameters() + 2 * 129280.0 * 7168 - plain.model.parameters(), 13.6e9, 0.4e9);
  const MemorySplit before = stage_memory(plain, 15), after = stage_memory(further, 15);
  // Its weights, and the embedding, which the last stage has beside the head.
  const double dense = further.model.mtp_parameters() - 256.0 * 3 * 7168 * 2048;
  EXPECT_NEAR(after.weights - before.weights, 2 * (dense + 129280.0 * 7168 + 256.0 / 64 * 3 * 7168 * 2048),
              1e6);
  EXPECT_NEAR(after.logits / before.logits, 2, 1e-9);
  EXPECT_GT(after.activations, 1.4 * before.activations) << "three layers instead of two";
  EXPECT_EQ(stage_memory(further, 0).sum(), stage_memory(plain, 0).sum());
  // Of a token 0.58 billion weights of the layer, 0.1 of the projection and 0.93 of the head, beside 37.5
  // billion.
  EXPECT_NEAR(model_flops(further) / model_flops(plain), 1 + 1.61 / 37.5, 0.005);
  EXPECT_GT(predict(further, h100(), {}).stages[15].busy, 1.3 * predict(plain, h100(), {}).stages[15].busy);
}

TEST(Estimated, NamedModulesAreComputedAgain) {
  const Planned c = deepseek_v3();
  Workload named = sixteen_stages(c);
  named.modules.named = true;
  const auto also = [&](auto change) {
    Workload w = named;
    change(w.modules);
    return w;
  };
  const Workload projections = also([](auto&m) { m.up_projections = true; }),
                 shared = also([](auto&m) { m.shared_experts = true; }),
                 experts = also([](auto&m) { m.experts = true; }), mlp = also([](auto&m) { m.mlp = true; });
  for (const Workload& less : {projections, shared, experts, mlp}) {
    EXPECT_LT(layer_activation_bytes(less), layer_activation_bytes(named));
    EXPECT_GT(predict(less, h100(), {}).time.recompute, predict(named, h100(), {}).time.recompute);
  }
  EXPECT_LT(layer_activation_bytes(experts), layer_activation_bytes(shared));
  // Without names the projections of latents are computed again, as DeepSeek does.
  EXPECT_EQ(layer_activation_bytes(projections), layer_activation_bytes(sixteen_stages(c)));
}

TEST(Estimated, StateInFewerBitsAndWeightsInEight) {
  Planned c = deepseek_v3();
  const auto planned = [&] { return c.workload(129280); };
  const Workload plain = planned();
  c.estimated.exp_avg_dtype = c.estimated.exp_avg_sq_dtype = model::StateType::kBf16;
  c.estimated.main_grads_dtype = model::StateType::kBf16;
  const MemorySplit before = estimate_memory(plain), after = estimate_memory(planned());
  EXPECT_NEAR(after.optimizer / before.optimizer, 8.0 / 12, 1e-9);
  EXPECT_NEAR(after.gradients / before.gradients, 0.5, 1e-9);
  EXPECT_EQ(after.weights, before.weights);
  Workload w = sixteen_stages(deepseek_v3());
  w.format = Format::kFp8;
  const double usual = predict(w, h100(), {}).time.data;
  w.fp8_parameters = true;
  EXPECT_LT(predict(w, h100(), {}).time.data, 0.95 * usual);
}

TEST(Estimated, PlacesOfRanksGroupsOfReplicasAndTwoMicrobatches) {
  Workload w = sixteen_stages(deepseek_v3());
  w.software.overlap_gradients = false;
  const Prediction usual = predict(w, h100(), {});
  w.replicas_outermost = true;  // stages send within a node, replicas between nodes
  const Prediction placed = predict(w, h100(), {});
  EXPECT_LT(placed.time.pipeline, usual.time.pipeline);
  EXPECT_GT(placed.time.data, usual.time.data);
  w.replicas_outermost = false;
  w.optimizer_instances = 2;
  const Prediction halves = predict(w, h100(), {});
  EXPECT_GT(halves.memory.optimizer, 1.02 * usual.memory.optimizer) << "of what is not experts";
  w.optimizer_instances = 3;
  EXPECT_THROW(validate(w), ConfigError);
  w.optimizer_instances = 1;
  w.two_microbatches = w.software.overlap_experts = true;
  const Prediction overlapped = predict(w, h100(), {});
  EXPECT_LT(overlapped.time.expert, usual.time.expert);
  // Stage 8 of 16 holds 8 microbatches, and one more.
  EXPECT_NEAR(stage_memory(w, 8).activations / stage_memory(sixteen_stages(deepseek_v3()), 8).activations,
              9.0 / 8, 1e-6);
}

// Experts that tensor ranks do not split are held by as many more replicas, which share their state.
TEST(Estimated, ReplicasOfExpertsThatTensorRanksDoNotSplit) {
  Workload split = sixteen_stages(deepseek_v3());
  split.tp = split.ep = split.dp = 8;
  split.zero_stage = 3;
  Workload whole = split;
  whole.expert_tp = 1;
  EXPECT_NEAR(predict(whole, h100(), {}).time.optimizer / predict(split, h100(), {}).time.optimizer, 1, 1e-9);
  EXPECT_NEAR(stage_memory(whole, 8).optimizer / stage_memory(split, 8).optimizer, 1, 1e-9);
  split.zero_stage = whole.zero_stage = 1;
  split.software.overlap_gradients = whole.software.overlap_gradients = false;
  EXPECT_GT(predict(whole, h100(), {}).time.data, 1.5 * predict(split, h100(), {}).time.data)
      << "whose experts have one replica, and no gradients to add";
}

TEST(Estimated, WhatIsLackingIsNamed) {
  Planned c = deepseek_v3();
  EXPECT_TRUE(model::only_estimated(c.estimated).empty());
  EXPECT_NO_THROW(model::validate(c.estimated, c.model));
  c.estimated.mtp_num_layers = 2;
  c.estimated.fp8_blocks = model::Fp8Blocks::kMxfp8;
  EXPECT_EQ(model::only_estimated(c.estimated).size(), 2U);
  EXPECT_THROW(model::require_trainable(c.estimated), ConfigError);
  EXPECT_THROW(model::validate(c.estimated, c.model), ConfigError) << "blocks without FP8";
  c = nemotron_h(4096, 32, 21504, k8B, 128);
  EXPECT_NO_THROW(model::validate(c.estimated, c.model));
  c.model.num_layers = 12;
  EXPECT_THROW(model::validate(c.estimated, c.model), ConfigError) << "a letter a layer";
  c = nemotron_h(4096, 32, 21504, "ME*-", 128);
  EXPECT_THROW(model::validate(c.estimated, c.model), ConfigError) << "no such letter";
}

}  // namespace
}  // namespace stoa::plan
