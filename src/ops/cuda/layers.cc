#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/activation.h"
#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/embedding.h"
#include "ops/cuda/kernels/norm.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {
namespace {

// Kernels have the stream (x) either of the layers' type or in fp32 with 16-bit layers.
void expect_types(const char* op, const TensorView& stream, const TensorView& layer) {
  fast_element_of(op, stream);
  fast_element_of(op, layer);
  if (stream.dtype != layer.dtype && stream.dtype != DType::kF32)
    fail<ConfigError>("{}: a stream {} with layers {} on a GPU: expected one type, or an fp32 stream", op,
                      stream.text(), layer.text());
}

MapArgs map_of(MapKind kind, const TensorView& x, const TensorView& y) {
  MapArgs out;
  out.kind = kind;
  out.x = x.data, out.x_type = element_of(x.dtype);
  out.y = y.data, out.y_type = element_of(y.dtype);
  out.count = x.elements();
  out.wide = all_aligned({x.data, y.data});
  return out;
}

void with_dropout(MapArgs& args, const Dropout& dropout, const TensorView& rows) {
  args.dropout = dropout_of(dropout, rows.shape.back());
  args.wide = args.wide && is_wide(args.dropout);
}

}  // namespace

void CudaBackend::execute(const NormForward& op, Resources resources) {
  expect_types(NormForward::kName, op.x, op.y);
  // A branch of 16 bits that joins an fp32 stream may be normalised to either.
  if (op.branch) {
    expect_types(NormForward::kName, op.x, op.branch);
    if (op.y.dtype != op.branch.dtype && op.y.dtype != op.x.dtype)
      fail<ConfigError>("norm forward: branch {} with y {} on a GPU: expected one type, or y of the stream's",
                        op.branch.text(), op.y.text());
  }
  NormArgs args;
  args.centred = op.kind == NormKind::kLayerNorm;
  args.epsilon = static_cast<float>(op.epsilon);
  args.rows = row_count(op.x);
  args.x = rows_of(op.x), args.branch = rows_of(op.branch), args.sum = rows_of(op.sum),
  args.y = rows_of(op.y);
  args.columns = args.x.columns;
  args.gamma = op.gamma ? op.gamma.as<float>() : nullptr;
  args.beta = op.beta ? op.beta.as<float>() : nullptr;
  args.stats = op.stats ? op.stats.as<float>() : nullptr;
  args.dropout = dropout_of(op.dropout, args.columns);
  args.wide = is_wide(args.x) && is_wide(args.branch) && is_wide(args.sum) && is_wide(args.y) &&
              is_wide(args.dropout) && all_aligned({args.gamma, args.beta});
  launch_norm_forward(args, native_stream(resources.stream));
}

std::size_t CudaBackend::workspace_bytes(const NormBackward& op) const {
  const std::int64_t columns = op.x.shape.back();
  return static_cast<std::size_t>(norm_blocks(row_count(op.x), columns) * 2 * columns) * sizeof(float);
}

void CudaBackend::execute(const NormBackward& op, Resources resources) {
  expect_types(NormBackward::kName, op.x, op.dy);
  void* stream = native_stream(resources.stream);
  NormArgs args;
  args.centred = op.kind == NormKind::kLayerNorm;
  args.rows = row_count(op.x);
  args.x = rows_of(op.x), args.dy = rows_of(op.dy), args.dresidual = rows_of(op.dresidual);
  args.dx = rows_of(op.dx), args.dbranch = rows_of(op.dbranch);
  args.columns = args.x.columns;
  args.gamma = op.gamma ? op.gamma.as<float>() : nullptr;
  args.stats = op.stats.as<float>();
  args.dropout = dropout_of(op.dropout, args.columns);
  args.partial = static_cast<float*>(resources.workspace);
  args.wide = is_wide(args.x) && is_wide(args.dy) && is_wide(args.dresidual) && is_wide(args.dx) &&
              is_wide(args.dbranch) && is_wide(args.dropout) && all_aligned({args.gamma, args.partial});
  launch_norm_backward(args, stream);
  PartialSums sums;
  sums.partial = args.partial;
  sums.blocks = norm_blocks(args.rows, args.columns);
  sums.stride = 2 * args.columns;
  sums.columns = args.columns;
  sums.accumulate = op.accumulate;
  if (op.dgamma) {
    sums.out = op.dgamma.as<float>();
    launch_add_partials(sums, stream);
  }
  if (!op.dbeta) return;
  sums.partial += args.columns;
  sums.out = op.dbeta.as<float>();
  launch_add_partials(sums, stream);
}

void CudaBackend::execute(const ActivationForward& op, Resources resources) {
  ActivationArgs args;
  args.kind = static_cast<ActivationCode>(op.kind);
  args.gated = op.gated;
  args.alpha = static_cast<float>(op.clamp.alpha), args.limit = static_cast<float>(op.clamp.limit);
  args.type = fast_element_of(ActivationForward::kName, op.x);
  args.x = op.x.data, args.y = op.y.data;
  args.rows = op.y.shape[0], args.columns = op.y.shape[1];
  args.wide = all_aligned({args.x, args.y}) && (!op.gated || args.columns % 8 == 0);
  launch_activation_forward(args, native_stream(resources.stream));
}

void CudaBackend::execute(const ActivationBackward& op, Resources resources) {
  ActivationArgs args;
  args.kind = static_cast<ActivationCode>(op.kind);
  args.gated = op.gated;
  args.alpha = static_cast<float>(op.clamp.alpha), args.limit = static_cast<float>(op.clamp.limit);
  args.type = fast_element_of(ActivationBackward::kName, op.x);
  args.x = op.x.data, args.dy = op.dy.data, args.y = op.dx.data;
  args.rows = op.dy.shape[0], args.columns = op.dy.shape[1];
  args.wide = all_aligned({args.x, args.dy, args.y}) && (!op.gated || args.columns % 8 == 0);
  launch_activation_backward(args, native_stream(resources.stream));
}

void CudaBackend::execute(const EmbeddingForward& op, Resources resources) {
  expect_types(EmbeddingForward::kName, op.y, op.table);
  EmbeddingArgs args;
  args.tokens = op.tokens.elements();
  args.columns = op.table.shape[1];
  args.ids = op.tokens.as<std::int32_t>();
  args.first_id = op.first_id;
  args.table_rows = op.table.shape[0];
  args.vocabulary = op.vocabulary > 0 ? op.vocabulary : args.table_rows;
  args.table = op.table.data, args.table_type = element_of(op.table.dtype);
  if (op.position_table) {
    args.positions = op.positions.as<std::int32_t>();
    args.position_rows = op.position_table.shape[0];
    args.position_table = op.position_table.data;
  }
  args.y = op.y.data, args.y_type = element_of(op.y.dtype);
  args.dropout = dropout_of(op.dropout, args.columns);
  args.wide = args.columns % 8 == 0 && all_aligned({args.table, args.position_table, args.y}) &&
              is_wide(args.dropout);
  launch_embedding_forward(args, native_stream(resources.stream));
}

// Order and keys of the sorted tokens, as much again to sort in, and counts.
std::size_t CudaBackend::workspace_bytes(const EmbeddingBackward& op) const {
  const std::int64_t count = op.tokens.elements();
  return static_cast<std::size_t>(4 * count + sort_counts(count)) * sizeof(std::int32_t);
}

void CudaBackend::execute(const EmbeddingBackward& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  const std::int64_t count = op.tokens.elements();
  if (count == 0) return;
  auto* words = static_cast<std::int32_t*>(resources.workspace);
  const auto add_rows = [&](const TensorView& ids, const TensorView& table, std::int64_t first,
                            std::int64_t limit) {
    SortArgs sort;
    sort.ids = ids.as<std::int32_t>();
    sort.count = count;
    sort.limit = limit;
    sort.order = words, sort.keys = words + count, sort.scratch = words + 2 * count,
    sort.counts = words + 4 * count;
    launch_sort_tokens(sort, stream);
    EmbeddingGradientArgs args;
    args.order = sort.order, args.keys = sort.keys;
    args.count = count;
    args.columns = table.shape[1];
    args.first_id = first;
    args.table_rows = table.shape[0];
    args.type = fast_element_of(EmbeddingBackward::kName, op.dy);
    args.dy = op.dy.data;
    args.table = table.as<float>();
    args.dropout = dropout_of(op.dropout, args.columns);
    args.wide = args.columns % 8 == 0 && all_aligned({args.dy, args.table}) && is_wide(args.dropout);
    launch_embedding_backward(args, stream);
  };
  if (op.dtable)
    add_rows(op.tokens, op.dtable, op.first_id, op.vocabulary > 0 ? op.vocabulary : op.dtable.shape[0]);
  if (op.dposition_table) add_rows(op.positions, op.dposition_table, 0, op.dposition_table.shape[0]);
}

void CudaBackend::execute(const Cast& op, Resources resources) {
  const MapArgs args = map_of(MapKind::kCast, op.x, op.y);
  if (op.x.dtype == DType::kF64 || op.y.dtype == DType::kF64)
    launch_cast_exact(args, native_stream(resources.stream));
  else
    launch_map(args, native_stream(resources.stream));
}

void CudaBackend::execute(const ResidualAdd& op, Resources resources) {
  expect_types(ResidualAdd::kName, op.x, op.branch);
  MapArgs args = map_of(MapKind::kResidual, op.x, op.y);
  args.other = op.branch.data, args.other_type = element_of(op.branch.dtype);
  args.wide = args.wide && is_aligned(args.other);
  with_dropout(args, op.dropout, op.x);
  launch_map(args, native_stream(resources.stream));
}

void CudaBackend::execute(const DropoutBackward& op, Resources resources) {
  fast_element_of(DropoutBackward::kName, op.dy);
  fast_element_of(DropoutBackward::kName, op.dbranch);
  MapArgs args = map_of(MapKind::kDropout, op.dy, op.dbranch);
  with_dropout(args, op.dropout, op.dy);
  launch_map(args, native_stream(resources.stream));
}

void CudaBackend::execute(const AddTo& op, Resources resources) {
  fast_element_of(AddTo::kName, op.x);
  fast_element_of(AddTo::kName, op.y);
  launch_map(map_of(MapKind::kAdd, op.x, op.y), native_stream(resources.stream));
}

void CudaBackend::execute(const Combine& op, Resources resources) {
  fast_element_of(Combine::kName, op.x);
  MapArgs args = map_of(MapKind::kCombine, op.x, op.y);
  args.a = static_cast<float>(op.a), args.b = static_cast<float>(op.b);
  launch_map(args, native_stream(resources.stream));
}

void CudaBackend::execute(const FillZero& op, Resources resources) {
  launch_fill_zero(op.y.data, op.y.bytes(), native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
