// Samples of a batch for a person: every token shown as trained or not.
#pragma once

#include <string>
#include <vector>

#include "data/batch.h"
#include "token/tokenizer.h"

namespace stoa::cli {

// How trained tokens are marked: green in a terminal, else in brackets.
enum class Marks { kColours, kBrackets };
// Which ones those are: what the position before predicts, or the last of a text, whose score counts.
enum class MarkedTokens { kPredicted, kScored };

struct MarkedText {
  std::int64_t tokens = 0, trained = 0;
  std::string text;
};
// The texts of row `r`, without the filling behind them. A token is trained where the position before it has
// a loss (kPredicted), or it has one itself (kScored).
std::vector<MarkedText> marked_texts(const data::Batch& batch, std::int64_t r,
                                     const token::Tokenizer& tokenizer, Marks marks, MarkedTokens which);

// What the marks mean, in a line.
std::string legend(Marks marks, MarkedTokens which);

}  // namespace stoa::cli
