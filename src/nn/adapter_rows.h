// Parameters of adapters with a row for each output of some pieces of a linear layer, split as those are.
#pragma once

#include <string>
#include <vector>

#include "nn/linear_options.h"

namespace stoa::nn {

// The place of the first of `pieces`, neighbours in the layer, among the layer's. `name`: for messages.
std::size_t first_piece(const LinearOptions& options, const std::string& name,
                        const std::vector<std::string>& pieces);

// Every rank of the group holds all of what a split of the layer does not concern.
inline bool on_every_rank(const LinearOptions& options, LinearSplit split) {
  return options.place.split() && options.split != split;
}

struct NamedPieces {
  std::string name;  // of the parameter, without suffix
  std::vector<std::string> pieces;
};
// [outputs, columns], or [outputs] where `columns` is 0; its canonical tensors are named by piece and suffix.
ParamSpec output_rows(const LinearOptions& options, const NamedPieces& of, const char* suffix,
                      std::int64_t columns = 0);

}  // namespace stoa::nn
