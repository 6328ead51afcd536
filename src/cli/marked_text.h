// Samples of a batch for a person: every token shown as trained or not.
#pragma once

#include <string>
#include <vector>

#include "data/batch.h"
#include "token/tokenizer.h"

namespace stoa::cli {

// How trained tokens are marked: green in a terminal, else in brackets.
enum class Marks { kColours, kBrackets };

struct MarkedText {
  std::int64_t tokens = 0, trained = 0;
  std::string text;
};
// The texts of row `r`, without the filling behind them. A token is trained where the position before it has
// a loss.
std::vector<MarkedText> marked_texts(const data::Batch& batch, std::int64_t r,
                                     const token::Tokenizer& tokenizer, Marks marks);

// What the marks mean, in a line.
std::string legend(Marks marks);

}  // namespace stoa::cli
