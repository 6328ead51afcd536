// Perplexity of a model of any kind on a text: decoders read windows, encoders predict each token of a window
// from the others, encoder-decoders read a source and score its target.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "data/text_reader.h"
#include "eval/perplexity.h"
#include "infer/engine/rank_team.h"
#include "infer/open_model.h"

namespace stoa::eval {

struct ReadingOptions {
  std::optional<std::int64_t> window;  // tokens that the model reads at once; none: its positions
  std::optional<std::int64_t> stride;  // that the window moves by; none: half of it
  std::int64_t pass_tokens = 4096;     // of the windows of one pass (decoders)
  bool plain = false;                  // special tokens in the text are encoded as text
  std::optional<DType> cache = {};     // infer::EngineUse::cache, of decoders
  infer::RankTeam* team = nullptr;     // ranks that share the model; not of encoders
};

struct ModelPerplexity {
  PerplexityResult result;
  DType dtype = DType::kF32;            // that the model computed with
  std::int64_t window = 0, stride = 0;  // as chosen, of decoders and encoders
  std::int64_t pairs = 0;               // of encoder-decoders
  std::optional<std::string> prefix;    // of decoders: the token that begins every document
  double model_seconds = 0;             // of the passes alone
};

// Encoder-decoders take every line of `text` as a source, a tab and a target; words and bytes are those of
// the targets. `at`: called with the bytes of the file read so far. ConfigError: a window or stride
// that the model cannot have. DataError: no token to predict.
ModelPerplexity model_perplexity(infer::OpenModel& model, const data::TextFile& text,
                                 const ReadingOptions& options, const std::function<void(double bytes)>& at);

}  // namespace stoa::eval
