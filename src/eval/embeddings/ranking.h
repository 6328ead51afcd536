// Documents by their similarity to queries, and how good that order is: nDCG, mean average precision, recall
// and precision as trec_eval computes them, which BEIR and MTEB use, and the mean reciprocal rank as BEIR
// does.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "eval/embeddings/retrieval_data.h"

namespace stoa::eval {

struct RankedDocument {
  std::string id;
  float score = 0;
};

// Keeps the documents most similar to each query, whatever number is shown to it.
class Ranking {
 public:
  // `queries`: vectors of `dimension` numbers. `keep`: documents per query.
  Ranking(std::vector<float> queries, std::size_t dimension, std::size_t keep, WorkerPool& pool);

  // Documents with their vectors. Their inner products are the similarities.
  void show(std::span<const std::string> ids, std::span<const float> vectors);
  // The best of a query first: equal ones in the order in which trec_eval takes them, the larger id first.
  std::vector<RankedDocument> best(std::size_t query) const;

 private:
  void shorten(std::vector<RankedDocument>& documents) const;

  const std::vector<float> queries_;
  const std::size_t dimension_, keep_;
  WorkerPool& pool_;
  struct List {
    std::vector<RankedDocument> documents;  // at most twice as many as are kept
    std::optional<float> least;             // of those that were kept, once there were enough
  };
  std::vector<List> lists_;
};

// "ndcg@K", "map@K", "recall@K", "precision@K", "mrr@K" of a query's documents for every K of `cuts`.
std::map<std::string, double> ranking_figures(std::span<const RankedDocument> ranked, const Grades& grades,
                                              std::span<const std::int64_t> cuts);

}  // namespace stoa::eval
