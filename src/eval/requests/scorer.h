// Log-likelihoods and generated answers of a model in files, by the engine's passes: many sequences at once,
// and common beginnings once, unless the model reads one text at a time.
#pragma once

#include <memory>
#include <vector>

#include "eval/requests/answerer.h"
#include "infer/engine/paged_decoder.h"

namespace stoa::eval {

// Tokens of the window. ConfigError: --max_length is more than the model's positions.
std::int64_t window_of(const model::ModelConfig& config, const ScoringOptions& options);

class Scorer {
 public:
  // Encodes all requests, then reads the weights with room for the longest. Errors of EncodedRequests.
  Scorer(infer::OpenModel& model, std::vector<Request> requests,
         std::vector<const infer::GenerateOptions*> generation, const ScoringOptions& options);

  std::size_t truncated() const { return requests_.truncated(); }
  std::int64_t window() const { return requests_.window(); }
  DType dtype() const { return model_.precision().compute; }
  void run(const AnswerTold& told);

 private:
  std::vector<std::int32_t> end_ids() const;

  infer::OpenModel& model_;
  EncodedRequests requests_;
  std::unique_ptr<infer::PagedDecoder> decoder_;
};

// A model in files, asked once.
class ModelAnswerer final : public Answerer {
 public:
  explicit ModelAnswerer(infer::OpenModel& model) : model_(model) {}

  std::string identity() override;
  ChatFunction chat() override;
  TokenCount tokens(const ScoringOptions& options) override;
  Facts answer(std::vector<Request> requests, std::vector<const infer::GenerateOptions*> generation,
               const ScoringOptions& options, const AnswerTold& told) override;

 private:
  infer::OpenModel& model_;
};

}  // namespace stoa::eval
