// The engine on the kernels of the CUDA backend, which the block emulator runs: its answers are those of the
// reference, and have the same bits alone and in a batch, in chunks, from a cached prefix, after preemption
// and behind guesses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <span>

#include "device/native_stream.h"
#include "emulated_gpu.h"
#include "infer/cache_type.h"
#include "infer/engine/engine.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/prompt_lookup.h"
#include "infer/engine/recorded_model.h"
#include "infer/host_window.h"
#include "ops/reference/reference_backend.h"

namespace stoa::layouts {
namespace {

using infer::RequestLogits;
constexpr std::int64_t kEngineIds = 61;
constexpr std::size_t kEngineTexts = 6;

enum EngineKind { kGroupedHeads, kWindowAndCap, kSlopes, kLatents, kSomeExperts };

model::ModelConfig engine_config(EngineKind kind) {
  model::ModelConfig c;
  c.num_layers = 2;
  c.hidden_size = 48;
  c.num_attention_heads = 6;
  c.ffn_hidden_size = 32;
  c.encoder_seq_length = 8;
  c.max_position_embeddings = 400;
  c.vocab_size = kEngineIds;
  if (kind == kSlopes) {
    c.position_embedding_type = model::PositionEmbedding::kAlibi;
    return c;
  }
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.num_query_groups = 2;
  if (kind == kWindowAndCap) {
    c.window_size = 21;
    c.window_attn_skip_freq = 2;
    c.attn_logit_softcapping = 2;
  }
  if (kind == kLatents) {
    c.num_query_groups = 6;
    c.latent = {true, 6, 5, 4, 4, 3};
  }
  if (kind == kSomeExperts) {
    c.moe.num_moe_experts = 4;
    c.moe.moe_ffn_hidden_size = 24;
  }
  return c;
}

struct Company {
  const char* name;
  std::int64_t sequences = 8, pass_tokens = 512, blocks = 100;
  bool alone = false, twice = false, preempts = false, guesses = false;
};

infer::Machine engine_reference() {
  infer::Machine machine = infer::machine_with_rows_apart(1);
  machine.backend = std::make_unique<ops::ReferenceBackend>();
  return machine;
}

// Texts with beginnings in common and repeated parts, one of more than a span of keys.
infer::Request engine_request(std::size_t i) {
  infer::Request r;
  const std::size_t length = i == 0 ? 262 : 4 + i * 13 % 40;
  for (std::size_t t = 0; t < length; ++t)
    r.prompt.push_back(static_cast<std::int32_t>((t < 17 ? t * 5 : t % 6 * i + 3) % kEngineIds));
  r.max_tokens = 16;
  r.sampling.greedy = true;
  return r;
}

RequestLogits engine_logits(infer::Machine& machine, EngineKind kind, DType type, std::optional<DType> cache,
                            const Company& way) {
  infer::PagedModel::Options options{model::resolve_model(engine_config(kind)), {type, type}, {}};
  options.cache = cache;
  options.limits = {.block_tokens = 16,
                    .blocks = way.blocks,
                    .context = 320,
                    .pass_tokens = way.pass_tokens,
                    .sequences = way.sequences,
                    .scored = 32,
                    .vocabulary = kEngineIds};
  const auto decoder = infer::make_rank<infer::PagedDecoder>(machine, options);
  auto& parameters = decoder->chunk().parameters();
  for (std::size_t p = 0; p < parameters.specs().size(); ++p)
    infer::write_tensor(machine, parameters.get({static_cast<int>(p)}),
                        [&](TensorView host) { infer::fill_by_formula(host, static_cast<std::int64_t>(p)); });
  infer::RecordedModel recorded(*decoder);
  std::unique_ptr<infer::Drafter> drafter;
  if (way.guesses) drafter = std::make_unique<infer::PromptLookup>();
  infer::Engine engine(recorded, std::move(drafter));
  RequestLogits out;
  infer::SequenceId before = 0;
  for (int turn = 0; turn < (way.twice ? 2 : 1); ++turn) {
    for (std::size_t i = 0; i < kEngineTexts; ++i) {
      infer::Request request = engine_request(i);
      if (!way.twice && i != 0) request.prompt_logprobs = 0;
      engine.submit(request, [](const infer::Event&) { return true; });
      if (way.alone)
        while (engine.step()) continue;
    }
    while (engine.step()) continue;
    for (auto& [key, row] : recorded.rows)
      out[{static_cast<std::size_t>(key.first - before - 1), key.second}] = row;
    recorded.rows.clear();
    before += kEngineTexts;
  }
  const infer::EngineCounters counts = engine.counters();
  EXPECT_EQ(counts.preemptions > 0, way.preempts) << way.name;
  EXPECT_EQ(counts.accepted_tokens > 0, way.guesses) << way.name;
  EXPECT_TRUE(!way.twice || counts.prefix_hit_tokens > 0) << way.name;
  return out;
}

RequestLogits engine_logits(infer::Machine&& machine, EngineKind kind, DType type, std::optional<DType> cache,
                            const Company& way) {
  return engine_logits(machine, kind, type, cache, way);
}

const Company kAlone{.name = "alone", .alone = true};

void expect_same_on_gpu(EngineKind kind, DType type, std::optional<DType> cache, const RequestLogits& alone) {
  for (const Company& way :
       {Company{.name = "batch"}, Company{.name = "chunks of 7", .pass_tokens = 7},
        Company{.name = "preempted", .blocks = 22, .preempts = true},
        Company{.name = "cached prefix", .twice = true}, Company{.name = "guesses", .guesses = true}}) {
    const RequestLogits other = engine_logits(emulated_machine(), kind, type, cache, way);
    infer::expect_rows_of(
        alone, other,
        fmt::format("{}, kind {} {}, keys and values in {}", way.name, static_cast<int>(kind), name_of(type),
                    infer::cache_type_name(cache.value_or(type))));
  }
}

double relative_error(const RequestLogits& expected, const RequestLogits& other) {
  EXPECT_EQ(expected.size(), other.size());
  double error = 0, size = 0;
  for (const auto& [key, row] : expected) {
    const auto it = other.find(key);
    if (it == other.end()) continue;
    for (std::size_t i = 0; i < row.size(); ++i) {
      error += std::pow(static_cast<double>(it->second[i]) - static_cast<double>(row[i]), 2);
      size += std::pow(static_cast<double>(row[i]), 2);
    }
  }
  return std::sqrt(error / size);
}

// Writes down the operations that it passes on, with addresses and shapes.
class NotingBackend final : public ops::ForwardOps<NotingBackend> {
 public:
  explicit NotingBackend(std::unique_ptr<ops::Backend> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  DeviceKind device_kind() const override { return inner_->device_kind(); }
  template <class Op>
  void apply(const Op& op, ops::Resources resources) {
    notes += Op::kName;
    Op::visit(op, [&](const char*, const TensorView& tensor, ops::Access) {
      notes += fmt::format(" {} {}", tensor.data, tensor ? tensor.text() : "none");
    });
    if constexpr (std::is_same_v<Op, ops::AttentionForward>)
      notes += fmt::format(" {} {}", op.segments.longest_q, op.segments.longest_k);
    notes += fmt::format(" {}\n", resources.workspace);
    inner_->execute(op, resources);
  }
  template <class Op>
  std::size_t workspace(const Op& op) const {
    return inner_->workspace_bytes(op);
  }
  std::string notes;

 private:
  std::unique_ptr<ops::Backend> inner_;
};

// Submits work again where a GPU would start a recording of it, and expects the same of it.
class RepeatingStream final : public NativeStream {
 public:
  explicit RepeatingStream(NotingBackend& backend) : backend_(backend) {}
  std::unique_ptr<Event> record() override { return inner_.record(); }
  void wait(const Event& event) override { inner_.wait(event); }
  void synchronize() override {}
  void* native() override { return nullptr; }
  bool records() const override { return true; }
  void begin_recording() override {}
  void end_recording() override {}
  bool recording() const override { return false; }
  void drop_recording() override {}
  void forget_repeated() override { seen_.clear(); }
  void repeat(std::span<const std::int64_t> shape, const std::function<void()>& body) override {
    backend_.notes.clear();
    body();
    const auto [at, first] = seen_.try_emplace({shape.begin(), shape.end()}, backend_.notes);
    if (first) return;
    ++repeated;
    EXPECT_EQ(at->second, backend_.notes);
  }
  void accompany(RecordingCompanion&) override {}
  void leave(RecordingCompanion&) override {}
  int repeated = 0;

 private:
  NotingBackend& backend_;
  PatientStream inner_;
  std::map<std::vector<std::int64_t>, std::string> seen_;
};

// What a recording of a pass would hold is what the next pass of its shape submits.
TEST(EmulatedGpu, PassesOfAnswersAreRepeatedToTheAddress) {
  for (const EngineKind kind : {kWindowAndCap, kSomeExperts}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const RequestLogits expected = engine_logits(emulated_machine(), kind, DType::kBF16, {}, kAlone);
    for (const Company& way : {kAlone, Company{.name = "batch"}}) {
      infer::Machine machine = emulated_machine();
      auto noting = std::make_unique<NotingBackend>(std::move(machine.backend));
      auto stream = std::make_unique<RepeatingStream>(*noting);
      RepeatingStream& repeats = *stream;
      machine.backend = std::move(noting);
      machine.stream = std::move(stream);
      const RequestLogits other = engine_logits(machine, kind, DType::kBF16, {}, way);
      EXPECT_GE(repeats.repeated, 10) << way.name;
      infer::expect_rows_of(expected, other, way.name);
    }
  }
}

TEST(EmulatedGpu, EngineAnswersAsTheReference) {
  for (const EngineKind kind : {kGroupedHeads, kWindowAndCap, kSlopes, kLatents, kSomeExperts}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const RequestLogits alone = engine_logits(emulated_machine(), kind, DType::kF32, {}, kAlone);
    ASSERT_GT(alone.size(), kEngineTexts * 16u);
    EXPECT_LT(relative_error(engine_logits(engine_reference(), kind, DType::kF32, {}, kAlone), alone), 1e-5);
    expect_same_on_gpu(kind, DType::kF32, {}, alone);
  }
}

TEST(EmulatedGpu, EngineInSixteenBits) {
  for (const EngineKind kind : {kGroupedHeads, kWindowAndCap, kLatents}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const RequestLogits alone = engine_logits(emulated_machine(), kind, DType::kBF16, {}, kAlone);
    expect_same_on_gpu(kind, DType::kBF16, {}, alone);
  }
}

TEST(EmulatedGpu, EngineWithCachesOfOtherTypes) {
  for (const auto& [type, cache] : {std::pair{DType::kF32, DType::kF16}, std::pair{DType::kF32, DType::kU8},
                                    std::pair{DType::kBF16, DType::kU8}}) {
    SCOPED_TRACE(fmt::format("{} in {}", name_of(type), name_of(cache)));
    const RequestLogits alone = engine_logits(emulated_machine(), kGroupedHeads, type, cache, kAlone);
    expect_same_on_gpu(kGroupedHeads, type, cache, alone);
    if (type != DType::kF32) continue;
    const RequestLogits expected = engine_logits(engine_reference(), kGroupedHeads, type, cache, kAlone);
    EXPECT_LT(relative_error(expected, alone), 1e-5);
  }
}

}  // namespace
}  // namespace stoa::layouts
