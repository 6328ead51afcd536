#include "tune/objective.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace stoa::tune {
namespace {

// log(1 / (1 + e^-x)), exact for large |x|.
double log_sigmoid(double x) { return x >= 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x)); }
double sigmoid(double x) { return std::exp(log_sigmoid(x)); }

double per_token(const AnswerScore& score) {
  return score.log_probability / static_cast<double>(score.tokens);
}

// A loss f(x) of one number, and its derivative.
struct Curve {
  double value, slope;
};

// The losses that depend on the margin x = beta delta alone.
Curve of_margin(const ObjectiveConfig& o, double x) {
  const double e = o.label_smoothing;
  switch (o.name) {
    case ObjectiveKind::kDpo:
      return {-(1 - e) * log_sigmoid(x) - e * log_sigmoid(-x), -(1 - e) * sigmoid(-x) + e * sigmoid(x)};
    case ObjectiveKind::kRobust:
      return {(-(1 - e) * log_sigmoid(x) + e * log_sigmoid(-x)) / (1 - 2 * e),
              (-(1 - e) * sigmoid(-x) - e * sigmoid(x)) / (1 - 2 * e)};
    case ObjectiveKind::kHinge:
      return x < 1 ? Curve{1 - x, -1} : Curve{0, 0};
    default:
      fail<InternalError>("an objective without a margin");
  }
}

// log(a / (1 - a)) of a = e^x, x < 0, and its slope.
Curve log_odds(double x) {
  const double rest = -std::expm1(std::min(x, -1e-12));  // 1 - e^x; a certain answer is nearly certain
  return {x - std::log(rest), 1 + std::exp(x) / rest};
}

}  // namespace

double ObjectiveConfig::value_of_beta() const {
  return beta.value_or(name == ObjectiveKind::kSimpo ? 2.0 : 0.1);
}

bool ObjectiveConfig::refers() const {
  return two_passes() && !scores() && !embeds() && name != ObjectiveKind::kOrpo &&
         name != ObjectiveKind::kSimpo;
}

std::span<const config::EnumName<ObjectiveKind>> enum_names(ObjectiveKind) {
  static constexpr std::array<config::EnumName<ObjectiveKind>, 11> kNames{
      {{"sft", ObjectiveKind::kSft},
       {"dpo", ObjectiveKind::kDpo},
       {"robust", ObjectiveKind::kRobust},
       {"ipo", ObjectiveKind::kIpo},
       {"hinge", ObjectiveKind::kHinge},
       {"orpo", ObjectiveKind::kOrpo},
       {"simpo", ObjectiveKind::kSimpo},
       {"kto", ObjectiveKind::kKto},
       {"reward", ObjectiveKind::kReward},
       {"regression", ObjectiveKind::kRegression},
       {"contrastive", ObjectiveKind::kContrastive}}};
  return kNames;
}

std::string_view name_of(ObjectiveKind kind) {
  for (const auto& [name, value] : enum_names(kind))
    if (value == kind) return name;
  return "";
}

void declare(config::Section<ObjectiveConfig>& s) {
  using C = ObjectiveConfig;
  s.field("name", &C::name)
      .help(
          "What tuning minimises: sft: the cross entropy of answers; of preference pairs dpo (and its forms "
          "robust, ipo, hinge), orpo, simpo; of judged answers kto. A model with one label (model.task "
          "sequence_classification) gives texts scores: reward of preference pairs, regression of texts with "
          "numbers. contrastive: a model of vectors (model.task embedding), of pairs of texts that belong "
          "together: the text of a query shall be nearer to it than the others of the batch.");
  s.field("beta", &C::beta)
      .above(0)
      .derived("0.1; simpo: 2")
      .help("How strongly log-probabilities count; orpo: the weight of its odds ratio (lambda).");
  s.field("label_smoothing", &C::label_smoothing)
      .range(0, 0.499)
      .help("dpo, robust: share of pairs that are taken to be the wrong way round.");
  s.field("gamma", &C::gamma).at_least(0).help("simpo: margin between the two answers.");
  s.field("sft_weight", &C::sft_weight)
      .at_least(0)
      .help("Weight of the mean cross entropy per token of the chosen answer, added to the loss.");
  s.field("desirable_weight", &C::desirable_weight).at_least(0).help("kto: weight of desirable answers.");
  s.field("undesirable_weight", &C::undesirable_weight)
      .at_least(0)
      .help("kto: weight of undesirable answers.");
  s.field("center_rewards_coefficient", &C::center_rewards_coefficient)
      .at_least(0)
      .help(
          "reward: weight of the squared sum of the rewards of a pair, which keeps them around zero; 0.01 is "
          "usual.");
  s.field("temperature", &C::temperature)
      .above(0)
      .help(
          "contrastive: divides the cosines; 0.05 is the scale of 20 of sentence-transformers' "
          "MultipleNegativesRankingLoss.");
  s.field("reference_model", &C::reference_model)
      .derived("the model at the start")
      .help(
          "The reference of dpo and its forms and of kto: a model directory, a checkpoint or a run, of the "
          "same "
          "architecture. What it says of the data is computed once, at the start.");
}

PairLoss pair_loss(const ObjectiveConfig& o, const AnswerScore& chosen, const AnswerScore& rejected,
                   double reference_chosen, double reference_rejected, double margin) {
  const double beta = o.value_of_beta();
  const auto n_chosen = static_cast<double>(chosen.tokens), n_rejected = static_cast<double>(rejected.tokens);
  PairLoss out;
  const double moved_chosen = chosen.log_probability - reference_chosen,
               moved_rejected = rejected.log_probability - reference_rejected;
  switch (o.name) {
    case ObjectiveKind::kIpo: {
      const double distance = moved_chosen / n_chosen - moved_rejected / n_rejected - 1 / (2 * beta);
      out = {distance * distance, 2 * distance / n_chosen, -2 * distance / n_rejected};
      break;
    }
    case ObjectiveKind::kReward: {
      const double x = chosen.log_probability - rejected.log_probability - margin,
                   sum = chosen.log_probability + rejected.log_probability,
                   centre = o.center_rewards_coefficient;
      return {-log_sigmoid(x) + centre * sum * sum, -sigmoid(-x) + 2 * centre * sum,
              sigmoid(-x) + 2 * centre * sum, chosen.log_probability, rejected.log_probability};
    }
    case ObjectiveKind::kSimpo: {
      const double x = beta * (per_token(chosen) - per_token(rejected)) - o.gamma;
      const double slope = -sigmoid(-x);
      out = {-log_sigmoid(x), slope * beta / n_chosen, -slope * beta / n_rejected};
      break;
    }
    case ObjectiveKind::kOrpo: {
      const Curve a = log_odds(per_token(chosen)), b = log_odds(per_token(rejected));
      const double x = a.value - b.value, slope = -beta * sigmoid(-x);
      out = {-per_token(chosen) - beta * log_sigmoid(x), (-1 + slope * a.slope) / n_chosen,
             -slope * b.slope / n_rejected};
      break;
    }
    default: {
      const Curve loss = of_margin(o, beta * (moved_chosen - moved_rejected));
      out = {loss.value, loss.slope * beta, -loss.slope * beta};
    }
  }
  if (o.refers()) {
    out.reward_chosen = beta * moved_chosen;
    out.reward_rejected = beta * moved_rejected;
  } else {
    out.reward_chosen = beta * per_token(chosen);
    out.reward_rejected = beta * per_token(rejected);
  }
  out.loss -= o.sft_weight * per_token(chosen);
  out.by_chosen -= o.sft_weight / n_chosen;
  return out;
}

JudgedLoss judged_loss(const ObjectiveConfig& o, bool desirable, const AnswerScore& answer, double reference,
                       double drift) {
  const double beta = o.value_of_beta(), moved = answer.log_probability - reference;
  const double weight = desirable ? o.desirable_weight : o.undesirable_weight, sign = desirable ? 1 : -1;
  const double s = sigmoid(sign * beta * (moved - drift));
  return {weight * (1 - s), -weight * sign * beta * s * (1 - s), beta * moved};
}

ScoreError squared_error(double score, double target) {
  return {(score - target) * (score - target), 2 * (score - target)};
}

}  // namespace stoa::tune
