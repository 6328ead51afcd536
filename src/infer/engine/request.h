// What the engine is asked for and what it answers: token ids and their probabilities, no text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "constraint/constraint.h"
#include "infer/token_sampler.h"

namespace stoa::infer {

// Why an answer ended. kEndToken: also where a constrained text is complete. kCaller: the listener, or
// cancel(). kNotANumber: logits are NaN or infinite. kFailed: a pass threw, or a constraint left no token
// (Event::message).
enum class EndReason : std::uint8_t {
  kLength,
  kEndToken,
  kStopText,
  kContext,
  kCaller,
  kNotANumber,
  kFailed
};
const char* name_of(EndReason reason);

using RequestId = std::int64_t;

struct Request {
  std::vector<std::int32_t> prompt = {};  // at least one id; an encoder-decoder reads it as the source
  SamplingOptions sampling = {};  // choice i draws token n by (sampling.seed, i, n); its ends are end_ids
  std::int64_t max_tokens = 128;  // of every choice
  int adapter = 0;                // number of the model's adapter, from 1; 0: the model itself
  std::vector<std::int32_t> end_ids = {};
  int choices = 1;
  // Log-probabilities of the drawn tokens and of this many of the most likely, of the logits as the model
  // gives them, before penalties and temperature; none: not computed. The same for the prompt's tokens after
  // the first, whose prefix is then not taken from the cache.
  std::optional<int> logprobs = {}, prompt_logprobs = {};
  // Drawn tokens have those of the distribution drawn from instead: after penalties, cuts and temperature.
  bool processed_logprobs = false;
  // What the text of every choice must be (null: anything). An end id is drawn only where the text may end.
  std::shared_ptr<constraint::Constraint> constraint = {};
  std::string cache_salt = {};  // requests of different salts share no cached keys and values
  std::string tenant = {};      // of those that wait, the tenant that was served least is next
  int priority = 0;             // the highest first
};

struct TokenScore {
  std::int32_t id = -1;
  float logprob = 0;
};
struct ScoredToken {
  TokenScore token = {};             // logprob only where it was asked for
  std::vector<TokenScore> top = {};  // the most likely first
};

// A choice gets kToken for each token of its answer, then one kEnd, whatever happens. Before them, if they
// were asked for, one kPrompt.
struct Event {
  enum class Kind : std::uint8_t { kPrompt, kToken, kEnd };
  Kind kind = Kind::kToken;
  RequestId request = 0;
  int choice = 0;
  ScoredToken token = {};                // kToken; of kEnd by an end id that id, else -1
  std::vector<ScoredToken> prompt = {};  // kPrompt: of the prompt's tokens after the first
  EndReason reason = EndReason::kLength;
  std::string message = {};  // kFailed
  // kEnd: tokens of the prompt, how many of them came from the prefix cache, tokens of the answer.
  std::int64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
};
// Returns whether the choice continues; not asked at its end. Must not throw.
using Listener = std::function<bool(const Event&)>;

}  // namespace stoa::infer
