#include "plan/fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "plan/error_band.h"
#include "plan/predict.h"

namespace stoa::plan {
namespace {

constexpr std::size_t kSize = kConstants;
using Vector = std::array<double, kSize>;

using Matrix = std::array<Vector, kSize>;

// Scatter of a program's rows around its own constants: measurement error and effects outside the model.
constexpr double kProgramScatter = 0.04;
// A tail as heavy as Lange, Little and Taylor (1989) propose if the data do not determine it.
constexpr double kProgramFreedom = 4;

FitOptions options_of_programs(const Deviations& prior) {
  return {.scatter = kProgramScatter, .prior = prior, .freedom = kProgramFreedom};
}

// Solves a x = b for a symmetric positive definite `a` (Cholesky).
Vector solve_linear(Matrix a, Vector b) {
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j][j];
    }
  }
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = kSize; i-- > 0;) {
    for (std::size_t k = i + 1; k < kSize; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

class Problem {
 public:
  Problem(const RowList& rows, const Constants& prior, const FitOptions& options)
      : rows_(rows), prior_(prior), options_(options), weights_(rows.size(), 1) {
    std::map<std::string, double> sizes;
    const auto key = [](const Row& row) { return row.workload.software.release + row.group; };
    for (const Row* row : rows) ++sizes[key(*row)];
    double sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (options.balance_groups) weights_[i] = 1 / std::sqrt(sizes[key(*rows[i])]);
      sum += weights_[i];
    }
    for (double& weight : weights_) weight *= static_cast<double>(rows.size()) / sum;
  }

  std::vector<double> residuals(const Constants& k) const {
    std::vector<double> out;
    out.reserve(rows_.size());
    for (const Row* row : rows_) out.push_back(std::log1p(error_of(*row, k)) / options_.scatter);
    return out;
  }

  double offset(const Constants& k, std::size_t c) const {
    return std::log(k.value[c] / prior_.value[c]) / deviation(c);
  }
  double deviation(std::size_t c) const { return options_.prior[c]; }

  double cost(const std::vector<double>& residuals, const Constants& k) const {
    double sum = 0;
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      const double z = std::abs(residuals[i]);
      sum += weights_[i] * loss(z);
    }
    for (std::size_t c = 0; c < kSize; ++c) sum += 0.5 * offset(k, c) * offset(k, c);
    return sum;
  }

  // a x = b is the Gauss-Newton step from `k`; the inverse of `a` is the covariance of its logarithms.
  struct Normal {
    Matrix a{};
    Vector b{};
  };
  Normal normal(const Constants& k, const std::vector<double>& residuals) const {
    constexpr double kDelta = 0.01;
    std::vector<Vector> slopes(rows_.size());
    for (std::size_t c = 0; c < kSize; ++c) {
      Constants moved = k;
      moved.value[c] *= 1 + kDelta;
      const std::vector<double> there = this->residuals(moved);
      for (std::size_t i = 0; i < rows_.size(); ++i)
        slopes[i][c] = (there[i] - residuals[i]) / std::log1p(kDelta);
    }
    Normal out;
    auto& [a, b] = out;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const double z = std::abs(residuals[i]);
      const double weight = weights_[i] * pull(z);
      for (std::size_t c = 0; c < kSize; ++c) {
        b[c] -= weight * slopes[i][c] * residuals[i];
        for (std::size_t d = 0; d <= c; ++d) a[c][d] += weight * slopes[i][c] * slopes[i][d];
      }
    }
    for (std::size_t c = 0; c < kSize; ++c) {
      a[c][c] += 1 / (deviation(c) * deviation(c));
      b[c] -= offset(k, c) / deviation(c);
      for (std::size_t d = 0; d < c; ++d) a[d][c] = a[c][d];
    }
    return out;
  }

  static Constants step(const Constants& k, Normal normal, double damping) {
    for (std::size_t c = 0; c < kSize; ++c) normal.a[c][c] *= 1 + damping;
    const Vector move = solve_linear(normal.a, normal.b);
    Constants next = k;
    for (std::size_t c = 0; c < kSize; ++c) {
      const ConstantInfo& bounds = info(static_cast<Constant>(c));
      next.value[c] =
          std::clamp(k.value[c] * std::exp(std::clamp(move[c], -0.7, 0.7)), bounds.low, bounds.high);
    }
    return next;
  }

 private:
  static constexpr double kHuber = 2;  // in units of the scatter

  // The loss for a residual in units of the scatter; pull: derivative of the loss / residual.
  double loss(double z) const {
    const double nu = options_.freedom;
    if (nu > 0) return 0.5 * (nu + 1) * std::log1p(z * z / nu);
    return z < kHuber ? 0.5 * z * z : kHuber * (z - 0.5 * kHuber);
  }
  double pull(double z) const {
    const double nu = options_.freedom;
    if (nu > 0) return (nu + 1) / (nu + z * z);
    return z < kHuber ? 1 : kHuber / z;
  }

  const RowList& rows_;
  const Constants& prior_;
  const FitOptions& options_;
  std::vector<double> weights_;
};

// 10th and 90th percentile of measured over predicted, widened for few rows.
void set_band(Calibration::Entry& entry, std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double share) {
    return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
  };
  const double wider = 1.5 + 2 / std::sqrt(static_cast<double>(errors.size()));  // in-sample to unseen
  entry.low = std::max(0.4, 1 - wider * std::max(0.02, 1 - 1 / (1 + at(0.9))));
  entry.high = std::min(2.5, 1 + wider * std::max(0.02, 1 / (1 + at(0.1)) - 1));
}

std::vector<double> errors_of(const RowList& rows, const Constants& k) {
  std::vector<double> out;
  for (const Row* row : rows) out.push_back(error_of(*row, k));
  return out;
}

}  // namespace

double error_of(const Row& row, const Constants& constants) {
  return predict_time(row.workload, row.cluster, constants).sum() / *row.seconds - 1;
}

Constants fit_constants(const RowList& rows, const Constants& prior, const FitOptions& options) {
  if (rows.empty()) return prior;
  const Problem problem(rows, prior, options);
  Constants k = prior;
  std::vector<double> residuals = problem.residuals(k);
  double cost = problem.cost(residuals, k), damping = 1e-2;
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    const double before = cost;
    const Problem::Normal normal = problem.normal(k, residuals);
    for (int attempt = 0; attempt < 5; ++attempt, damping *= 5) {
      const Constants next = Problem::step(k, normal, damping);
      const std::vector<double> there = problem.residuals(next);
      const double cost_there = problem.cost(there, next);
      if (cost_there >= cost) continue;
      k = next;
      residuals = there;
      cost = cost_there;
      damping = std::max(damping / 5, 1e-6);
      break;
    }
    if (before - cost < 1e-4 * before) break;
  }
  return k;
}

Deviations textbook_deviations(double width) {
  Deviations out;
  for (std::size_t c = 0; c < kSize; ++c) out[c] = width * info(static_cast<Constant>(c)).deviation;
  return out;
}

Population fit_population(const RowList& rows, const Constants& prior) {
  constexpr int kRounds = 8;
  constexpr double kTextbookPrograms = 2;  // the textbook's deviations count like those of two programs
  std::map<std::string, RowList> programs;
  for (const Row* row : rows) programs[row->workload.software.release + '|' + row->group].push_back(row);
  const Deviations textbook = textbook_deviations();
  Population population{fit_constants(rows, prior, options_of_programs(textbook)), textbook};
  const auto count = static_cast<double>(programs.size());
  for (int round = 0; round < kRounds; ++round) {
    Vector sum{}, squares{}, unsure{};
    for (const auto& [name, own] : programs) {
      const FitOptions options = options_of_programs(population.deviation);
      const Constants fitted = fit_constants(own, population.mean, options);
      const Problem problem(own, population.mean, options);
      const Matrix inverse_covariance = problem.normal(fitted, problem.residuals(fitted)).a;
      for (std::size_t c = 0; c < kSize; ++c) {
        const double log = std::log(fitted.value[c]);
        sum[c] += log;
        squares[c] += log * log;
        Vector unit{};
        unit[c] = 1;
        unsure[c] += solve_linear(inverse_covariance, unit)[c];
      }
    }
    for (std::size_t c = 0; c < kSize; ++c) {
      const ConstantInfo& bounds = info(static_cast<Constant>(c));
      const double within = 1 / (population.deviation[c] * population.deviation[c]);
      const double from = 1 / (textbook[c] * textbook[c]);
      const double log = (std::log(prior.value[c]) * from + sum[c] * within) / (from + count * within);
      population.mean.value[c] = std::clamp(std::exp(log), bounds.low, bounds.high);
      const double mean = std::log(population.mean.value[c]);
      const double spread = squares[c] - 2 * mean * sum[c] + count * mean * mean + unsure[c];
      population.deviation[c] =
          std::sqrt((kTextbookPrograms * textbook[c] * textbook[c] + spread) / (kTextbookPrograms + count));
    }
  }
  return population;
}

Constants fit_member(const RowList& rows, const Population& population) {
  return fit_constants(rows, population.mean, options_of_programs(population.deviation));
}

std::vector<Constant> determined(const Constants& fitted, const Constants& prior, double width,
                                 std::size_t most) {
  const auto moved = [&](Constant c) { return std::abs(std::log(fitted[c] / prior[c])) / info(c).deviation; };
  std::vector<Constant> out;
  for (std::size_t i = 0; i < kSize; ++i)
    if (const auto c = static_cast<Constant>(i); moved(c) > 0.1 * width) out.push_back(c);
  if (out.size() > most) {
    std::stable_sort(out.begin(), out.end(), [&](Constant a, Constant b) { return moved(a) > moved(b); });
    out.resize(most);
    std::sort(out.begin(), out.end());
  }
  return out;
}

namespace {

// By device family and release.
std::map<std::pair<std::string, std::string>, RowList> by_release(const RowList& rows) {
  std::map<std::pair<std::string, std::string>, RowList> out;
  for (const Row* row : rows)
    out[{row->cluster.device.family, row->workload.software.release}].push_back(row);
  return out;
}

}  // namespace

Calibration calibrate(const RowList& rows) {
  Calibration calibration;
  calibration.name = "calibration";
  std::map<std::string, RowList> families;
  for (const Row* row : rows) families[row->cluster.device.family].push_back(row);
  const auto releases = by_release(rows);
  const Constants prior;
  for (const auto& [family, own] : families) {
    Calibration::Entry entry;
    entry.constants = fit_constants(own, prior);
    entry.fitted = determined(entry.constants, prior);
    entry.rows = static_cast<int>(own.size());
    set_band(entry, errors_of(own, entry.constants));
    for (const Row* row : own)
      for (const std::string& kind : model_kinds(row->workload.model))
        if (std::find(entry.kinds.begin(), entry.kinds.end(), kind) == entry.kinds.end())
          entry.kinds.push_back(kind);
    calibration.families[family] = entry;
  }
  for (const auto& [family, own] : families) {
    const auto programs = std::count_if(releases.begin(), releases.end(),
                                        [&](const auto& release) { return release.first.first == family; });
    if (programs < 3) continue;
    const Constants& base = calibration.families[family].constants;
    Calibration::Entry entry;
    entry.constants = fit_population(own, prior).mean;
    entry.fitted = determined(entry.constants, base);
    entry.rows = static_cast<int>(own.size());
    set_band(entry, errors_of(own, entry.constants));
    calibration.releases[{family, kOtherRelease}] = entry;
  }
  return calibrate_programs(rows, std::move(calibration));
}

Calibration calibrate_programs(const RowList& rows, Calibration onto) {
  for (const auto& [key, own] : by_release(rows)) {
    const auto family = onto.families.find(key.first);
    const Constants base = family == onto.families.end() ? Constants() : family->second.constants;
    Calibration::Entry entry;
    const Constants fitted = fit_constants(own, base, {.prior = textbook_deviations(kRefitWidth)});
    entry.fitted = determined(fitted, base, kRefitWidth, 2 * own.size());
    entry.constants = base;
    for (const Constant c : entry.fitted) entry.constants[c] = fitted[c];
    entry.rows = static_cast<int>(own.size());
    set_band(entry, errors_of(own, entry.constants));
    onto.releases[key] = entry;
  }
  return onto;
}

}  // namespace stoa::plan
