#include "nn/adapter_rows.h"

#include "base/error.h"

namespace stoa::nn {

std::size_t first_piece(const LinearOptions& o, const std::string& name,
                        const std::vector<std::string>& pieces) {
  for (std::size_t p = 0; p + pieces.size() <= o.pieces.size(); ++p) {
    bool same = true;
    for (std::size_t i = 0; i < pieces.size(); ++i) same = same && o.pieces[p + i].name == pieces[i];
    if (same) return p;
  }
  fail<InternalError>("'{}' holds no '{}'", o.name, name);
}

ParamSpec output_rows(const LinearOptions& o, const NamedPieces& of, const char* suffix,
                      std::int64_t columns) {
  const std::size_t first = first_piece(o, of.name, of.pieces);
  ParamSpec out;
  out.name = of.name + suffix;
  out.adapter = true;
  const bool copied = on_every_rank(o, LinearSplit::kOutputs);
  // A rank has a part of A x, or its rows of the stream.
  bool partial = copied && (o.split == LinearSplit::kInputs || o.place.splits_stream());
  std::int64_t row = 0;
  for (std::size_t p = first; p < first + of.pieces.size(); ++p) {
    const LinearPiece& base = o.pieces[p];
    ShardPiece piece;
    piece.name = base.name + suffix;
    piece.global = columns > 0 ? Shape{base.outputs, columns} : Shape{base.outputs};
    piece.begin = base.rows.begin;
    piece.count = base.rows.count;
    piece.memory_row = row;
    piece.column_count = columns;
    piece.shared = copied || base.shared;
    piece.first_copy = copied ? o.place.rank == 0 : base.first_copy;
    partial = partial || base.shared;
    row += base.rows.count + base.padding;
    out.shard.pieces.push_back(std::move(piece));
  }
  out.shard.local = columns > 0 ? Shape{row, columns} : Shape{row};
  if (partial) out.grad_partial_over.push_back(parallel::Group::kTensor);
  return out;
}

}  // namespace stoa::nn
