#include "eval/requests/shared_reading.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "infer/engine/simulated_model.h"
#include "infer/token_sampler.h"

namespace stoa::eval {
namespace {

using infer::SimulatedModel;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kWords = 23;

struct OwnText {
  Ids tokens, labels;
};

// Questions with shared shots, several choices each, equal texts and texts that are beginnings of others.
std::vector<OwnText> questions(std::mt19937& random) {
  const auto words = [&](std::size_t n) {
    Ids out(n);
    for (auto& id : out) id = static_cast<std::int32_t>(random() % kWords);
    return out;
  };
  std::vector<OwnText> out;
  for (int task = 0; task < 3; ++task) {
    const Ids shots = words(random() % 40);
    for (int question = 0; question < 7; ++question) {
      Ids context = shots;
      const Ids own = words(1 + random() % 20);
      context.insert(context.end(), own.begin(), own.end());
      for (int choice = 0; choice < 4; ++choice) {
        const Ids labels = choice == 3 ? Ids{out.back().labels.front(), 3} : words(1 + random() % 5);
        Ids tokens = context;
        tokens.insert(tokens.end(), labels.begin(), labels.end() - 1);
        out.push_back({tokens, labels});
      }
    }
  }
  out.push_back(out.front());
  return out;
}

std::vector<LabelledText> views(const std::vector<OwnText>& texts) {
  std::vector<LabelledText> out;
  for (const OwnText& text : texts) out.push_back({text.tokens, text.labels});
  return out;
}

TextScore direct_score(const OwnText& text) {
  TextScore out;
  std::vector<float> logits(kWords);
  for (std::size_t i = 0; i < text.labels.size(); ++i) {
    SimulatedModel::logits_of(std::span(text.tokens).first(text.tokens.size() - text.labels.size() + i + 1),
                              logits);
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    out.log_likelihood +=
        static_cast<double>(logits[static_cast<std::size_t>(text.labels[i])]) - std::log(sum);
    out.greedy &= infer::likeliest(logits) == text.labels[i];
  }
  return out;
}

TEST(SharedReading, EveryTextIsScoredOnceWhateverTheMemory) {
  std::mt19937 random(5);
  std::vector<OwnText> texts = questions(random);
  for (int i = 0; i < 20; ++i) {  // some labels are the most likely
    OwnText& text = texts[random() % texts.size()];
    std::vector<float> logits(kWords);
    SimulatedModel::logits_of(text.tokens, logits);
    text.labels.back() = infer::likeliest(logits);
  }
  const auto all = views(texts);
  std::vector<double> first;
  for (const infer::PassLimits& limits :
       {infer::PassLimits{16, 2000, 128, 512, 128, 128, kWords, true},
        infer::PassLimits{4, 40, 128, 9, 3, 2, kWords, true},    // answers give their memory up
        infer::PassLimits{16, 8, 128, 64, 16, 5, kWords, true},  // places run out
        infer::PassLimits{128, 1, 128, 64, 1, 8, kWords, false}}) {
    SimulatedModel model(limits);
    std::vector<int> told(texts.size(), 0);
    std::vector<double> scores(texts.size());
    score_texts(model, all, [&](std::size_t i, const TextScore& score) {
      ++told[i];
      scores[i] = score.log_likelihood;
      const TextScore expected = direct_score(texts[i]);
      EXPECT_NEAR(score.log_likelihood, expected.log_likelihood, 1e-5) << i;
      EXPECT_EQ(score.greedy, expected.greedy) << i;
    });
    EXPECT_EQ(told, std::vector<int>(texts.size(), 1));
    if (first.empty()) first = scores;
    EXPECT_EQ(scores, first);  // the same bits
  }
}

TEST(SharedReading, WhatIsSharedIsReadOnce) {
  std::vector<OwnText> texts;
  for (std::int32_t question = 0; question < 10; ++question)
    for (std::int32_t choice = 0; choice < 4; ++choice) {
      Ids tokens(30, 1);                // shots
      tokens.resize(50, question + 2);  // the question
      tokens.push_back(choice);
      texts.push_back({tokens, {choice, 5}});
    }
  SimulatedModel model(infer::PassLimits{16, 2000, 128, 512, 128, 128, kWords, true});
  const std::int64_t read = score_texts(model, views(texts), [](std::size_t, const TextScore&) {});
  EXPECT_EQ(read, 30 + 10 * (20 + 4));
}

TEST(SharedReading, OneTextAtATimeLeavesItsBeginningToTheNext) {
  std::vector<OwnText> texts;
  for (std::int32_t choice = 0; choice < 4; ++choice)
    for (std::int32_t question = 0; question < 10; ++question) {
      Ids tokens(30, 1);                // shots
      tokens.resize(50, question + 2);  // the question
      tokens.push_back(choice);
      texts.push_back({tokens, {choice, 5}});
    }
  infer::PassLimits limits{128, 1, 128, 64, 1, 8, kWords, false};
  limits.left_behind = infer::LeftBehind::kBeginning;
  SimulatedModel model(limits);
  const std::int64_t read = score_texts(model, views(texts), [&](std::size_t i, const TextScore& score) {
    EXPECT_NEAR(score.log_likelihood, direct_score(texts[i]).log_likelihood, 1e-5) << i;
  });
  EXPECT_EQ(read, 51 + 9 * 21 + 30 * 2);
}

TEST(SharedReading, VirtualTokensStandBeforeEveryText) {
  std::mt19937 random(6);
  const std::vector<OwnText> texts = questions(random);
  for (const bool shares : {true, false}) {
    infer::PassLimits limits = shares ? infer::PassLimits{16, 2000, 128, 512, 128, 128, kWords, true}
                                      : infer::PassLimits{128, 1, 128, 64, 1, 8, kWords, false};
    limits.virtual_tokens = 3;
    SimulatedModel model(limits);
    score_texts(model, views(texts), [&](std::size_t i, const TextScore& score) {
      OwnText whole = texts[i];
      whole.tokens.insert(whole.tokens.begin(), {kWords, kWords + 1, kWords + 2});
      EXPECT_NEAR(score.log_likelihood, direct_score(whole).log_likelihood, 1e-5) << i;
    });
  }
}

TEST(SharedReading, ChoicesOfOneTokenCostNothing) {
  std::vector<OwnText> texts;
  for (std::int32_t choice = 0; choice < 4; ++choice) texts.push_back({Ids(40, 1), {choice}});
  SimulatedModel model(infer::PassLimits{16, 2000, 128, 512, 128, 128, kWords, true});
  int told = 0;
  EXPECT_EQ(score_texts(model, views(texts), [&](std::size_t, const TextScore&) { ++told; }), 40);
  EXPECT_EQ(told, 4);
}

TEST(SharedReading, NothingToScore) {
  SimulatedModel model(infer::PassLimits{16, 20, 128, 512, 128, 128, kWords, true});
  EXPECT_EQ(score_texts(model, {}, [](std::size_t, const TextScore&) {}), 0);
}

}  // namespace
}  // namespace stoa::eval
