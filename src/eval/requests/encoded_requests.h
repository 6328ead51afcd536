// Requests as texts of tokens that fit the window of a model, and their answers while they come.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eval/requests/encode.h"
#include "eval/requests/request.h"
#include "infer/generate.h"
#include "tensor/dtype.h"

namespace stoa::eval {

struct ScoringOptions {
  std::optional<std::int64_t> max_length;  // tokens of the window; none: the model's positions
  std::optional<bool> add_bos;
  std::optional<DType> cache = {};  // infer::EngineUse::cache, of a model in files
};

// One text of a request: tokens of a prompt to be continued, or tokens and which one follows each of them.
struct EncodedText {
  std::size_t request = 0;
  std::vector<std::int32_t> tokens, labels;
  std::size_t scored = 0;  // of the last labels: their log-likelihoods count
  double log_likelihood = 0;
  bool generate = false, rolling = false;
};

class EncodedRequests {
 public:
  // `generation`: of each request, or null. DataError: a continuation longer than the window, or as
  // RequestEncoder.
  EncodedRequests(const token::Tokenizer& tokenizer, std::vector<Request> requests,
                  std::vector<const infer::GenerateOptions*> generation, std::int64_t window,
                  std::optional<bool> add_bos);

  const std::vector<Request>& requests() const { return requests_; }
  const infer::GenerateOptions& generation(const EncodedText& text) const {
    return *generation_[text.request];
  }
  // Each request draws for itself, in whatever order they are answered.
  std::uint64_t seed_of(const EncodedText& text) const;
  std::vector<EncodedText>& texts() { return texts_; }
  const std::vector<EncodedText>& texts() const { return texts_; }
  // Requests whose beginning was cut off.
  std::size_t truncated() const { return truncated_; }
  std::int64_t window() const { return window_; }

 private:
  void add(std::size_t number, RequestEncoder& encoder);
  void add_pair(std::size_t number, EncodedPair pair, bool rolling);

  const std::vector<Request> requests_;
  const std::vector<const infer::GenerateOptions*> generation_;
  const std::int64_t window_;
  std::vector<EncodedText> texts_;
  std::size_t truncated_ = 0;
};

// The number and the answer of a request, and the share of all work that is done.
using AnswerTold = std::function<void(std::size_t request, const Answer& answer, double share)>;

// Puts the texts of a request together; tells its answer as soon as they are all done.
class AnswerCollector {
 public:
  // The texts stay in place as long as answers are collected.
  AnswerCollector(const EncodedRequests& requests, const AnswerTold& told);

  Answer& of(const EncodedText& text) { return answers_[text.request]; }
  void done(const EncodedText& text);

 private:
  double cost(const EncodedText& text) const;

  const EncodedRequests& requests_;
  const AnswerTold& told_;
  std::vector<Answer> answers_;
  std::vector<std::vector<const EncodedText*>> of_request_;  // its windows, in order
  std::vector<std::size_t> left_;
  double total_ = 0, spent_ = 0;
};

}  // namespace stoa::eval
