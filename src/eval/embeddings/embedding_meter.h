// How good a model's vectors of texts are: on pairs of sentences (STS) and in retrieval (BEIR's form).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "eval/embeddings/sentence_pairs.h"
#include "infer/text_embedder.h"

namespace stoa::eval {

struct EmbeddingMeasures {
  infer::EmbeddingOptions embedding;
  std::string query_prefix;     // stands in front of queries, and of the sentences of pairs
  std::string document_prefix;  // of documents
  bool dot = false;             // documents are ranked by the inner product; otherwise by the cosine
  std::vector<std::int64_t> cuts{1, 3, 5, 10, 100, 1000};
  int threads = 1;
};

struct PairsFigures {
  std::size_t pairs = 0;
  std::map<std::string, Agreement> agreements;
};
struct RetrievalFigures {
  std::size_t queries = 0, documents = 0;
  std::map<std::string, double> figures;  // means over the judged queries
};

class EmbeddingMeter {
 public:
  // Errors of TextEmbedder.
  EmbeddingMeter(infer::OpenModel& model, const EmbeddingMeasures& measures);

  // Errors of read_sentence_pairs.
  PairsFigures measure_pairs(const fs::path& file);
  // Errors of RetrievalFolder. A document with the id of the query is left out, as in BEIR. `at`: called with
  // the number of texts read so far.
  RetrievalFigures measure_retrieval(const fs::path& folder, const std::string& split,
                                     const std::function<void(std::size_t texts)>& at);

  std::int64_t shortened() const { return embedder_.shortened(); }  // texts that were cut
  std::int64_t longest() const { return embedder_.longest(); }      // tokens of a text

 private:
  void take(std::span<const double> vector);
  // The vectors of what was added since, one after the other.
  std::vector<float> vectors();

  const EmbeddingMeasures measures_;
  bool unit_length_ = false;  // vectors are scaled
  std::size_t dimension_ = 0;
  std::vector<float> vectors_;
  infer::TextEmbedder embedder_;
};

}  // namespace stoa::eval
