// Log-likelihoods and generated answers of a model, for many requests. Where its cache can be shared, many
// sequences go through it at once and common beginnings are read once; otherwise texts are packed into passes
// and answers are written one after the other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "eval/requests/encode.h"
#include "eval/requests/generated_answers.h"
#include "eval/requests/request.h"
#include "infer/decoder_rank.h"
#include "infer/engine/engine.h"
#include "infer/engine/paged_decoder.h"

namespace stoa::eval {

// Of generation_kwargs. ConfigError names an option that is not known, and its nearest.
GenerationOptions generation_options(const Json& kwargs, const std::string& source, std::uint64_t seed);

struct ScoringOptions {
  std::optional<std::int64_t> max_length;  // tokens of the window; none: the model's positions
  std::optional<bool> add_bos;
};

class Scorer {
 public:
  // A number for `answered` after each request, and the share of all work that is done.
  using Told = std::function<void(std::size_t request, const Answer& answer, double share)>;

  // Encodes all requests, then reads the weights with room for the longest. `generation`: of each request, or
  // null. DataError: a continuation longer than the window, or as RequestEncoder.
  Scorer(infer::OpenModel& model, std::vector<Request> requests,
         std::vector<const GenerationOptions*> generation, const ScoringOptions& options);

  // Requests whose beginning was cut off, and their number of tokens that were dropped at most.
  std::size_t truncated() const { return truncated_; }
  std::int64_t window() const { return window_; }
  DType dtype() const { return model_.precision().compute; }
  void run(const Told& told);

 private:
  struct Item {  // a pass over tokens, of which the last `scored` labels count
    std::size_t request = 0;
    std::vector<std::int32_t> tokens, labels;
    std::size_t scored = 0;
    double log_likelihood = 0;
    bool generate = false, rolling = false;
  };
  void add(const Request& request, const GenerationOptions* generation, std::size_t number,
           RequestEncoder& encoder);
  void add_pair(std::size_t number, EncodedPair pair, bool rolling);
  void load();
  using Done = std::function<void(const Item& item)>;
  void run_shared(const Done& done);
  void run_packed(const Done& done);
  void score(std::span<Item> items);
  // Whether every label that counts is the most likely token. `losses`: of the item's tokens.
  bool is_greedy(const Item& item, std::span<const float> losses);
  void generate(const Item& item);
  std::uint64_t seed_of(const Item& item) const;
  std::vector<std::int32_t> end_ids();

  infer::OpenModel& model_;
  std::vector<Request> requests_;
  std::vector<const GenerationOptions*> generation_;
  std::int64_t window_ = 0;
  std::size_t truncated_ = 0;
  std::vector<Item> items_;
  std::vector<Answer> answers_;
  std::unique_ptr<infer::PagedDecoder> paged_;  // shared beginnings, or
  std::unique_ptr<infer::DecoderRank> rank_;    // packed texts, and
  std::unique_ptr<infer::Engine> engine_;       // what is drawn after them
};

}  // namespace stoa::eval
