#include "eval/metrics/aggregate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/error.h"
#include "base/worker_pool.h"
#include "eval/builtin/reading.h"
#include "eval/metrics/edit_rate.h"
#include "eval/metrics/text_scores.h"
#include "eval/python/random.h"
#include "eval/ruler/making.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kChunk = 1000;          // draws that share a generator
constexpr std::int64_t kTextScoreDraws = 100;  // most draws of scores of texts

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum;
}
double mean_of(const std::vector<double>& values) {
  return sum_of(values) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// A statistic of documents with repetition.
using Statistic = std::function<double(const std::vector<std::size_t>& documents)>;

double bootstrap(const Statistic& statistic, std::size_t documents, std::int64_t draws, int threads) {
  const std::int64_t chunk = std::min(kChunk, draws), chunks = draws / chunk;
  std::vector<double> all(static_cast<std::size_t>(chunks * chunk));
  WorkerPool pool(std::max(1, threads));
  pool.run(chunks, [&](std::int64_t c, int) {
    PythonRandom random(static_cast<std::uint64_t>(c));
    std::vector<std::size_t> drawn(documents);
    for (std::int64_t i = 0; i < chunk; ++i) {
      for (auto& d : drawn) d = random.choice_of(documents);
      all[static_cast<std::size_t>(c * chunk + i)] = statistic(drawn);
    }
  });
  return deviation(all);
}

std::vector<double> numbers(const std::vector<Json>& values) {
  std::vector<double> out;
  for (const Json& v : values) {
    require<DataError>(v.is_number() || v.is_boolean(), "expected a number of every document, got {}",
                       dumped(v));
    out.push_back(v.is_boolean() ? (v.get<bool>() ? 1.0 : 0.0) : v.get<double>());
  }
  return out;
}

double ratio_of_sums(const std::vector<Json>& values) {
  double a = 0, b = 0;
  for (const Json& v : values) a += v.at(0).get<double>(), b += v.at(1).get<double>();
  return a / b;
}

struct Labels {
  std::vector<std::int64_t> gold, predicted;
  std::int64_t classes = 0;
};

Labels labels_of(const std::vector<Json>& values, std::int64_t most) {
  Labels out;
  for (const Json& v : values) {
    require<DataError>(v.is_array() && v.size() == 2 && v[0].is_number_integer(),
                       "expected one gold class, got {}", dumped(v));
    for (const std::int64_t label : {v[0].get<std::int64_t>(), v[1].get<std::int64_t>()}) {
      require<DataError>(label >= 0 && label < most, "class {} in a score of classes below {}", label, most);
      out.classes = std::max(out.classes, label + 1);
    }
    out.gold.push_back(v[0]);
    out.predicted.push_back(v[1]);
  }
  return out;
}

double f1(const Labels& l, const std::vector<std::size_t>& documents) {
  double hits = 0, gold = 0, predicted = 0;
  for (const std::size_t d : documents) {
    gold += l.gold[d] == 1;
    predicted += l.predicted[d] == 1;
    hits += l.gold[d] == 1 && l.predicted[d] == 1;
  }
  return gold + predicted == 0 ? 0.0 : 2 * hits / (gold + predicted);
}

// The mean of the F1 of the classes that occur, as scikit-learn averages them: macro counts each once,
// weighted as often as it is gold, micro puts all together, which is the share of right ones.
double mean_f1(std::string_view average, const Labels& l) {
  std::vector<double> gold(static_cast<std::size_t>(l.classes)), predicted(gold.size()), hits(gold.size());
  for (std::size_t d = 0; d < l.gold.size(); ++d) {
    ++gold[static_cast<std::size_t>(l.gold[d])];
    ++predicted[static_cast<std::size_t>(l.predicted[d])];
    hits[static_cast<std::size_t>(l.gold[d])] += l.gold[d] == l.predicted[d];
  }
  if (average == "micro") return sum_of(hits) / static_cast<double>(l.gold.size());
  double sum = 0, weights = 0;
  for (std::size_t c = 0; c < gold.size(); ++c) {
    if (gold[c] + predicted[c] == 0) continue;
    const double weight = average == "weighted" ? gold[c] : 1;
    sum += weight * (2 * hits[c] / (gold[c] + predicted[c]));
    weights += weight;
  }
  return sum / weights;
}

// Gorodkin 2004: R_K, which is Matthews' for two classes.
double matthews(const Labels& l, const std::vector<std::size_t>& documents) {
  std::vector<double> gold(static_cast<std::size_t>(l.classes)), predicted(gold.size());
  double hits = 0;
  for (const std::size_t d : documents) {
    gold[static_cast<std::size_t>(l.gold[d])] += 1;
    predicted[static_cast<std::size_t>(l.predicted[d])] += 1;
    hits += l.gold[d] == l.predicted[d];
  }
  const auto n = static_cast<double>(documents.size());
  double both = hits * n, of_gold = n * n, of_predicted = n * n;
  for (std::size_t c = 0; c < gold.size(); ++c) {
    both -= gold[c] * predicted[c];
    of_gold -= gold[c] * gold[c];
    of_predicted -= predicted[c] * predicted[c];
  }
  return of_gold * of_predicted == 0 ? 0.0 : both / std::sqrt(of_gold * of_predicted);
}

double brier(const std::vector<Json>& values) {
  double sum = 0;
  for (const Json& v : values) {
    require<DataError>(v[0].is_number_integer(), "brier_score: expected one gold class, got {}",
                       dumped(v[0]));
    for (std::size_t c = 0; c < v[1].size(); ++c) {
      const double off = v[1][c].get<double>() - (v[0] == static_cast<std::int64_t>(c) ? 1.0 : 0.0);
      sum += off * off;
    }
  }
  return sum / static_cast<double>(values.size());
}

std::vector<std::size_t> everyone(std::size_t n) {
  std::vector<std::size_t> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = i;
  return out;
}

std::vector<TextPair> text_pairs(const std::vector<Json>& values) {
  std::vector<TextPair> out;
  for (const Json& v : values) {
    require<DataError>(v.is_array() && v.size() == 2 && v[0].is_string() && v[1].is_string(),
                       "expected a gold text and an answer, got {}", dumped(v));
    out.push_back({v[0], v[1]});
  }
  return out;
}

}  // namespace

Aggregated aggregate(const std::string& aggregation, const std::vector<Json>& values, std::int64_t draws,
                     int threads) {
  require<DataError>(!values.empty(), "no document has a value to aggregate");
  const std::size_t n = values.size();
  Aggregated out;
  const auto bootstrapped = [&](const Statistic& statistic, std::int64_t most) {
    out.value = statistic(everyone(n));
    if (n > 1 && draws > 0) out.standard_error = bootstrap(statistic, n, std::min(draws, most), threads);
  };
  if (aggregation == "mean") {
    const auto v = numbers(values);
    out.value = mean_of(v);
    if (n > 1 && draws > 0) out.standard_error = deviation(v) / std::sqrt(static_cast<double>(n));
  } else if (aggregation == "perplexity") {
    const auto v = numbers(values);
    bootstrapped(
        [&](const std::vector<std::size_t>& drawn) {
          double sum = 0;
          for (const std::size_t d : drawn) sum += v[d];
          return std::exp(-(sum / static_cast<double>(drawn.size())));
        },
        draws);
  } else if (aggregation == "median" || aggregation == "nanmean") {
    const auto v = numbers(values);
    bootstrapped(
        [&](const std::vector<std::size_t>& drawn) {
          std::vector<double> x;
          for (const std::size_t d : drawn) x.push_back(v[d]);
          if (aggregation == "nanmean") return mean_of(x);
          std::sort(x.begin(), x.end());
          return x[x.size() / 2];
        },
        draws);
  } else if (aggregation == "weighted_perplexity") {
    out.value = std::exp(-ratio_of_sums(values));
  } else if (aggregation == "bits_per_byte") {
    out.value = -ratio_of_sums(values) / std::numbers::ln2;
  } else if (aggregation == "f1") {
    const Labels l = labels_of(values, 2);
    bootstrapped([&](const auto& drawn) { return f1(l, drawn); }, draws);
  } else if (aggregation.starts_with("f1_")) {
    out.value = mean_f1(std::string_view(aggregation).substr(3), labels_of(values, 1000));
  } else if (aggregation == "matthews_corrcoef") {
    const Labels l = labels_of(values, 1000);
    bootstrapped([&](const auto& drawn) { return matthews(l, drawn); }, draws);
  } else if (aggregation == "brier_score") {
    out.value = brier(values);
  } else if (aggregation == "bleu") {
    const BleuCounts counts(text_pairs(values));
    bootstrapped([&](const auto& drawn) { return counts.score(drawn); }, kTextScoreDraws);
  } else if (aggregation == "chrf") {
    const ChrfCounts counts(text_pairs(values));
    bootstrapped([&](const auto& drawn) { return counts.score(drawn); }, kTextScoreDraws);
  } else if (aggregation == "chrf++") {
    const ChrfCounts counts(text_pairs(values), 2);
    bootstrapped([&](const auto& drawn) { return counts.score(drawn); }, kTextScoreDraws);
  } else if (aggregation == "ter") {
    const EditRateCounts counts(text_pairs(values));
    bootstrapped([&](const auto& drawn) { return counts.score(drawn); }, kTextScoreDraws);
  } else if (aggregation == "ifeval.agg_inst_level_acc") {
    std::vector<Json> all;
    for (const Json& v : values) all.insert(all.end(), v.begin(), v.end());
    require<DataError>(!all.empty(), "no document has an instruction");
    out.value = mean_of(numbers(all));
  } else if (aggregation == "ruler") {
    out.value = ruler_figure(values);
  } else if (aggregation.starts_with("squadv2.")) {
    out.value = squad_figure(std::string_view(aggregation).substr(8), values);
  } else {
    fail<InternalError>("the aggregation '{}'", aggregation);
  }
  return out;
}

Aggregated aggregate_group(const std::vector<PartOfGroup>& parts, bool weight_by_size) {
  double weights = 0, values = 0, squares = 0;
  bool known = true;
  const auto k = static_cast<double>(parts.size());
  double sizes = 0;
  for (const PartOfGroup& p : parts) {
    const double n = static_cast<double>(p.documents), weight = weight_by_size ? n : 1.0;
    values += p.value * weight;
    weights += weight;
    sizes += n;
    known = known && p.standard_error.has_value();
    const double s = p.standard_error.value_or(0);
    squares += weight_by_size ? (n - 1) * s * s * n : s * s;
  }
  Aggregated out;
  out.value = values / weights;
  if (known)
    out.standard_error = weight_by_size ? std::sqrt(squares / (sizes - k) / sizes) : std::sqrt(squares) / k;
  return out;
}

}  // namespace stoa::eval
