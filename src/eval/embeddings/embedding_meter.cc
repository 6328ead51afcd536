#include "eval/embeddings/embedding_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "eval/embeddings/ranking.h"

namespace stoa::eval {
namespace {

constexpr std::size_t kDocumentsAtOnce = 1024;

}  // namespace

EmbeddingMeter::EmbeddingMeter(infer::OpenModel& model, const EmbeddingMeasures& measures)
    : measures_(measures),
      embedder_(model, measures.embedding, [this](std::span<const double> vector) { take(vector); }) {}

void EmbeddingMeter::take(std::span<const double> vector) {
  double squares = 0;
  for (const double x : vector) squares += x * x;
  require<NumericsError>(std::isfinite(squares), "a vector of the model is not finite: {}",
                         infer::kBeyondRange);
  const double scale = unit_length_ && squares > 0 ? 1 / std::sqrt(squares) : 1;
  dimension_ = vector.size();
  for (const double x : vector) vectors_.push_back(static_cast<float>(x * scale));
}

std::vector<float> EmbeddingMeter::vectors() {
  embedder_.flush();
  return std::exchange(vectors_, {});
}

PairsFigures EmbeddingMeter::measure_pairs(const fs::path& file) {
  const std::vector<SentencePair> pairs = read_sentence_pairs(file);
  unit_length_ = embedder_.normalises();
  std::vector<double> scores;
  for (const SentencePair& pair : pairs) {
    embedder_.add(measures_.query_prefix + pair.first);
    scores.push_back(pair.score);
  }
  const std::vector<float> first = vectors();
  for (const SentencePair& pair : pairs) embedder_.add(measures_.query_prefix + pair.second);
  const std::vector<float> second = vectors();
  return {pairs.size(), agreements(first, second, dimension_, scores)};
}

RetrievalFigures EmbeddingMeter::measure_retrieval(const fs::path& folder, const std::string& split,
                                                   const std::function<void(std::size_t)>& at) {
  const RetrievalFolder data(folder, split);
  unit_length_ = !measures_.dot || embedder_.normalises();
  RetrievalFigures out;
  out.queries = data.queries().size();
  for (const RetrievalQuery& query : data.queries()) embedder_.add(measures_.query_prefix + query.text);
  std::vector<float> queries = vectors();
  WorkerPool pool(measures_.threads);
  // One more: the query itself may be a document.
  const auto keep = static_cast<std::size_t>(*std::ranges::max_element(measures_.cuts)) + 1;
  Ranking ranking(std::move(queries), dimension_, keep, pool);
  std::vector<std::string> ids;
  const auto show = [&] {
    ranking.show(ids, vectors());
    out.documents += ids.size();
    ids.clear();
    at(out.queries + out.documents);
  };
  data.each_document([&](std::string id, const std::string& text) {
    embedder_.add(measures_.document_prefix + text);
    ids.push_back(std::move(id));
    if (ids.size() == kDocumentsAtOnce) show();
  });
  show();
  for (std::size_t i = 0; i < data.queries().size(); ++i) {
    const RetrievalQuery& query = data.queries()[i];
    std::vector<RankedDocument> best = ranking.best(i);
    std::erase_if(best, [&](const RankedDocument& document) { return document.id == query.id; });
    for (const auto& [name, value] : ranking_figures(best, query.grades, measures_.cuts))
      out.figures[name] += value;
  }
  for (auto& [name, value] : out.figures) value /= static_cast<double>(out.queries);
  return out;
}

}  // namespace stoa::eval
