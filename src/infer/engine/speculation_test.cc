// Guesses change no answer, whatever they are worth, and leave nothing behind.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "infer/engine/draft_model.h"
#include "infer/engine/engine.h"
#include "infer/engine/prompt_lookup.h"
#include "infer/engine/simulated_model.h"

namespace stoa::infer {
namespace {

constexpr PassLimits kGuessed{.block_tokens = 2,
                              .blocks = 100,
                              .context = 120,
                              .pass_tokens = 64,
                              .sequences = 4,
                              .scored = 64,
                              .vocabulary = 50};

// Guesses as often right as it is told.
class HalfRight final : public Drafter {
 public:
  HalfRight(int percent, std::size_t vocabulary) : percent_(percent), logits_(vocabulary) {}
  void propose(std::span<DraftWish> wishes) override {
    for (DraftWish& wish : wishes) {
      TokenSampler sampler = *wish.sampler;
      std::vector<std::int32_t> text(wish.text.begin(), wish.text.end());
      for (std::int64_t i = 0; i < wish.most; ++i) {
        SimulatedModel::logits_of(text, logits_);
        text.push_back(sampler.next(logits_, text));
        const bool right = static_cast<int>(random_() % 100) < percent_;
        wish.guesses.push_back(right ? text.back() : static_cast<std::int32_t>(random_() % logits_.size()));
      }
    }
  }

 private:
  const int percent_;
  std::vector<float> logits_;
  std::mt19937 random_{1};
};

struct Told {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<EndReason> ends;
  bool operator==(const Told&) const = default;
};

std::vector<Told> told_by(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Told> out(requests.size() * 3);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    engine.submit(requests[i], [&out, i](const Event& event) {
      Told& told = out[i * 3 + static_cast<std::size_t>(event.choice)];
      if (event.kind == Event::Kind::kToken) {
        told.tokens.push_back(event.token.token.id);
        told.logprobs.push_back(event.token.token.logprob);
      }
      if (event.kind == Event::Kind::kEnd) told.ends.push_back(event.reason);
      return true;
    });
    if (i % 3 == 0) engine.step();
  }
  for (int i = 0; engine.step(); ++i) {
    EXPECT_LT(i, 100000) << "the engine does not end";
    if (i >= 100000) break;
  }
  return out;
}

TEST(Speculation, RandomRequestsInTinyPoolsAnswerAsWithoutGuesses) {
  std::int64_t guessed = 0, came_true = 0, preempted = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    PassLimits limits = kGuessed;
    limits.blocks = 5 + random() % 30;
    limits.block_tokens = 1 + random() % 6;
    limits.context = 8 + random() % 60;
    limits.pass_tokens = 1 + random() % 40;
    limits.sequences = 1 + random() % 6;
    limits.scored = limits.sequences + random() % 30;
    limits.shares = random() % 4 != 0;
    std::vector<Request> requests(1 + random() % 12);
    for (Request& r : requests) {
      const auto length = std::min<std::int64_t>(1 + random() % 12, limits.longest() - 1);
      for (std::int64_t i = 0; i < length; ++i) r.prompt.push_back(static_cast<std::int32_t>(random() % 5));
      r.max_tokens = random() % 40;
      r.choices = 1 + static_cast<int>(random() % 3);
      r.sampling.seed = random();
      r.sampling.greedy = random() % 2 == 0;
      r.sampling.temperature = 0.4;
      r.sampling.repetition_penalty = random() % 2 ? 1.3 : 1.0;
      r.sampling.presence_penalty = random() % 2 ? 0.3 : 0.0;
      if (random() % 2) r.end_ids = {7, 9};
      if (random() % 2) r.logprobs = 1;
    }
    SimulatedModel plain(limits), speculating(limits);
    Engine without(plain);
    const std::vector<Told> expected = told_by(without, requests);
    Engine with(speculating, std::make_unique<HalfRight>(static_cast<int>(random() % 101), 50));
    EXPECT_EQ(told_by(with, requests), expected) << "seed " << seed;
    const EngineCounters counters = with.counters();
    EXPECT_EQ(counters.blocks_used, 0) << "seed " << seed;
    EXPECT_EQ(counters.answer_tokens, without.counters().answer_tokens);
    guessed += counters.draft_tokens;
    came_true += counters.accepted_tokens;
    preempted += counters.preemptions;
  }
  EXPECT_GT(guessed, 1000);
  EXPECT_GT(came_true, 500);
  EXPECT_GT(guessed - came_true, 200);
  EXPECT_GT(preempted, 10);
}

TEST(Speculation, WrongGuessesGiveTheirBlocksBack) {
  SimulatedModel model(kGuessed);
  Engine engine(model, std::make_unique<HalfRight>(0, 50));
  std::int64_t drawn = 0;
  engine.submit({.prompt = {1, 2, 3}, .max_tokens = 90}, [&](const Event& event) {
    drawn += event.kind == Event::Kind::kToken;
    return true;
  });
  while (engine.step()) EXPECT_EQ(engine.counters().blocks_used, (3 + drawn - 1 + 1) / 2) << drawn;
  EXPECT_EQ(drawn, 90);
  // And they become rare.
  EXPECT_LT(engine.counters().drafts, 12);
}

TEST(Speculation, RightGuessesSavePasses) {
  SimulatedModel model(kGuessed);
  Engine engine(model, std::make_unique<HalfRight>(100, 50));
  engine.submit({.prompt = {1, 2, 3}, .max_tokens = 100}, [](const Event&) { return true; });
  while (engine.step()) continue;
  EXPECT_LT(engine.counters().passes, 12);
  EXPECT_EQ(engine.counters().accepted_tokens, engine.counters().draft_tokens);
}

// A draft model that is the model itself is always right, whatever is drawn, and follows texts whose other
// guesses were wrong.
TEST(Speculation, ADraftModelDrawsAsTheModelDoes) {
  std::vector<Request> requests(9);
  for (std::size_t i = 0; i < requests.size(); ++i)
    requests[i] = {.prompt = {static_cast<std::int32_t>(i), 2, 3, 4, 5},
                   .sampling = {.temperature = 0.7, .top_p = 0.9, .repetition_penalty = 1.1, .seed = i},
                   .max_tokens = 60};
  SimulatedModel plain(kGuessed), model(kGuessed);
  Engine without(plain);
  const auto expected = told_by(without, requests);
  Engine engine(model, std::make_unique<DraftModel>(std::make_unique<SimulatedModel>(kGuessed)));
  EXPECT_EQ(told_by(engine, requests), expected);
  EXPECT_EQ(engine.counters().accepted_tokens, engine.counters().draft_tokens);
  EXPECT_LT(2 * engine.counters().passes, without.counters().passes * 3 / 2);
  // Too little memory for all texts.
  PassLimits tight = kGuessed;
  tight.blocks = 40;
  Engine small(model, std::make_unique<DraftModel>(std::make_unique<SimulatedModel>(tight)));
  EXPECT_EQ(told_by(small, requests), expected);
  EXPECT_GT(small.counters().accepted_tokens, 0);
}

TEST(Speculation, ModelsThatCannotTakeTokensBackAreRefused) {
  PassLimits limits = kGuessed;
  limits.takes_back = false;
  SimulatedModel model(limits);
  EXPECT_THROW(Engine(model, std::make_unique<PromptLookup>()), ConfigError);
}

// Pearson's test of drawn tokens against the model's own probabilities, at places behind right and wrong
// guesses.
TEST(Speculation, DrawsFollowTheModelsProbabilities) {
  PassLimits limits = kGuessed;
  limits.vocabulary = 6;
  constexpr int kPlaces = 3;
  // Texts of answers so far, and how often each token followed.
  std::map<std::vector<std::int32_t>, std::vector<double>> counts;
  SimulatedModel model(limits);
  Engine engine(model, std::make_unique<HalfRight>(60, 6));
  for (std::uint64_t seed = 0; seed < 200000; ++seed) {
    std::vector<std::int32_t> text;
    engine.submit({.prompt = {1, 2}, .sampling = {.seed = seed}, .max_tokens = kPlaces + 1},
                  [&](const Event& event) {
                    if (event.kind != Event::Kind::kToken) return true;
                    auto& row = counts.try_emplace(text, 6).first->second;
                    ++row[static_cast<std::size_t>(event.token.token.id)];
                    text.push_back(event.token.token.id);
                    return true;
                  });
    while (engine.step()) continue;
  }
  EXPECT_GT(engine.counters().accepted_tokens, 50000);
  EXPECT_GT(engine.counters().draft_tokens - engine.counters().accepted_tokens, 50000);
  std::vector<double> squares(kPlaces + 1), freedom(kPlaces + 1);
  for (const auto& [text, row] : counts) {
    std::vector<std::int32_t> all{1, 2};
    all.insert(all.end(), text.begin(), text.end());
    std::vector<float> logits(6);
    SimulatedModel::logits_of(all, logits);
    double sum = 0, total = 0;
    for (std::size_t i = 0; i < 6; ++i) sum += std::exp(static_cast<double>(logits[i])), total += row[i];
    bool enough = true;
    for (std::size_t i = 0; i < 6; ++i)
      enough = enough && total * std::exp(static_cast<double>(logits[i])) / sum >= 5;
    if (!enough) continue;
    for (std::size_t i = 0; i < 6; ++i) {
      const double expected = total * std::exp(static_cast<double>(logits[i])) / sum;
      squares[text.size()] += (row[i] - expected) * (row[i] - expected) / expected;
    }
    freedom[text.size()] += 5;
  }
  for (std::size_t place = 0; place <= kPlaces; ++place) {
    ASSERT_GT(freedom[place], 0);
    // Five standard deviations of the distribution.
    EXPECT_LT(std::abs(squares[place] - freedom[place]), 5 * std::sqrt(2 * freedom[place])) << place;
  }
}

TEST(PromptLookup, FindsWhatFollowedTheLongestEnding) {
  const std::vector<std::int32_t> text{1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3};
  EXPECT_EQ(look_up(text, 4), (std::vector<std::int32_t>{4, 9, 2, 3}));  // "1 2 3" before "2 3"
  EXPECT_EQ(look_up(text, 1), (std::vector<std::int32_t>{4}));
  EXPECT_TRUE(look_up(std::vector<std::int32_t>{1, 2, 3}, 4).empty());
  EXPECT_TRUE(look_up(std::vector<std::int32_t>{3, 1, 2, 3}, 4).empty()) << "one token is no ending";
  EXPECT_EQ(look_up(std::vector<std::int32_t>{7, 7, 7, 7}, 3), (std::vector<std::int32_t>{7}));
  EXPECT_TRUE(look_up({}, 3).empty());
}

}  // namespace
}  // namespace stoa::infer
