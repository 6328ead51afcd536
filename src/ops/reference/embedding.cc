#include <map>

#include "ops/reference/dropout.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {

namespace {

std::int64_t checked(std::int64_t id, const TensorView& table, const char* what) {
  if (id < 0 || id >= table.shape[0])
    fail<DataError>("embedding: {} {} is outside the table {}", what, id, table.text());
  return id;
}

// Row of token `id` in a table that may be a part of the vocabulary; -1: in another part.
template <class Op>
std::int64_t row_of_token(const Op& op, std::int64_t id, const TensorView& table) {
  if (op.vocabulary == 0) return checked(id, table, "token");
  require<DataError>(id >= 0 && id < op.vocabulary, "embedding: token {} is outside the vocabulary of {}", id,
                     op.vocabulary);
  const std::int64_t row = id - op.first_id;
  return row >= 0 && row < table.rows() ? row : -1;
}

// Row `id` of a table, alone: tables are large and few rows are used.
Values row_of(const TensorView& table, std::int64_t id, const char* what) {
  return load(table.slice(checked(id, table, what), 1));
}

// Rows of a gradient table that are added to, in fp64 until all tokens are in.
class RowSums {
 public:
  RowSums(const TensorView& table, const char* what) : table_(table), what_(what) {}
  void add(std::int64_t id, const double* x) {
    const auto [row, is_new] = rows_.try_emplace(id);
    if (is_new) row->second = row_of(table_, id, what_);
    for (double& sum : row->second) sum += *x++;
  }
  void store_all() const {
    for (const auto& [id, sum] : rows_) store(sum, table_.slice(id, 1));
  }

 private:
  const TensorView table_;
  const char* what_;
  std::map<std::int64_t, Values> rows_;
};

}  // namespace

void ReferenceBackend::execute(const EmbeddingForward& op, Resources) {
  const std::int64_t rows = op.y.shape[0], d = op.y.shape[1];
  const auto tokens = load_integers(op.tokens), positions = load_integers(op.positions);
  Values y(static_cast<std::size_t>(rows * d));
  for (std::int64_t t = 0; t < rows; ++t) {
    const std::int64_t token_row = row_of_token(op, tokens[t], op.table);
    if (token_row < 0) continue;
    Values row = row_of(op.table, token_row, "token");
    if (op.position_table) {
      const Values position = row_of(op.position_table, positions[t], "position");
      for (std::int64_t i = 0; i < d; ++i) row[i] += position[i];
    }
    for (std::int64_t i = 0; i < d; ++i) y[t * d + i] = row[i] * dropout_factor(op.dropout, t, i, d);
  }
  store(y, op.y);
}

void ReferenceBackend::execute(const EmbeddingBackward& op, Resources) {
  const std::int64_t rows = op.dy.shape[0], d = op.dy.shape[1];
  const auto tokens = load_integers(op.tokens), positions = load_integers(op.positions);
  Values dy = load(op.dy);
  RowSums table(op.dtable, "token"), position_table(op.dposition_table, "position");
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t i = 0; i < d; ++i) dy[t * d + i] *= dropout_factor(op.dropout, t, i, d);
    const std::int64_t token_row = row_of_token(op, tokens[t], op.dtable);
    if (token_row >= 0) table.add(token_row, &dy[t * d]);
    if (op.dposition_table) position_table.add(positions[t], &dy[t * d]);
  }
  table.store_all();
  position_table.store_all();
}

}  // namespace stoa::ops
