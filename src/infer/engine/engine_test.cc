#include "infer/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "constraint/test_support.h"
#include "infer/engine/prompt_lookup.h"
#include "infer/engine/simulated_model.h"

namespace stoa::infer {
namespace {

std::vector<std::int32_t> random_prompt(std::mt19937& random, std::size_t length) {
  std::vector<std::int32_t> ids(length);
  for (auto& id : ids) id = static_cast<std::int32_t>(random() % 50);
  return ids;
}

// What one choice of a request must answer, without an engine.
std::vector<std::int32_t> alone(const Request& r, int choice, const PassLimits& limits, EndReason& reason) {
  TokenSampler sampler(r.sampling, choice);
  std::vector<std::int32_t> source, seen = r.prompt, answer;
  if (limits.reads_sources()) source = std::exchange(seen, {limits.start});
  const std::int64_t longest = limits.longest(std::ssize(source));
  std::vector<float> logits(50);
  std::optional<constraint::ConstrainedText> text;
  if (r.constraint) text.emplace(r.constraint);
  reason = EndReason::kLength;
  while (std::ssize(answer) < r.max_tokens) {
    std::vector<std::int32_t> read = source;
    read.insert(read.end(), seen.begin(), seen.end());
    SimulatedModel::logits_of(read, logits);
    std::int32_t id = -1;
    if (text) {
      const auto bits = text->allowed();
      const AllowedTokens allowed{*bits, text->accepts(), r.end_ids};
      id = sampler.next(logits, seen, &allowed);
    } else {
      id = sampler.next(logits, seen);
    }
    if (std::ranges::find(r.end_ids, id) != r.end_ids.end()) {
      reason = EndReason::kEndToken;
      break;
    }
    answer.push_back(id);
    if (text && text->push(id) && text->complete()) {
      reason = EndReason::kEndToken;
      break;
    }
    if (std::ssize(answer) < r.max_tokens && std::ssize(seen) == longest) {
      reason = EndReason::kContext;
      break;
    }
    seen.push_back(id);
  }
  return answer;
}

struct Answer {
  std::vector<std::int32_t> tokens;
  std::vector<ScoredToken> scores, prompt;
  int ends = 0;
  Event end;
};

struct Collected {
  Request request;
  std::vector<Answer> choices;
  Listener listener() {
    choices.resize(static_cast<std::size_t>(request.choices));
    return [this](const Event& event) {
      Answer& a = choices.at(static_cast<std::size_t>(event.choice));
      EXPECT_EQ(a.ends, 0) << "an event after the end";
      if (event.kind == Event::Kind::kToken)
        a.tokens.push_back(event.token.token.id), a.scores.push_back(event.token);
      if (event.kind == Event::Kind::kPrompt) a.prompt = event.prompt;
      if (event.kind == Event::Kind::kEnd) ++a.ends, a.end = event;
      return true;
    };
  }
};

void run_out(Engine& engine) {
  for (int i = 0; engine.step(); ++i) ASSERT_LT(i, 100000) << "the engine does not end";
}

void expect_answers_as_alone(bool sources) {
  const auto pairs = constraint::letters_that_match("([ab][cde]){2,6}(e|[^c]*)");
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    PassLimits limits = kSmallLimits;
    limits.blocks = 5 + random() % 20;
    limits.block_tokens = 1 + random() % 6;
    limits.context = 8 + random() % 40;
    limits.pass_tokens = 1 + random() % 20;
    limits.sequences = 1 + random() % 6;
    limits.scored = limits.sequences + random() % 3;
    limits.shares = random() % 4 != 0;
    if (sources) limits.source_tokens = 1 + random() % 24, limits.start = 7;
    SimulatedModel model(limits);
    Engine engine(model);
    const auto start = random_prompt(random, 12);
    std::vector<std::unique_ptr<Collected>> all;
    std::vector<RequestId> ids;
    std::vector<bool> cancelled;
    const auto begin = [&] {
      auto c = std::make_unique<Collected>();
      Request& r = c->request;
      r.prompt = random_prompt(random, 1 + random() % 12);
      if (random() % 2) r.prompt.insert(r.prompt.begin(), start.begin(), start.begin() + random() % 12);
      if (sources)
        r.prompt.resize(std::min(r.prompt.size(), static_cast<std::size_t>(engine.context())));
      else if (std::ssize(r.prompt) >= limits.longest())
        r.prompt.resize(static_cast<std::size_t>(limits.longest() - 1));
      r.max_tokens = random() % 20;
      r.choices = 1 + static_cast<int>(random() % 3);
      r.sampling.seed = random();
      r.sampling.greedy = random() % 3 == 0;
      r.sampling.repetition_penalty = random() % 2 ? 1.3 : 1.0;
      r.end_ids = {static_cast<std::int32_t>(random() % 50)};
      r.priority = static_cast<int>(random() % 3);
      r.tenant = random() % 2 ? "a" : "b";
      r.cache_salt = random() % 2 ? "x" : "";
      if (random() % 3 == 0 && !sources) r.prompt_logprobs = 2;
      if (random() % 3 == 0) r.logprobs = 3;
      if (random() % 3 == 0) r.constraint = pairs;
      ids.push_back(engine.submit(r, c->listener()));
      cancelled.push_back(false);
      all.push_back(std::move(c));
    };
    for (int turn = 0; turn < 60; ++turn) {
      if (random() % 2) begin();
      if (random() % 8 == 0 && !ids.empty()) {
        const std::size_t i = random() % ids.size();
        const bool open = std::ranges::any_of(all[i]->choices, [](const Answer& a) { return a.ends == 0; });
        engine.cancel(ids[i]);
        if (open) cancelled[i] = true;
        for (const Answer& a : all[i]->choices) EXPECT_EQ(a.ends, 1);
      }
      engine.step();
    }
    run_out(engine);
    const EngineCounters counters = engine.counters();
    EXPECT_EQ(counters.blocks_used, 0);
    EXPECT_EQ(counters.running + counters.waiting, 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Collected& c = *all[i];
      for (int choice = 0; choice < c.request.choices; ++choice) {
        const Answer& a = c.choices[static_cast<std::size_t>(choice)];
        ASSERT_EQ(a.ends, 1) << "seed " << seed << " request " << i << " choice " << choice;
        EndReason reason{};
        auto expected = alone(c.request, choice, limits, reason);
        EXPECT_EQ(a.end.tokens, std::ssize(a.tokens));
        if (a.end.reason == EndReason::kCaller) {
          EXPECT_TRUE(cancelled[i]);
          ASSERT_LE(a.tokens.size(), expected.size());
          expected.resize(a.tokens.size());
        } else {
          EXPECT_EQ(a.end.reason, reason) << "seed " << seed << " request " << i << " choice " << choice;
          if (c.request.prompt_logprobs && choice == 0) {
            EXPECT_EQ(a.prompt.size(), c.request.prompt.size() - 1);
          }
        }
        EXPECT_EQ(a.tokens, expected) << "seed " << seed << " request " << i << " choice " << choice;
      }
    }
  }
}

TEST(Engine, RandomRequestsInTinyPoolsAnswerAsIfAlone) { expect_answers_as_alone(false); }

TEST(Engine, SourcesOfAnEncoderDecoderToo) { expect_answers_as_alone(true); }

TEST(Engine, SourcesAreReadOnceAndShared) {
  PassLimits limits = kSmallLimits;
  limits.source_tokens = 40;
  limits.start = 3;
  SimulatedModel model(limits);
  Engine engine(model);
  EXPECT_EQ(engine.context(), 40);
  EXPECT_EQ(engine.room(40), 56) << "14 of the 24 blocks";
  std::mt19937 random(2);
  Collected first, second, other;
  first.request = {.prompt = random_prompt(random, 22), .sampling = {.greedy = true}, .max_tokens = 4};
  first.request.choices = 3;
  second.request = first.request;
  other.request = {.prompt = first.request.prompt, .sampling = {.greedy = true}, .max_tokens = 4};
  other.request.prompt.resize(20);  // whole blocks: the beginning of a source has other states
  engine.submit(first.request, first.listener());
  engine.step();
  EXPECT_EQ(engine.counters().blocks_used, 6 + 1) << "the three choices share the source and its first token";
  run_out(engine);
  engine.submit(second.request, second.listener());
  run_out(engine);
  engine.submit(other.request, other.listener());
  run_out(engine);
  EXPECT_EQ(second.choices[0].end.cached_tokens, 22);
  EXPECT_EQ(second.choices[0].tokens, first.choices[2].tokens);
  EXPECT_EQ(other.choices[0].end.cached_tokens, 0);
  EXPECT_EQ(first.choices[0].end.prompt_tokens, 22);
  first.request.prompt_logprobs = 1;
  EXPECT_THROW(engine.check(first.request), ConfigError);
  second.request.prompt = random_prompt(random, 41);
  EXPECT_THROW(engine.check(second.request), DataError);
  EXPECT_THROW(Engine(model, std::make_unique<PromptLookup>()), ConfigError);
}

TEST(Engine, ProbabilitiesAreThoseOfTheLogits) {
  SimulatedModel model(kSmallLimits);
  Engine engine(model);
  std::mt19937 random(1);
  Collected c;
  c.request = {.prompt = random_prompt(random, 30), .sampling = {.seed = 7}, .max_tokens = 5};
  c.request.logprobs = 3;
  c.request.prompt_logprobs = 50;
  engine.submit(c.request, c.listener());
  run_out(engine);
  const Answer& a = c.choices[0];
  ASSERT_EQ(a.prompt.size(), 29u);
  std::vector<std::int32_t> text = c.request.prompt;
  text.insert(text.end(), a.tokens.begin(), a.tokens.end());
  std::vector<ScoredToken> scores = a.prompt;
  scores.insert(scores.end(), a.scores.begin(), a.scores.end());
  std::vector<float> logits(50);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    SimulatedModel::logits_of(std::span(text).first(i + 1), logits);
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    const auto expected = [&](std::int32_t id) {
      return logits[static_cast<std::size_t>(id)] - std::log(sum);
    };
    EXPECT_EQ(scores[i].token.id, text[i + 1]);
    EXPECT_NEAR(scores[i].token.logprob, expected(text[i + 1]), 1e-5);
    ASSERT_EQ(scores[i].top.size(), i < 29 ? 50u : 3u);
    EXPECT_EQ(scores[i].top[0].id, likeliest(logits));
    for (const TokenScore& top : scores[i].top) EXPECT_NEAR(top.logprob, expected(top.id), 1e-5);
    EXPECT_GE(scores[i].top[1].logprob, scores[i].top[2].logprob);
  }
}

TEST(Engine, ASecondQuestionFindsTheTextItSharesButNotThatOfAnotherSalt) {
  PassLimits limits = kSmallLimits;
  SimulatedModel model(limits);
  Engine engine(model);
  std::mt19937 random(3);
  const auto ask = [&](const std::string& salt, std::int32_t last) {
    Collected c;
    c.request.prompt = std::vector<std::int32_t>(21, 9);
    c.request.prompt.back() = last;
    c.request.max_tokens = 2;
    c.request.cache_salt = salt;
    engine.submit(c.request, c.listener());
    run_out(engine);
    return c.choices[0].end.cached_tokens;
  };
  EXPECT_EQ(ask("a", 1), 0);
  EXPECT_EQ(ask("a", 2), 20);
  EXPECT_EQ(ask("b", 2), 0);
  EXPECT_EQ(ask("", 2), 0);
  EXPECT_EQ(ask("b", 2), 20);
  EXPECT_EQ(engine.counters().prefix_hit_tokens, 40);
  EXPECT_EQ(engine.counters().blocks_used, 0);
  EXPECT_GT(engine.counters().blocks_cached, 0);
}

TEST(Engine, ChoicesShareThePromptsBlocks) {
  PassLimits limits = kSmallLimits;
  limits.sequences = limits.scored = 5;
  limits.blocks = 12;  // the prompt takes 8, and every choice one of its own
  limits.context = 40;
  SimulatedModel model(limits);
  Engine engine(model);
  Collected c;
  c.request = {.prompt = std::vector<std::int32_t>(30, 3), .sampling = {.seed = 1}, .max_tokens = 2};
  c.request.choices = 5;
  engine.submit(c.request, c.listener());
  run_out(engine);
  EXPECT_EQ(engine.counters().preemptions, 0);
  EXPECT_EQ(engine.counters().passes, 3);  // two for the prompt, one for all second tokens
}

// As many texts as the pool is said to hold run at once to their ends, whatever of them is prompt: nobody
// waits, and nobody gives up.
TEST(Engine, AsManyTextsRunAtOnceAsFit) {
  PassLimits limits = kSmallLimits;  // 24 blocks of 4
  limits.pass_tokens = 96;
  EXPECT_EQ(limits.texts_at_once(64), 1);
  EXPECT_EQ(limits.texts_at_once(65), 0);
  EXPECT_EQ(limits.texts_at_once(24), 4);
  EXPECT_EQ(limits.texts_at_once(1), 6);  // not more than there are places
  for (const std::int64_t answer : {2, 5, 9, 15}) {
    constexpr std::int64_t kLength = 24;
    SimulatedModel model(limits);
    Engine engine(model);
    std::mt19937 random(7);
    for (std::int64_t i = 0; i < limits.texts_at_once(kLength); ++i)
      engine.submit({.prompt = random_prompt(random, static_cast<std::size_t>(kLength + 1 - answer)),
                     .sampling = {},
                     .max_tokens = answer},
                    [](const Event&) { return true; });
    engine.step();
    EXPECT_EQ(engine.counters().running, limits.texts_at_once(kLength)) << answer;
    run_out(engine);
    EXPECT_EQ(engine.counters().preemptions, 0) << answer;
    EXPECT_EQ(engine.counters().passes, answer) << answer;
  }
}

TEST(Engine, TenantsTakeTurnsWhateverTheyQueue) {
  PassLimits limits = kSmallLimits;
  limits.sequences = limits.scored = 1;
  SimulatedModel model(limits);
  Engine engine(model);
  std::string order;
  const auto ask = [&](const std::string& tenant) {
    Request r{.prompt = {1, 2, 3}, .sampling = {}, .max_tokens = 4};
    r.tenant = tenant;
    engine.submit(r, [&order, tenant](const Event& e) {
      if (e.kind == Event::Kind::kEnd) order += tenant;
      return true;
    });
  };
  for (int i = 0; i < 6; ++i) ask("a");
  engine.step();
  for (int i = 0; i < 2; ++i) ask("b");
  run_out(engine);
  EXPECT_EQ(order, "ababaaaa") << "both in turn";
}

TEST(Engine, AListenerEndsItsChoiceAndMayCancelOthers) {
  SimulatedModel model(kSmallLimits);
  Engine engine(model);
  int ends = 0;
  RequestId other = 0;
  const RequestId first =
      engine.submit({.prompt = {1}, .sampling = {}, .max_tokens = 50}, [&](const Event& e) {
        if (e.kind == Event::Kind::kEnd) {
          ++ends;
          EXPECT_EQ(e.reason, EndReason::kCaller);
          EXPECT_EQ(e.tokens, 1);
          return true;
        }
        engine.cancel(other);
        return false;
      });
  other = engine.submit({.prompt = {2}, .sampling = {}, .max_tokens = 50}, [&](const Event& e) {
    if (e.kind == Event::Kind::kEnd) ++ends;
    return true;
  });
  EXPECT_NE(first, other);
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(ends, 2);
  EXPECT_EQ(engine.counters().blocks_used, 0);
}

TEST(Engine, RefusesWhatCannotBeAnswered) {
  SimulatedModel model(kSmallLimits);
  Engine engine(model);
  const Listener none = [](const Event&) { return true; };
  EXPECT_THROW(engine.submit({.prompt = {}, .sampling = {}}, none), DataError);
  EXPECT_THROW(engine.submit({.prompt = {50}, .sampling = {}}, none), DataError);
  EXPECT_THROW(engine.submit({.prompt = {-1}, .sampling = {}}, none), DataError);
  EXPECT_THROW(engine.submit({.prompt = std::vector<std::int32_t>(65, 1), .sampling = {}}, none), DataError);
  EXPECT_THROW(engine.submit({.prompt = {1}, .sampling = {}, .max_tokens = -1}, none), ConfigError);
  Request many{.prompt = {1}, .sampling = {}};
  many.choices = 0;
  EXPECT_THROW(engine.submit(many, none), ConfigError);
  EXPECT_FALSE(engine.step());
}

// A prompt as long as the context has one token of an answer.
TEST(Engine, AFullContextGivesOneToken) {
  SimulatedModel model(kSmallLimits);
  Engine engine(model);
  Collected c{.request = {.prompt = std::vector<std::int32_t>(64, 1), .sampling = {}}, .choices = {}};
  engine.submit(c.request, c.listener());
  run_out(engine);
  EXPECT_EQ(c.choices[0].tokens.size(), 1u);
  EXPECT_EQ(c.choices[0].end.reason, EndReason::kContext);
}

// Virtual tokens stand before every text: its answers follow from them, and nobody sees them.
TEST(Engine, PutsVirtualTokensBeforeEveryText) {
  PassLimits limits = kSmallLimits;
  limits.virtual_tokens = 3;
  SimulatedModel model(limits);
  Engine engine(model);
  EXPECT_EQ(engine.context(), 61);
  std::mt19937 random(5);
  std::vector<Collected> all(6);
  for (Collected& c : all) {
    c.request = {.prompt = random_prompt(random, 5 + random() % 30), .sampling = {.repetition_penalty = 1.5}};
    c.request.prompt[0] = 7;
    c.request.max_tokens = 8;
    c.request.prompt_logprobs = &c == &all[0] ? std::optional(0) : std::nullopt;
    engine.submit(c.request, c.listener());
  }
  run_out(engine);
  for (const Collected& c : all) {
    TokenSampler sampler(c.request.sampling);
    std::vector<std::int32_t> text{50, 51, 52}, answer;
    text.insert(text.end(), c.request.prompt.begin(), c.request.prompt.end());
    std::vector<float> logits(50);
    for (int i = 0; i < 8; ++i) {
      SimulatedModel::logits_of(text, logits);
      answer.push_back(sampler.next(logits, std::span(text).subspan(3)));
      text.push_back(answer.back());
    }
    EXPECT_EQ(c.choices[0].tokens, answer);
    EXPECT_EQ(c.choices[0].end.prompt_tokens, std::ssize(c.request.prompt));
  }
  const auto& scores = all[0].choices[0].prompt;
  ASSERT_EQ(scores.size() + 1, all[0].request.prompt.size());
  for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i].token.id, all[0].request.prompt[i + 1]);
}

// Where one sequence has the only block, what it leaves there serves the next one that begins alike.
TEST(Engine, ContinuesWhatTheOnlySequenceLeft) {
  for (const LeftBehind left : {LeftBehind::kNothing, LeftBehind::kBeginning, LeftBehind::kWhole}) {
    PassLimits limits = kSmallLimits;
    limits.block_tokens = 64;
    limits.blocks = limits.sequences = 1;
    limits.shares = false;
    limits.left_behind = left;
    SimulatedModel model(limits);
    Engine engine(model);
    const auto ask = [&](std::vector<std::int32_t> prompt, const char* salt) {
      Collected c{.request = {.prompt = std::move(prompt), .sampling = {}}, .choices = {}};
      c.request.max_tokens = 4;
      c.request.cache_salt = salt;
      engine.submit(c.request, c.listener());
      run_out(engine);
      EndReason reason{};
      EXPECT_EQ(c.choices[0].tokens, alone(c.request, 0, kSmallLimits, reason));
      return std::pair(c.choices[0].end.cached_tokens, c.choices[0].tokens);
    };
    std::vector<std::int32_t> text{1, 2, 3, 4, 5};
    auto [cached, answer] = ask(text, "");
    EXPECT_EQ(cached, 0);
    text.insert(text.end(), answer.begin(), answer.end());
    // The last token of the answer was not read, and the last of a prompt always is.
    EXPECT_EQ(ask(text, "").first, left == LeftBehind::kNothing ? 0 : 8);
    EXPECT_EQ(ask({1, 2, 3, 9}, "").first, left == LeftBehind::kBeginning ? 3 : 0);
    EXPECT_EQ(ask({1, 2, 3, 9}, "other").first, 0);
    EXPECT_EQ(ask({1, 2, 3, 9}, "").first, 0) << "of another salt";
    EXPECT_EQ(ask({1, 2, 3, 9}, "").first, left == LeftBehind::kBeginning ? 3 : 0);
  }
}

std::string letters_of(const Answer& answer) {
  std::string text;
  for (const std::int32_t id : answer.tokens) {
    text += static_cast<char>('a' + id % 5);
    if (id >= 5) text += static_cast<char>('a' + id / 5 % 5);
  }
  return text;
}

TEST(Engine, ConstrainedAnswersEndWhereTheirConstraintsDo) {
  SimulatedModel model(kSmallLimits);
  Engine engine(model);
  const auto ask = [&](Request request) {
    Collected c;
    request.prompt = {1, 2, 3};
    c.request = std::move(request);
    engine.submit(c.request, c.listener());
    run_out(engine);
    for (const Answer& a : c.choices) EXPECT_EQ(a.ends, 1);
    return c.choices;
  };
  const auto three = constraint::letters_that_match("(abc|bcd)");
  for (const Answer& a : ask({.sampling = {.seed = 3}, .choices = 5, .constraint = three})) {
    EXPECT_TRUE(letters_of(a) == "abc" || letters_of(a) == "bcd") << letters_of(a);
    EXPECT_EQ(a.end.reason, EndReason::kEndToken);
    EXPECT_EQ(a.end.token.token.id, -1);
  }
  // Token 45 has no text: an end token is no part of the answer.
  const auto many = constraint::letters_that_match("(ab)*");
  const Answer ended = ask(
      {.sampling = {.greedy = true, .logit_bias = {{45, 100.F}}}, .end_ids = {45}, .constraint = many})[0];
  EXPECT_EQ(letters_of(ended), "");
  EXPECT_EQ(ended.end.token.token.id, 45);
  // A letter of the text as an end token is drawn only where the text may end.
  const Answer whole = ask({.sampling = {.greedy = true, .logit_bias = {{0, 100.F}}},
                            .end_ids = {0},
                            .constraint = constraint::letters_that_match("bab?")})[0];
  EXPECT_EQ(whole.end.reason, EndReason::kEndToken);
  EXPECT_EQ(letters_of(whole), "ba");
  // Too few tokens: the text stays incomplete.
  EXPECT_EQ(ask({.max_tokens = 2, .constraint = constraint::letters_that_match("[ab]{40}")})[0].end.reason,
            EndReason::kLength);
}

TEST(Engine, WhereNoTokenIsLeftAnswersFailRatherThanBreakTheirConstraint) {
  SimulatedModel model(kSmallLimits);
  Engine engine(model);
  const auto ask = [&](Request request) {
    Collected c;
    request.prompt = {1};
    c.request = std::move(request);
    engine.submit(c.request, c.listener());
    run_out(engine);
    return c.choices[0];
  };
  // No token has an x.
  const Answer stuck = ask({.constraint = constraint::letters_that_match("abx")});
  EXPECT_EQ(stuck.end.reason, EndReason::kFailed);
  EXPECT_EQ(letters_of(stuck), "ab");
  EXPECT_NE(stuck.end.message.find("leave no token"), std::string::npos);
  // What the options forbid, but the text may end.
  SamplingOptions options;
  for (std::int32_t id = 0; id < 50; ++id) options.suppressed.push_back(id);
  EXPECT_EQ(ask({.sampling = options, .constraint = constraint::letters_that_match("(ab)*")}).end.reason,
            EndReason::kEndToken);
  EXPECT_EQ(ask({.sampling = options, .constraint = constraint::letters_that_match("ab")}).end.reason,
            EndReason::kFailed);
}

}  // namespace
}  // namespace stoa::infer
