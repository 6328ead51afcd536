#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/embedding_kernels.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

void check_ids(const char* what, const std::int32_t* ids, std::int64_t count, std::int64_t limit) {
  for (std::int64_t t = 0; t < count; ++t)
    require<DataError>(ids[t] >= 0 && ids[t] < limit,
                       "embedding: {} {} at token {} is outside the table of {}", what, ids[t], t, limit);
}

template <class Op>
void set_ids(EmbeddingArgs& args, const Op& op, const TensorView& table) {
  args.first_id = op.first_id;
  args.ids = table.rows();
  check_ids("token id", args.tokens, op.tokens.elements(), op.vocabulary > 0 ? op.vocabulary : table.rows());
}

}  // namespace

void CpuBackend::execute(const EmbeddingForward& op, Resources resources) {
  const bool mixed = op.position_table && op.position_table.dtype != op.table.dtype;
  if (needs_reference(op) || mixed) return ReferenceBackend::execute(op, resources);
  EmbeddingArgs args;
  args.tokens = op.tokens.as<std::int32_t>();
  args.table = rows_of(op.table);
  set_ids(args, op, op.table);
  if (op.position_table) {
    args.positions = op.positions.as<std::int32_t>();
    args.position_table = rows_of(op.position_table);
    check_ids("position", args.positions, op.tokens.elements(), op.position_table.rows());
  }
  args.y = rows_of(op.y);
  args.dropout = dropout_of(op.dropout, args.y.columns);
  const EmbeddingKernels& kernels = STOA_KERNELS(isa_, embedding_kernels);
  run_pieces(pool_, op.tokens.elements(), rows_per_task(args.y.columns),
             [&](std::int64_t begin, std::int64_t end) { kernels.forward(args, begin, end); });
}

std::size_t CpuBackend::workspace_bytes(const EmbeddingBackward& op) const {
  return ReferenceBackend::workspace_bytes(op);  // the columns are shared out, each sums its tokens in place
}

void CpuBackend::execute(const EmbeddingBackward& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  EmbeddingArgs args;
  args.tokens = op.tokens.as<std::int32_t>();
  args.table = rows_of(op.dtable);
  if (op.dtable) set_ids(args, op, op.dtable);
  if (op.dposition_table) {
    args.positions = op.positions.as<std::int32_t>();
    args.position_table = rows_of(op.dposition_table);
    check_ids("position", args.positions, op.tokens.elements(), op.dposition_table.rows());
  }
  args.y = rows_of(op.dy);
  args.dropout = dropout_of(op.dropout, args.y.columns);
  const EmbeddingKernels& kernels = STOA_KERNELS(isa_, embedding_kernels);
  run_pieces(pool_, args.y.columns, 128, [&](std::int64_t begin, std::int64_t end) {
    kernels.backward(args, op.tokens.elements(), begin, end);
  });
}

}  // namespace stoa::ops::cpu
