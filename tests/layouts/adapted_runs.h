// Runs that train a part of a model: adapters, or what model.freeze leaves.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "layout_run.h"

namespace stoa::layouts {

// Grouped heads, a gated MLP, biases: pieces that differ, and an untied head.
inline TestRun llama_like() {
  TestRun run = tiny_run();
  run.config.activation = model::Activation::kSwiglu;
  run.config.normalization = model::Normalization::kRmsNorm;
  run.config.position_embedding_type = model::PositionEmbedding::kRope;
  run.config.share_embeddings_and_output_weights = false;
  return run;
}

inline TestRun adapted(TestRun run, double dropout = 0.2) {
  run.steps = 4;
  model::PeftConfig& peft = run.config.peft;
  peft.peft_scheme = model::PeftScheme::kLora;
  peft.lora.adapter_dim = 3;
  peft.lora.alpha = 6;
  peft.lora.adapter_dropout = dropout;
  // The first step moves B alone: A has a gradient from the second on.
  run.rate = 0.05;
  return run;
}

// Wide enough for whole blocks on two ranks.
inline TestRun on_packed_base(TestRun run, model::BaseFormat format) {
  run = adapted(std::move(run));
  if (format == model::BaseFormat::kNf4) {
    run.config.hidden_size = 128;
    run.config.kv_channels = 64;
    run.config.ffn_hidden_size = 128;
  }
  run.config.peft.quantize_base = format;
  return run;
}

inline RunResult weights_at_start(TestRun run) {
  run.steps = 0;
  return run_layout(run, data_parallel(1));
}

// What is trained has changed, and nothing else; only it has a gradient.
inline void expect_only_trained(const RunResult& start, const RunResult& result,
                                const std::function<bool(const std::string&)>& is_trained) {
  for (const auto& [name, values] : result.weights) {
    EXPECT_EQ(values != start.weights.at(name), is_trained(name)) << name;
    EXPECT_EQ(result.gradients.contains(name), is_trained(name)) << name;
  }
}

}  // namespace stoa::layouts
