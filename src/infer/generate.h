// An answer as text: what it may be, and its text while its tokens come.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "infer/engine/request.h"
#include "infer/stop_filter.h"
#include "infer/token_sampler.h"
#include "token/stream_decoder.h"
#include "token/tokenizer.h"

namespace stoa::infer {

struct GenerateOptions {
  std::int64_t max_tokens = 128;
  SamplingOptions sampling;
  std::vector<std::string> stop;         // texts that end the answer; not part of it
  std::vector<std::int32_t> end_tokens;  // ids that end it (the tokenizer's end of text is always among them)
  std::shared_ptr<constraint::Constraint> constraint = {};  // what the text must be; null: anything
};

struct GenerateResult {
  std::vector<std::int32_t> prompt, answer;  // ids
  EndReason reason = EndReason::kLength;
  std::int64_t reused = 0;  // tokens of the prompt whose keys and values were there
  double prompt_seconds = 0, answer_seconds = 0;
};

// Takes text as soon as it is final (whole characters, no prefix of a stop text); returns false to end.
using TakeText = std::function<bool(std::string_view)>;

class AnswerWriter {
 public:
  // All live as long as the writer is used.
  AnswerWriter(const token::Tokenizer& tokenizer, const GenerateOptions& options, const TakeText& take)
      : stream_(tokenizer), filter_(options.stop), take_(take) {}

  // Whether the answer continues after this token.
  bool push(std::int32_t id) {
    tell(stream_.push(id));
    return !stopped_;
  }
  // The rest of an answer that ended for `reason`; returns why it ended.
  EndReason finish(EndReason reason);

 private:
  void tell(const std::string& text);

  token::StreamDecoder stream_;
  StopFilter filter_;
  const TakeText& take_;
  bool stopped_ = false, refused_ = false;
};

// Ids that end an answer.
std::vector<std::int32_t> end_ids(const token::Tokenizer& tokenizer, const GenerateOptions& options);
// The ids of a text to continue: one at least. DataError: it is empty, and the tokenizer has no bos and eod.
std::vector<std::int32_t> prompt_ids(const token::Tokenizer& tokenizer, std::string_view prompt);

}  // namespace stoa::infer
