// Log-likelihoods and generated answers of a model in files. Where its cache can be shared, many sequences go
// through it at once and common beginnings are read once; otherwise texts are packed into passes and answers
// are written one after the other.
#pragma once

#include <memory>
#include <vector>

#include "eval/requests/answerer.h"
#include "infer/decoder_rank.h"
#include "infer/engine/engine.h"
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
  void load();
  void run_packed(const AnswerTold& told);
  void score(std::span<EncodedText> texts, AnswerCollector& answers);
  // Whether every label that counts is the most likely token. `losses`: of the text's tokens.
  bool is_greedy(const EncodedText& text, std::span<const float> losses);
  std::string generate(const EncodedText& text);
  std::vector<std::int32_t> end_ids() const;

  infer::OpenModel& model_;
  EncodedRequests requests_;
  std::unique_ptr<infer::PagedDecoder> paged_;  // shared beginnings, or
  std::unique_ptr<infer::DecoderRank> rank_;    // packed texts, and
  std::unique_ptr<infer::Engine> engine_;       // what is drawn after them
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
