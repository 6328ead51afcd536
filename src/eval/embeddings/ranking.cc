#include "eval/embeddings/ranking.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace stoa::eval {
namespace {

bool ranks_better(const RankedDocument& a, const RankedDocument& b) {
  return a.score != b.score ? a.score > b.score : a.id > b.id;
}

float similarity(const float* a, const float* b, std::size_t n) {
  double sums[4]{};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t k = 0; k < 4; ++k)
      sums[k] += static_cast<double>(a[i + k]) * static_cast<double>(b[i + k]);
  for (; i < n; ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

double gain_at(double grade, std::size_t rank) { return grade / std::log2(static_cast<double>(rank) + 2); }

}  // namespace

Ranking::Ranking(std::vector<float> queries, std::size_t dimension, std::size_t keep, WorkerPool& pool)
    : queries_(std::move(queries)),
      dimension_(dimension),
      keep_(keep),
      pool_(pool),
      lists_(dimension == 0 ? 0 : queries_.size() / dimension) {}

void Ranking::shorten(std::vector<RankedDocument>& documents) const {
  std::sort(documents.begin(), documents.end(), ranks_better);
  if (documents.size() > keep_) documents.resize(keep_);
}

void Ranking::show(std::span<const std::string> ids, std::span<const float> vectors) {
  pool_.run(std::ssize(lists_), [&](std::int64_t query, int) {
    const auto q = static_cast<std::size_t>(query);
    List& list = lists_[q];
    for (std::size_t d = 0; d < ids.size(); ++d) {
      const float score =
          similarity(queries_.data() + q * dimension_, vectors.data() + d * dimension_, dimension_);
      if (list.least && score < *list.least) continue;
      list.documents.push_back({ids[d], score});
      if (list.documents.size() < 2 * keep_) continue;
      shorten(list.documents);
      list.least = list.documents.back().score;
    }
  });
}

std::vector<RankedDocument> Ranking::best(std::size_t query) const {
  std::vector<RankedDocument> out = lists_[query].documents;
  shorten(out);
  return out;
}

std::map<std::string, double> ranking_figures(std::span<const RankedDocument> ranked, const Grades& grades,
                                              std::span<const std::int64_t> cuts) {
  std::vector<std::int64_t> ideal;
  for (const auto& [id, grade] : grades)
    if (grade > 0) ideal.push_back(grade);
  std::sort(ideal.begin(), ideal.end(), std::greater());
  const auto relevant = static_cast<double>(ideal.size());
  const auto share = [](double part, double of) { return of == 0 ? 0.0 : part / of; };
  std::map<std::string, double> out;
  for (const std::int64_t cut : cuts) {
    const auto k = static_cast<std::size_t>(cut);
    double gain = 0, best = 0, found = 0, precisions = 0, reciprocal = 0;
    for (std::size_t i = 0; i < std::min(k, ranked.size()); ++i) {
      const auto it = grades.find(ranked[i].id);
      if (it == grades.end() || it->second <= 0) continue;
      gain += gain_at(static_cast<double>(it->second), i);
      precisions += ++found / static_cast<double>(i + 1);
      if (reciprocal == 0) reciprocal = 1 / static_cast<double>(i + 1);
    }
    for (std::size_t i = 0; i < std::min(k, ideal.size()); ++i)
      best += gain_at(static_cast<double>(ideal[i]), i);
    const std::string at = "@" + std::to_string(cut);
    out["ndcg" + at] = share(gain, best);
    out["map" + at] = share(precisions, relevant);
    out["recall" + at] = share(found, relevant);
    out["precision" + at] = found / static_cast<double>(cut);
    out["mrr" + at] = reciprocal;
  }
  return out;
}

}  // namespace stoa::eval
