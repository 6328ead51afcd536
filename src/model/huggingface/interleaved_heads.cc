#include "model/huggingface/interleaved_heads.h"

namespace stoa::model::huggingface {
namespace {

// Rows [file, file + size) of a tensor: pairs side by side in the file, in two halves from `row` on here.
void add_interleaved(std::vector<RowRun>& runs, std::size_t part, std::int64_t file, std::int64_t row,
                     std::int64_t size) {
  for (std::int64_t i = 0; i < size / 2; ++i) {
    runs.push_back({part, file + 2 * i, row + i, 1});
    runs.push_back({part, file + 2 * i + 1, row + size / 2 + i, 1});
  }
}

}  // namespace

std::vector<RowRun> interleaved_heads(const ModelConfig& c, const std::vector<CanonicalTensor>& parts) {
  std::vector<RowRun> out;
  const std::int64_t rotated = c.rotary_size(), rest = c.head_size() - rotated;
  for (std::int64_t row = 0; row < parts[0].shape[0]; row += c.head_size()) {
    add_interleaved(out, 0, row, row, rotated);
    if (rest > 0) out.push_back({0, row + rotated, row + rotated, rest});
  }
  return out;
}

}  // namespace stoa::model::huggingface
