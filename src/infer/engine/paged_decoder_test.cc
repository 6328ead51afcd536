#include "infer/engine/paged_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "device/host/host_device.h"
#include "infer/cache_type.h"
#include "infer/engine/engine.h"
#include "infer/engine/single_text.h"
#include "infer/engine/text_losses.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kContext = 96, kTokens = 61;

model::ModelConfig tiny_llama() {
  model::ModelConfig config;
  config.num_layers = 2;
  config.hidden_size = 64;
  config.num_attention_heads = 4;
  config.num_query_groups = 2;
  config.ffn_hidden_size = 96;
  config.position_embedding_type = model::PositionEmbedding::kRope;
  config.max_position_embeddings = kContext;
  config.encoder_seq_length = 8;
  config.vocab_size = kTokens;
  return config;
}

Machine cpu_machine() {
  Machine machine;
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.device = std::make_unique<HostDevice>();
  machine.backend = std::make_unique<ops::cpu::CpuBackend>(*machine.pool);
  machine.stream = machine.device->create_stream();
  return machine;
}

// Weights of a formula, large enough for positions to matter.
void fill_weights(optim::ParameterStore& parameters) {
  for (std::size_t p = 0; p < parameters.specs().size(); ++p) {
    const TensorView weights = parameters.get({static_cast<int>(p)});
    const float scale = parameters.specs()[p].name.find(".qkv") != std::string::npos ? 1.0f : 0.3f;
    for (std::int64_t i = 0; i < weights.elements(); ++i)
      weights.as<float>()[i] =
          scale * std::sin(static_cast<float>(i * i % 1009 * 7 + static_cast<std::int64_t>(p) * 31 + 1));
  }
}

std::unique_ptr<PagedDecoder> paged_decoder(Machine& machine, bool losses = false,
                                            std::optional<DType> cache = {}) {
  PagedModel::Options options{
      model::resolve_model(tiny_llama()), {DType::kF32, DType::kF32}, {}, {}, losses, cache};
  PassLimits& l = options.limits;
  l.blocks = 48;
  l.context = kContext;
  l.pass_tokens = 24;
  l.sequences = l.scored = 8;
  l.vocabulary = kTokens;
  auto decoder = make_rank<PagedDecoder>(machine, options);
  fill_weights(decoder->chunk().parameters());
  return decoder;
}

std::vector<Request> some_requests(std::size_t count) {
  std::vector<Request> out;
  std::mt19937 random(7);
  std::vector<std::int32_t> start(40);
  for (auto& id : start) id = static_cast<std::int32_t>(random() % kTokens);
  for (std::size_t i = 0; i < count; ++i) {
    Request r;
    // Some begin alike.
    if (i % 3 == 0) r.prompt = start;
    for (std::size_t n = 1 + random() % 30; n-- > 0;)
      r.prompt.push_back(static_cast<std::int32_t>(random() % kTokens));
    r.max_tokens = 5 + static_cast<std::int64_t>(random() % 12);
    r.sampling.seed = i;
    r.sampling.greedy = i % 2 == 0;
    r.logprobs = static_cast<int>(kTokens);  // all of them: every logit is compared
    out.push_back(std::move(r));
  }
  return out;
}

using Scores = std::vector<std::vector<std::pair<std::int32_t, float>>>;  // of each token of an answer

std::vector<Scores> answers_of(PassModel& model, const std::vector<Request>& requests) {
  Engine engine(model);
  std::vector<Scores> out(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i)
    engine.submit(requests[i], [&out, i](const Event& event) {
      if (event.kind == Event::Kind::kToken) {
        auto& scores = out[i].emplace_back();
        scores.emplace_back(event.token.token.id, event.token.token.logprob);
        for (const TokenScore& score : event.token.top) scores.emplace_back(score.id, score.logprob);
      }
      return true;
    });
  while (engine.step()) {
  }
  return out;
}

// Every token of every answer has the probability that it has in a text read alone.
TEST(PagedDecoder, AnswersAsOneTextAlone) {
  const auto requests = some_requests(9);
  Machine machine = cpu_machine();
  const auto paged = paged_decoder(machine);
  const auto answers = answers_of(*paged, requests);
  const model::ModelSpec model = model::resolve_model(tiny_llama());
  PassLimits limits = pass_limits(model, DType::kF32, {.context = kContext, .sequences = 1, .scored = 1});
  const auto rank =
      make_rank<PagedDecoder>(machine, PagedModel::Options{model, {DType::kF32, DType::kF32}, limits});
  fill_weights(rank->chunk().parameters());
  SingleText text(*rank);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    text.rewind();
    std::vector<std::int32_t> next = requests[i].prompt;
    ASSERT_EQ(std::ssize(answers[i]), requests[i].max_tokens);
    for (const auto& scores : answers[i]) {
      const auto logits = text.feed(next);
      double sum = 0, top = *std::max_element(logits.begin(), logits.end());
      for (const float x : logits) sum += std::exp(x - top);
      for (const auto& [id, logprob] : scores)
        EXPECT_NEAR(logprob, logits[static_cast<std::size_t>(id)] - top - std::log(sum), 2e-5);
      next = {scores.front().first};
    }
  }
}

class CountingObserver final : public ops::OpObserver {
 public:
  void before(const char*, double) override { ++operations; }
  void after(const char*) override {}
  std::int64_t operations = 0;
};

// Passes for one token run what the first of them did: the logits are those of passes whose operations are
// chosen anew, as they are for an observer, also where a text needs another span of keys.
TEST(PagedDecoder, PassesThatRunAgainGiveTheSameBits) {
  constexpr std::int64_t kLong = 600;
  Machine machine = cpu_machine();
  model::ModelConfig config = tiny_llama();
  config.max_position_embeddings = kLong;
  const model::ModelSpec model = model::resolve_model(config);
  const auto logits_of = [&](ops::OpObserver* observer) {
    const PassLimits limits =
        pass_limits(model, DType::kF32, {.context = kLong, .sequences = 1, .scored = 1});
    const auto rank =
        make_rank<PagedDecoder>(machine, PagedModel::Options{model, {DType::kF32, DType::kF32}, limits});
    fill_weights(rank->chunk().parameters());
    rank->chunk().ops().observer = observer;
    SingleText text(*rank);
    std::vector<float> out;
    for (std::int32_t t = 0; t < kLong; ++t) {
      if (t == kLong / 2)  // a training rank's weights change between texts, a server's adapters come and go
        for (float& x : std::span(rank->chunk().parameters().get({1}).as<float>(), 40)) x += 0.25f;
      const std::int32_t token = t * t % static_cast<std::int32_t>(kTokens);
      const auto logits = text.feed({&token, 1});
      out.insert(out.end(), logits.begin(), logits.end());
    }
    return out;
  };
  CountingObserver observer;
  const std::vector<float> expected = logits_of(&observer);
  EXPECT_GT(observer.operations, kLong);
  EXPECT_EQ(logits_of(nullptr), expected);
  // Several texts, which begin and end at different times and have other blocks of the cache each time.
  const auto answers_with = [&](ops::OpObserver* watching) {
    const auto decoder = paged_decoder(machine);
    decoder->chunk().ops().observer = watching;
    return answers_of(*decoder, some_requests(20));
  };
  EXPECT_EQ(answers_with(nullptr), answers_with(&observer));
}

// Where keys and values are kept in a narrower type, logits are off by what that type rounds away.
TEST(PagedDecoder, NarrowKeysAndValuesGiveNearLogits) {
  Machine machine = cpu_machine();
  std::vector<std::int32_t> tokens(90);
  for (std::size_t t = 0; t < tokens.size(); ++t) tokens[t] = static_cast<std::int32_t>(t * t % kTokens);
  const auto logits_in = [&](std::optional<DType> cache) {
    const auto decoder = paged_decoder(machine, false, cache);
    const model::ModelConfig& config = decoder->options().model.config;
    EXPECT_EQ(decoder->pool().bytes, 48 * 16 * bytes_per_token(config, cache.value_or(DType::kF32)));
    SingleText text(*decoder);
    std::vector<float> out;
    for (const std::int32_t token : tokens) {
      const auto logits = text.feed({&token, 1});
      out.insert(out.end(), logits.begin(), logits.end());
    }
    return out;
  };
  const std::vector<float> exact = logits_in({});
  EXPECT_EQ(logits_in(DType::kF32), exact);
  double square = 0;
  for (const float x : exact) square += static_cast<double>(x) * static_cast<double>(x);
  // Relative to the logits: a few times the rounding of a key or a value.
  for (const auto& [cache, bound] :
       {std::pair{DType::kF16, 0.002}, std::pair{DType::kBF16, 0.016}, std::pair{DType::kU8, 0.02}}) {
    const std::vector<float> kept = logits_in(cache);
    double error = 0;
    for (std::size_t i = 0; i < exact.size(); ++i)
      error += std::pow(static_cast<double>(kept[i]) - static_cast<double>(exact[i]), 2);
    EXPECT_LT(std::sqrt(error / square), bound) << cache_type_name(cache);
    EXPECT_GT(error, 0) << cache_type_name(cache) << " is not used";
  }
}

TEST(PagedDecoder, NarrowKeysAndValuesLeaveRoomForMore) {
  const model::ModelSpec model = model::resolve_model(tiny_llama());
  const auto bytes = [&](DType type) { return bytes_per_token(model.config, type); };
  EXPECT_EQ(bytes(DType::kF32), 2u * 2 * 2 * 16 * 4);  // layers, keys and values, heads of 16
  EXPECT_EQ(bytes(DType::kF16), bytes(DType::kF32) / 2);
  EXPECT_EQ(bytes(DType::kU8), 2u * 2 * 2 * (16 + 2));
  const auto blocks = [&](DType type) {
    return pass_limits(model, type, {.cache_bytes = 16.0 * 9 * 2 * 2 * 2 * 16 * 4, .sequences = 100}).blocks;
  };
  EXPECT_EQ(blocks(DType::kF32), 9);
  EXPECT_EQ(blocks(DType::kBF16), 18);
  EXPECT_EQ(blocks(DType::kU8), 32);
}

// To the last bit those of each text alone, whatever shares its passes; and what the logits say.
TEST(PagedDecoder, LossesAreThoseOfEachTextAlone) {
  Machine machine = cpu_machine();
  machine.backend =
      std::make_unique<ops::cpu::CpuBackend>(*machine.pool, ops::cpu::best_instruction_set(), true);
  const auto decoder = paged_decoder(machine, true);
  std::mt19937 random(3);
  std::vector<std::int32_t> tokens, labels;
  const std::vector<std::int64_t> lengths{5, 96, 1, 40, 40, 17, 0, 23, 60, 8};
  for (const std::int64_t length : lengths)
    for (std::int64_t t = 0; t < length; ++t) {
      tokens.push_back(static_cast<std::int32_t>(random() % kTokens));
      labels.push_back(static_cast<std::int32_t>(random() % kTokens));
    }
  std::vector<float> together(tokens.size());
  text_losses(*decoder, tokens, labels, lengths, together);
  std::size_t begin = 0;
  for (const std::int64_t length : lengths) {
    const auto count = static_cast<std::size_t>(length);
    std::vector<float> alone(count);
    text_losses(*decoder, std::span(tokens).subspan(begin, count), std::span(labels).subspan(begin, count),
                std::span(&length, 1), alone);
    for (std::size_t t = 0; t < count; ++t) ASSERT_EQ(alone[t], together[begin + t]) << length << " " << t;
    begin += count;
  }
  SingleText text(*decoder);
  for (std::size_t t = 0; t < 5; ++t) {
    const auto logits = text.feed(std::span(tokens).subspan(t, 1));
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    EXPECT_NEAR(together[t], std::log(sum) - logits[static_cast<std::size_t>(labels[t])], 2e-5);
  }
}

}  // namespace
}  // namespace stoa::infer
