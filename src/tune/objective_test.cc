#include "tune/objective.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stoa::tune {
namespace {

constexpr AnswerScore kChosen{-10, 5}, kRejected{-12, 8};
constexpr double kReferenceChosen = -11, kReferenceRejected = -11.5;

ObjectiveConfig objective(ObjectiveKind kind) {
  ObjectiveConfig o;
  o.name = kind;
  return o;
}

double loss_of(const ObjectiveConfig& o) {
  return pair_loss(o, kChosen, kRejected, kReferenceChosen, kReferenceRejected).loss;
}

// Values computed independently from the published formulas.
TEST(Objectives, EqualTheirFormulas) {
  EXPECT_NEAR(loss_of(objective(ObjectiveKind::kDpo)), 0.62095705, 1e-8);
  ObjectiveConfig smoothed = objective(ObjectiveKind::kDpo), robust = objective(ObjectiveKind::kRobust);
  smoothed.label_smoothing = robust.label_smoothing = 0.1;
  EXPECT_NEAR(loss_of(smoothed), 0.63595705, 1e-8);
  EXPECT_NEAR(loss_of(robust), 0.60220705, 1e-8);
  EXPECT_NEAR(loss_of(objective(ObjectiveKind::kHinge)), 0.85, 1e-12);
  EXPECT_NEAR(loss_of(objective(ObjectiveKind::kIpo)), 22.44390625, 1e-8);
  const PairLoss orpo = pair_loss(objective(ObjectiveKind::kOrpo), {-2, 1}, {-1.5, 1}, 0, 0);
  EXPECT_NEAR(orpo.loss, 2.10420578, 1e-8);
  const ObjectiveConfig kto = objective(ObjectiveKind::kKto);
  EXPECT_NEAR(judged_loss(kto, true, kChosen, kReferenceChosen, 0).loss, 0.47502081, 1e-8);
  EXPECT_NEAR(judged_loss(kto, false, kRejected, kReferenceRejected, 0).loss, 0.48750260, 1e-8);
  EXPECT_NEAR(judged_loss(kto, true, kChosen, kReferenceChosen, 0.5).loss, 0.48750260, 1e-8);
  EXPECT_NEAR(judged_loss(kto, false, kRejected, kReferenceRejected, 0.5).loss, 0.47502081, 1e-8);
  const PairLoss dpo =
      pair_loss(objective(ObjectiveKind::kDpo), kChosen, kRejected, kReferenceChosen, kReferenceRejected);
  EXPECT_NEAR(dpo.reward_chosen, 0.1, 1e-12);
  EXPECT_NEAR(dpo.reward_rejected, -0.05, 1e-12);
  ObjectiveConfig with_sft = objective(ObjectiveKind::kDpo);
  with_sft.sft_weight = 0.5;
  EXPECT_NEAR(loss_of(with_sft), 0.62095705 + 0.5 * 2, 1e-8);
  const double simpo = loss_of(objective(ObjectiveKind::kSimpo));  // 2 (-2 + 1.5) - 0.5 = -1.5
  EXPECT_NEAR(simpo, std::log1p(std::exp(1.5)), 1e-12);
}

TEST(Objectives, RewardsAndScores) {
  // -log sigmoid(1.5 - 0.7 - 0.3), and the squared sum of both.
  ObjectiveConfig reward = objective(ObjectiveKind::kReward);
  const PairLoss plain = pair_loss(reward, {1.5, 1}, {0.7, 1}, 0, 0, 0.3);
  EXPECT_NEAR(plain.loss, 0.47407698, 1e-8);
  EXPECT_EQ(plain.reward_chosen, 1.5);
  EXPECT_EQ(plain.reward_rejected, 0.7);
  reward.center_rewards_coefficient = 0.01;
  EXPECT_NEAR(pair_loss(reward, {1.5, 1}, {0.7, 1}, 0, 0, 0.3).loss, 0.47407698 + 0.0484, 1e-8);
  EXPECT_FALSE(reward.refers());
  EXPECT_TRUE(reward.pairs());
  const ScoreError error = squared_error(1.5, 2);
  EXPECT_EQ(error.loss, 0.25);
  EXPECT_EQ(error.by_score, -1);
}

TEST(Objectives, DerivativesAreThoseOfTheLoss) {
  constexpr double kStep = 1e-6;
  for (const auto& [name, kind] : enum_names(ObjectiveKind::kSft)) {
    ObjectiveConfig o = objective(kind);
    if (!o.pairs()) continue;
    o.label_smoothing = kind == ObjectiveKind::kDpo || kind == ObjectiveKind::kRobust ? 0.1 : 0;
    if (!o.scores()) o.sft_weight = 0.3;
    o.center_rewards_coefficient = 0.05;
    const auto at = [&](double chosen, double rejected) {
      return pair_loss(o, {chosen, 5}, {rejected, 8}, kReferenceChosen, kReferenceRejected, 0.4);
    };
    for (const double chosen : {-10.0, -3.0, -30.0}) {
      const PairLoss here = at(chosen, -12);
      const double by_chosen = (at(chosen + kStep, -12).loss - at(chosen - kStep, -12).loss) / (2 * kStep),
                   by_rejected = (at(chosen, -12 + kStep).loss - at(chosen, -12 - kStep).loss) / (2 * kStep);
      EXPECT_NEAR(here.by_chosen, by_chosen, 1e-6 * std::max(1.0, std::abs(by_chosen))) << name;
      EXPECT_NEAR(here.by_rejected, by_rejected, 1e-6 * std::max(1.0, std::abs(by_rejected))) << name;
    }
  }
  const ObjectiveConfig kto = objective(ObjectiveKind::kKto);
  for (const bool desirable : {false, true}) {
    const auto at = [&](double x) { return judged_loss(kto, desirable, {x, 5}, -11, 0.5); };
    EXPECT_NEAR(at(-10).by_answer, (at(-10 + kStep).loss - at(-10 - kStep).loss) / (2 * kStep), 1e-8);
  }
}

TEST(Objectives, AreFiniteFarFromTheReference) {
  for (const auto& [name, kind] : enum_names(ObjectiveKind::kSft)) {
    const ObjectiveConfig o = objective(kind);
    for (const double x : {-1e5, -1e-9}) {
      if (o.pairs()) {
        const PairLoss loss = pair_loss(o, {x, 5}, {-1e4, 8}, -11, -11);
        EXPECT_TRUE(std::isfinite(loss.loss) && std::isfinite(loss.by_chosen) &&
                    std::isfinite(loss.by_rejected))
            << name;
      }
    }
  }
}

}  // namespace
}  // namespace stoa::tune
