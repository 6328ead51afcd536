// The text of one choice as its tokens come: whole characters, nothing that may become a stop text, and the
// tokens whose text it is.
#pragma once

#include <string>
#include <vector>

#include "infer/engine/request.h"
#include "infer/stop_filter.h"
#include "serve/line_limits.h"
#include "token/stream_decoder.h"

namespace stoa::serve {

// A token of an answer, and where its text begins.
struct PlacedScore {
  infer::ScoredToken score;
  std::int64_t offset = 0;  // in characters from the beginning of the answer
};

struct AnswerPiece {
  std::string text;
  std::vector<PlacedScore> tokens;  // whose text begins in this piece or before; only if scores are kept

  bool empty() const { return text.empty() && tokens.empty(); }
};

class AnswerText {
 public:
  struct Options {
    std::vector<std::string> stop;
    bool include_stop = false, skip_special = true, keep_scores = false;
    LineLimits::Options lines = {};
  };
  AnswerText(const token::Tokenizer& tokenizer, const Options& options);

  // What has become certain. `stopped`: a stop text is complete, and the answer ends before it, or its lines
  // end it.
  AnswerPiece push(const infer::ScoredToken& score, bool& stopped);
  AnswerPiece finish();  // the rest
  std::int64_t tokens() const { return tokens_; }
  // The stop text that ended it; empty: none did.
  const std::string& stop_text() const { return filter_.found(); }

 private:
  AnswerPiece piece(std::string text, bool last);

  token::StreamDecoder decoder_;
  infer::StopFilter filter_;
  LineLimits lines_;
  const bool keep_scores_;
  std::int64_t tokens_ = 0;
  std::int64_t decoded_ = 0, given_ = 0;  // characters
  std::vector<PlacedScore> waiting_;
};

// Code points of UTF-8.
std::int64_t characters(std::string_view text);

}  // namespace stoa::serve
