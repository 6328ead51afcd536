#include "ops/meta/meta_backend.h"

#include <algorithm>

namespace stoa::ops {

namespace {

// Bytes of at most `rows` rows of the tensor.
double bytes_of_rows(const TensorView& tensor, std::int64_t rows) {
  const double all = static_cast<double>(tensor.bytes());
  if (tensor.rows() == 0) return 0;
  return all * static_cast<double>(std::min(rows, tensor.rows())) / static_cast<double>(tensor.rows());
}

}  // namespace

OpCount& OpCount::operator+=(const OpCount& other) {
  calls += other.calls;
  matrix_flops += other.matrix_flops;
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  return *this;
}

double touched_bytes(const EmbeddingForward& op, const char*, const TensorView& tensor) {
  return bytes_of_rows(tensor, op.tokens.shape[0]);
}
double touched_bytes(const EmbeddingBackward& op, const char*, const TensorView& tensor) {
  return bytes_of_rows(tensor, op.tokens.shape[0]);
}
double touched_bytes(const QuantisedRows& op, const char* name, const TensorView& tensor) {
  const auto all = static_cast<double>(tensor.bytes());
  const double share = static_cast<double>(op.tokens.shape[0]) / static_cast<double>(op.shape.rows());
  return std::string_view(name) == "w" ? all * std::min(1.0, share) : all;
}
double touched_bytes(const DrawTokens& op, const char* name, const TensorView& tensor) {
  return bytes_of_rows(tensor, std::string_view(name) == "logits" ? op.draws.shape[0] : tensor.rows());
}
double touched_bytes(const AttentionForward& op, const char* name, const TensorView& tensor) {
  // Keys and values may be in a cache that has more rows than the segments use.
  const std::string_view which = name;
  if (which != "k" && which != "v") return static_cast<double>(tensor.bytes());
  const std::int64_t rows = op.segments.count * op.segments.longest_k;
  const std::int64_t in_block = in_blocks(tensor) ? CacheShape(tensor).rows : 1;
  return bytes_of_rows(tensor, (rows + in_block - 1) / in_block);
}
double touched_bytes(const Rotary& op, const char*, const TensorView& tensor) {
  return bytes_of_rows(tensor, op.x.shape[0]);
}

template class ForwardOps<MetaBackend>;

std::string_view MetaBackend::name() const { return "meta"; }

OpCount MetaBackend::total() const {
  OpCount out;
  for (const auto& [name, count] : counts_) out += count;
  return out;
}

}  // namespace stoa::ops
