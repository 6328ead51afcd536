// The engine on the kernels of the CUDA backend, which the block emulator runs: its answers are those of the
// reference, and have the same bits alone and in a batch, in chunks, from a cached prefix, after preemption
// and behind guesses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
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
#include "infer/token_sampler.h"
#include "ops/most_likely.h"
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
  bool multiplies_stored_experts() const override { return inner_->multiplies_stored_experts(); }
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

// The host finds all tokens, where the model could.
class LogitsOnly final : public infer::PassModel {
 public:
  explicit LogitsOnly(infer::PassModel& model) : model_(model) {}
  const infer::PassLimits& limits() const override { return model_.limits(); }
  std::span<const float> run(const infer::PassPlan& plan) override { return model_.run(plan); }
  void share_out(std::int64_t n, const std::function<void(std::int64_t)>& body) override {
    model_.share_out(n, body);
  }

 private:
  infer::PassModel& model_;
};

// Counts the rows whose tokens the model finds or draws, and those whose logits are read.
class CountedRows final : public infer::PassModel {
 public:
  explicit CountedRows(infer::PassModel& model) : model_(model) {}
  const infer::PassLimits& limits() const override { return model_.limits(); }
  std::span<const float> run(const infer::PassPlan& plan) override {
    read += plan.scored;
    return model_.run(plan);
  }
  bool finds_tokens() const override { return model_.finds_tokens(); }
  std::span<const float> run_wishes(const infer::PassPlan& plan, std::span<const infer::RowWish> wishes,
                                    std::span<infer::FoundToken> tokens) override {
    using Kind = infer::RowWish::Kind;
    EXPECT_EQ(std::ssize(wishes), plan.scored);
    for (const infer::RowWish& wish : wishes)
      ++(wish.kind == Kind::kMostLikely ? found : wish.kind == Kind::kDrawn ? drawn : read);
    return model_.run_wishes(plan, wishes, tokens);
  }
  void share_out(std::int64_t n, const std::function<void(std::int64_t)>& body) override {
    model_.share_out(n, body);
  }
  std::int64_t found = 0, drawn = 0, read = 0;

 private:
  infer::PassModel& model_;
};

// Answers whose tokens the model finds or draws beside some that need logits, all at once.
std::vector<infer::Request> mixed_requests() {
  std::vector<infer::Request> out;
  for (std::size_t i = 0; i < 15; ++i) {
    infer::Request r = engine_request(i % kEngineTexts + (i % kEngineTexts == 0 ? 6 : 0));
    infer::SamplingOptions& s = r.sampling;
    s.seed = i;
    if (i == 1) s.greedy = false, s.temperature = 0;
    if (i == 2) s.greedy = false, s.temperature = 1.5;
    if (i == 3) s.greedy = false, s.top_k = 7, s.top_p = 0.9;
    if (i == 4) r.logprobs = 2;
    if (i == 5) s.repetition_penalty = 1.3;
    if (i == 6) s.logit_bias = {{5, 3.0F}};
    if (i == 7) r.choices = 3;
    if (i == 8) s.min_tokens = 4, r.end_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (i == 9) s.frequency_penalty = 0.5;
    if (i == 10) r.prompt_logprobs = 0;
    if (i == 11) s.greedy = false, s.temperature = 0.8, s.min_p = 0.05, s.order = infer::SamplerOrder::kVllm;
    if (i == 12) s.greedy = false, s.temperature = 2, s.top_p = 0.9, s.order = infer::SamplerOrder::kLlamaCpp;
    if (i == 13) s.greedy = false, r.choices = 3;
    if (i == 14) s.greedy = false, r.logprobs = 1;
    out.push_back(std::move(r));
  }
  return out;
}

std::map<std::pair<infer::RequestId, int>, std::vector<std::int32_t>> mixed_answers(infer::PassModel& model,
                                                                                    bool guesses) {
  std::unique_ptr<infer::Drafter> drafter;
  if (guesses) drafter = std::make_unique<infer::PromptLookup>();
  infer::Engine engine(model, std::move(drafter));
  std::map<std::pair<infer::RequestId, int>, std::vector<std::int32_t>> out;
  for (const infer::Request& request : mixed_requests())
    engine.submit(request, [&](const infer::Event& e) {
      if (e.kind != infer::Event::Kind::kPrompt) out[{e.request, e.choice}].push_back(e.token.token.id);
      if (e.kind == infer::Event::Kind::kEnd)
        out[{e.request, e.choice}].push_back(1000 + static_cast<std::int32_t>(e.reason));
      return true;
    });
  while (engine.step()) continue;
  return out;
}

TEST(EmulatedGpu, EngineTakesTheTokensThatTheGpuFinds) {
  infer::Machine machine = emulated_machine();
  infer::PagedModel::Options options{
      model::resolve_model(engine_config(kGroupedHeads)), {DType::kBF16, DType::kBF16}, {}};
  options.limits = {.block_tokens = 16,
                    .blocks = 100,
                    .context = 320,
                    .pass_tokens = 64,
                    .sequences = 16,
                    .scored = 64,
                    .vocabulary = kEngineIds};
  const auto decoder = infer::make_rank<infer::PagedDecoder>(machine, options);
  auto& parameters = decoder->chunk().parameters();
  for (std::size_t p = 0; p < parameters.specs().size(); ++p)
    infer::write_tensor(machine, parameters.get({static_cast<int>(p)}),
                        [&](TensorView host) { infer::fill_by_formula(host, static_cast<std::int64_t>(p)); });
  LogitsOnly host(*decoder);
  for (const bool guesses : {false, true}) {
    SCOPED_TRACE(guesses);
    CountedRows counted(*decoder);
    EXPECT_EQ(mixed_answers(counted, guesses), mixed_answers(host, guesses));
    EXPECT_GT(counted.found, 20);
    EXPECT_GT(counted.drawn, 20);
    EXPECT_GT(counted.read, 80);
  }
}

// Also where numbers are equal, infinite or none at all.
TEST(EmulatedGpu, MostLikelyTokensAreThoseOfTheHost) {
  const infer::Machine machine = emulated_machine();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  std::uint32_t state = 1;
  const auto below = [&](std::uint32_t n) { return (state = state * 1664525u + 1013904223u) / 65536u % n; };
  for (const std::int64_t width : {1, 31, 512, 513, 1000, 5000, 40000}) {
    constexpr std::int64_t kRows = 12;
    std::vector<float> logits(static_cast<std::size_t>(kRows * width));
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t i = 0; i < width; ++i) {
        float& x = logits[static_cast<std::size_t>(row * width + i)];
        x = static_cast<float>(below(row < 4 ? 60000 : 40)) - 20.0F;  // later rows have equals
        if (row >= 6 && below(300) == 0) x = kNan;
        if (row == 7 && below(300) == 0) x = kInfinity;
        if (row >= 8 && i % 512 == 0 && below(2) == 0) x = kNan;
        if (row == 9) x = kNan;
        if (row == 10) x = -kInfinity;
        if (row == 11 && below(3) > 0) x = below(2) == 0 ? 0.0F : -0.0F;
      }
    std::vector<std::int32_t> found(2 * kRows, -1);
    machine.backend->execute(
        ops::MostLikely{TensorView(logits.data(), DType::kF32, {kRows, width}, DeviceKind::kCuda),
                        TensorView(found.data(), DType::kI32, {kRows, 2}, DeviceKind::kCuda)},
        ops::Resources{*machine.stream});
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto values =
          std::span(logits).subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width));
      const std::int32_t id = infer::likeliest(values), own = found[static_cast<std::size_t>(2 * row)];
      EXPECT_EQ(own, id) << row << " of " << width;
      EXPECT_EQ(found[static_cast<std::size_t>(2 * row + 1)],
                std::bit_cast<std::int32_t>(values[static_cast<std::size_t>(id)]))
          << row << " of " << width;
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
