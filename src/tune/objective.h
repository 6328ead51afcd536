// Objectives of tuning. What is not supervised tuning is a function of the log-probabilities of whole
// answers. One mechanism serves all: a pass of losses gives every answer its log-probability, the objective
// gives the derivative of its loss by each of them, and the training pass runs with that derivative as the
// weight of every token of the answer - the cross entropy of a token is minus its log-probability.
// Rewards and regressions are the same with scores (nn/score_head.h) in the place of log-probabilities: that
// of a text is its last token's. Vectors of texts are compared by tune/contrastive.h.
//
// Formulas: Rafailov et al. 2023 (DPO, and its conservative form by Mitchell 2023), Chowdhury et al. 2024
// (robust), Azar et al. 2023 (IPO), Zhao et al. 2023 (hinge), Hong et al. 2024 (ORPO), Meng et al. 2024
// (SimPO), Ethayarajh et al. 2024 (KTO), Bradley and Terry 1952 as in Ouyang et al. 2022 (reward), Touvron et
// al. 2023 (its margin), Eisenstein et al. 2023 (its centre).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/schema.h"

namespace stoa::tune {

enum class ObjectiveKind : std::uint8_t {
  kSft,
  kDpo,
  kRobust,
  kIpo,
  kHinge,
  kOrpo,
  kSimpo,
  kKto,
  kReward,
  kRegression,
  kContrastive
};
std::span<const config::EnumName<ObjectiveKind>> enum_names(ObjectiveKind);
std::string_view name_of(ObjectiveKind kind);

// `model.objective`
struct ObjectiveConfig {
  ObjectiveKind name = ObjectiveKind::kSft;
  std::optional<double> beta;                           // null: value_of_beta()
  double label_smoothing = 0;                           // dpo, robust
  double gamma = 0.5;                                   // simpo: the margin
  double sft_weight = 0;                                // of the chosen answer's cross entropy per token
  double desirable_weight = 1, undesirable_weight = 1;  // kto
  double center_rewards_coefficient = 0;                // reward
  double temperature = 0.05;                            // contrastive
  std::optional<std::string> reference_model;           // null: the model at the start of the run

  double value_of_beta() const;
  // A pass of losses comes before each training pass.
  bool two_passes() const { return name != ObjectiveKind::kSft; }
  // Trains the scores of texts, not their probabilities.
  bool scores() const { return name == ObjectiveKind::kReward || name == ObjectiveKind::kRegression; }
  // Compares the vectors of texts.
  bool embeds() const { return name == ObjectiveKind::kContrastive; }
  // Of preference pairs.
  bool pairs() const {
    return two_passes() && !embeds() && name != ObjectiveKind::kKto && name != ObjectiveKind::kRegression;
  }
  // Compares with the log-probabilities that a reference model gives the answers.
  bool refers() const;
};
void declare(config::Section<ObjectiveConfig>& s);

// An answer: the sum of the log-probabilities of its tokens, and their number; or, of a text with a score,
// that score and 1.
struct AnswerScore {
  double log_probability = 0;
  std::int64_t tokens = 0;
};

// Loss of a pair, and its derivative by the log-probability of each answer.
struct PairLoss {
  double loss = 0, by_chosen = 0, by_rejected = 0;
  double reward_chosen = 0, reward_rejected = 0;  // beta log (model / reference); without reference as
                                                  // defined by the objective
};
// `reference_…`: log-probabilities by the reference; unused where the objective has none. `margin`: of
// rewards, by how much the data says that the chosen answer is better.
PairLoss pair_loss(const ObjectiveConfig& objective, const AnswerScore& chosen, const AnswerScore& rejected,
                   double reference_chosen, double reference_rejected, double margin = 0);

// Loss of a judged answer by KTO. `drift`: z, how far the model has moved from the reference on answers that
// do not belong to their questions; at least 0, without gradient.
struct JudgedLoss {
  double loss = 0, by_answer = 0, reward = 0;
};
JudgedLoss judged_loss(const ObjectiveConfig& objective, bool desirable, const AnswerScore& answer,
                       double reference, double drift);

// Squared error of a score, and its derivative.
struct ScoreError {
  double loss = 0, by_score = 0;
};
ScoreError squared_error(double score, double target);

}  // namespace stoa::tune
