// A decoder whose model has layers of linear attention: their states go on with a text, and know no way back.
#include <gtest/gtest.h>

#include "device/host/host_device.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/single_text.h"
#include "model/init.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::infer {
namespace {

PagedModel::Options hybrid_options() {
  model::ModelConfig c;
  c.num_layers = 4;
  c.hidden_size = 32;
  c.num_attention_heads = 4;
  c.num_query_groups = 2;
  c.encoder_seq_length = 200;
  c.vocab_size = 61;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.init_method_std = 0.3;
  c.attention_output_gate = c.qk_layernorm = true;
  c.linear = {4, {}, 2, 4, 8, 8, 4};
  const model::ModelSpec model = model::resolve_model(c);
  return {model,
          {DType::kF32, DType::kF32},
          pass_limits(model, DType::kF32, {.context = 200, .sequences = 1, .pass_tokens = 70, .scored = 1})};
}

class HybridDecoder : public ::testing::Test {
 protected:
  HybridDecoder() {
    machine_.pool = std::make_unique<WorkerPool>(2);
    machine_.device = std::make_unique<HostDevice>();
    machine_.backend = std::make_unique<ops::cpu::CpuBackend>(*machine_.pool);
    machine_.stream = machine_.device->create_stream();
    const PagedModel::Options options = hybrid_options();
    rank_ = make_rank<PagedDecoder>(machine_, options);
    fed_.emplace(*rank_);
    optim::ParameterStore& parameters = rank_->chunk().parameters();
    for (std::size_t p = 0; p < parameters.specs().size(); ++p)
      model::initialize(parameters.specs()[p], 3, parameters.get({static_cast<int>(p)}), *machine_.pool);
    for (std::int32_t i = 0; i < 150; ++i) text_.push_back(i * i % 61);
  }

  std::vector<float> feed(std::int64_t begin, std::int64_t end) {
    const auto logits = fed_->feed(
        std::span(text_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
    return {logits.begin(), logits.end()};
  }
  static void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-4f) << i;
  }

  Machine machine_;
  std::unique_ptr<PagedDecoder> rank_;
  std::optional<SingleText> fed_;
  std::vector<std::int32_t> text_;
};

// More tokens than a pass takes, then one by one and in pieces: what all at once give.
TEST_F(HybridDecoder, ATextInPiecesIsTheText) {
  const std::vector<float> whole = feed(0, 150);
  fed_->rewind();
  for (std::int64_t at = 0; at < 5; ++at) feed(at, at + 1);
  feed(5, 71);
  expect_near(feed(71, 150), whole);
  EXPECT_EQ(fed_->fed(), 150);
}

TEST_F(HybridDecoder, StatesGoOnOrBeginAnew) {
  const std::vector<float> first = feed(0, 40);
  const std::vector<float> next = feed(40, 60);
  EXPECT_EQ(fed_->rewind(60), 60);  // nothing is forgotten
  EXPECT_EQ(fed_->rewind(40), 0);
  expect_near(feed(0, 40), first);
  EXPECT_EQ(fed_->rewind(80), 40);
  expect_near(feed(40, 60), next);
}

}  // namespace
}  // namespace stoa::infer
