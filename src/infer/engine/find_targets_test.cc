#include "infer/engine/find_targets.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "infer/engine/simulated_model.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kWords = 19;

SearchLimits until_zero(std::int64_t tokens) {
  return {tokens, [](std::int32_t id) { return id == 0; }};
}

// By logits of whole texts, without passes.
FoundTarget found_by_hand(const SourceSearch& job, std::int32_t start) {
  BeamSearch search = job.search;
  std::vector<std::vector<std::int32_t>> targets{{start}};
  for (;;) {
    std::vector<float> logits(targets.size() * static_cast<std::size_t>(kWords));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      std::vector<std::int32_t> read = job.source;
      read.insert(read.end(), targets[i].begin(), targets[i].end());
      SimulatedModel::logits_of(read, std::span(logits).subspan(i * kWords, kWords));
    }
    if (!search.advance(logits)) return search.best();
    std::vector<std::vector<std::int32_t>> next;
    for (std::size_t i = 0; i < search.tokens().size(); ++i) {
      next.push_back(targets[static_cast<std::size_t>(search.parents()[i])]);
      next.back().push_back(search.tokens()[i]);
    }
    targets = std::move(next);
  }
}

TEST(FindTargets, SearchesTogetherFindWhatEachFindsAlone) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    PassLimits limits;
    limits.block_tokens = 1 + random() % 6;
    limits.context = 12;
    limits.source_tokens = 9;
    limits.start = 4;
    limits.pass_tokens = 1 + random() % 20;
    limits.sequences = 4 + random() % 20;
    limits.scored = limits.sequences;
    limits.vocabulary = kWords;
    limits.shares = random() % 3 != 0;
    limits.blocks = 4 * (limits.blocks_of(12) + limits.blocks_of(9) + 1) + random() % 40;
    SimulatedModel model(limits);
    std::vector<SourceSearch> jobs;
    for (int i = 0; i < 12; ++i) {
      std::vector<std::int32_t> source(1 + random() % 9);
      for (auto& id : source) id = static_cast<std::int32_t>(random() % 3);
      jobs.push_back({source, BeamSearch(1 + random() % 4, 0.5, until_zero(1 + random() % 12))});
    }
    std::vector<FoundTarget> expected;
    for (const SourceSearch& job : jobs) expected.push_back(found_by_hand(job, 4));
    double searched = 0;
    find_targets(model, jobs, [&](double now) {
      EXPECT_GE(now, searched);
      EXPECT_LE(now, 12);
      searched = now;
    });
    EXPECT_EQ(searched, 12);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_EQ(jobs[i].search.best().ids, expected[i].ids) << "seed " << seed << ", search " << i;
      EXPECT_EQ(jobs[i].search.best().score, expected[i].score);
      EXPECT_EQ(jobs[i].search.best().ended, expected[i].ended);
    }
  }
}

TEST(FindTargets, RefusesWhatHasNoRoom) {
  PassLimits limits;
  limits.blocks = 5;
  limits.block_tokens = 4;
  limits.context = 8;
  limits.source_tokens = 8;
  limits.sequences = limits.scored = 4;
  limits.vocabulary = kWords;
  SimulatedModel model(limits);
  const auto search = [&](std::size_t source, std::int64_t beams) {
    std::vector<SourceSearch> jobs{
        {std::vector<std::int32_t>(source, 1), BeamSearch(beams, 1, until_zero(8))}};
    find_targets(model, jobs);
  };
  search(4, 2);
  EXPECT_THROW(search(5, 2), ConfigError);
  EXPECT_THROW(search(1, 5), ConfigError);
  EXPECT_THROW(search(9, 1), DataError);
}

}  // namespace
}  // namespace stoa::infer
