#include "ops/cpu/gemm_plan.h"

#include <utility>

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kSharedBytes = 10 << 20;  // of packed B, shared by the workers
constexpr std::int64_t kFewRows = 128;           // up to here B is used too rarely to be packed ahead
constexpr std::int64_t kFewColumns = 1024;       // up to here rows of A are used too rarely to be packed
constexpr std::int64_t kAcrossUnits = 64;        // of a panel of B that is packed across its memory
constexpr std::int64_t kTasksPerWorker = 4;      // so that an unlucky worker does not keep the others waiting

const ProductKernels& product_kernels(const Gemm& g, const MatrixKernels& kernels) {
  return kernels.bf16 && g.a.matrix.dtype == DType::kBF16 ? *kernels.bf16 : kernels.vectors->floats;
}

// Panels of A that a worker packs at a time.
std::int64_t panels_at_once(std::int64_t slice_units, const ProductKernels& k) {
  return std::clamp<std::int64_t>(k.packed_bytes / (slice_units * 4), k.rows, k.most_rows) / k.rows;
}

// Its rows, along the reduction, are whole lines of the cache, and not pages apart: the same line of such
// rows would evict each other (2,048 rows of 4,096 bytes took 1.6 times as long as packed ones).
bool reads_lines(const GemmOperand& x) {
  const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n) * size_of(x.matrix.dtype); };
  return !x.transposed && bytes(x.reduction()) % 64 == 0 && bytes(x.matrix.stride0) % 64 == 0 &&
         bytes(x.matrix.stride0) % 4096 != 0 && reinterpret_cast<std::uintptr_t>(x.matrix.data) % 64 == 0;
}

// `any_rows`: with room for products of fewer rows, as long as those have B packed ahead too.
Plan cut(const Gemm& g, const MatrixKernels& kernels, int workers, bool any_rows = false) {
  Plan p{};
  p.kernels = &product_kernels(g, kernels);
  const ProductKernels& k = *p.kernels;
  p.m = g.a.rows();
  p.n = g.b.rows();
  p.r = g.a.reduction();
  const std::int64_t per_unit = k.pairs ? 2 : 1;
  const std::int64_t units = units_of(p.r, k);
  // Rows apart need one order of sums for any number of rows: that of vectors->stream, which then takes all
  // products, or that of tiles(), which kernels->stream shares.
  const bool shares_order = kernels.rows_apart && k.stream;
  p.second_units = g.second_reduction() ? units_of(g.second_reduction(), k) : 0;
  p.stream = (g.out_turned || !g.a.transposed) && !g.b.transposed && !g.accumulate && !g.b.packed &&
             !p.second_units &&
             (g.out_turned || shares_order ? p.m <= k.stream_tokens
                                           : kernels.rows_apart || p.m <= kernels.vectors->stream_tokens);
  if (p.stream) {
    p.packed_tokens = shares_order || g.out_turned;
    if (p.packed_tokens) p.total = whole_lines(round_up(p.m, k.panel_tokens) * units * 4);
    return p;
  }

  p.slices = ceil_div(units, k.slice);
  p.slice_units = round_up(ceil_div(units, p.slices), 16);
  p.slices = ceil_div(units, p.slice_units);
  p.slice_units = std::min(p.slice_units, units);
  p.slice = p.slice_units * per_unit;
  // The second product lengthens the last slice, and its blocks, rather than having one of its own: to put
  // sums away and take them up again would cost more.
  const std::int64_t most_units = p.slice_units + p.second_units;
  p.block = round_up(ceil_div(most_units, ceil_div(p.slice_units, k.block)), 16);

  const std::int64_t column_panels = ceil_div(p.n, k.columns);
  p.ahead = p.m > kFewRows;
  p.across = !p.ahead && g.b.transposed;
  p.rows_in_place = p.ahead && k.reads_rows && p.n <= kFewColumns && reads_lines(g.a) && !p.second_units;
  if (p.ahead) {
    const std::int64_t panel_bytes = most_units * k.columns * 4;
    const std::int64_t groups =
        ceil_div(column_panels, std::max<std::int64_t>(1, kSharedBytes / panel_bytes));
    p.shared_columns = ceil_div(column_panels, groups) * k.columns;
    const std::int64_t row_panels = ceil_div(p.m, k.rows);
    const std::int64_t fit = panels_at_once(most_units, k);
    // Where the output is narrow there are few tasks to a block of rows: more blocks.
    const std::int64_t least_blocks =
        round_up(ceil_div(kTasksPerWorker * workers, p.shared_columns / k.columns), workers);
    p.row_blocks = std::min(row_panels, std::max(round_up(ceil_div(row_panels, fit), workers), least_blocks));
    p.block_rows =
        (any_rows ? std::min(fit, ceil_div(row_panels, least_blocks)) : ceil_div(row_panels, p.row_blocks)) *
        k.rows;
    p.column_blocks = std::clamp<std::int64_t>(ceil_div(kTasksPerWorker * workers, p.row_blocks), 1,
                                               p.shared_columns / k.columns);
  } else {
    p.row_blocks = 1;
    p.block_rows = round_up(p.m, k.rows);
    p.shared_columns = column_panels * k.columns;
    p.column_blocks = std::min<std::int64_t>(column_panels, (p.across ? 1 : 16 * kTasksPerWorker) * workers);
    if (p.across) p.block = std::min(p.block, kAcrossUnits);
  }

  const bool partial = p.slices > 1;
  std::size_t at = 0;
  const auto place = [&at](std::size_t& offset, std::int64_t bytes) {
    offset = at;
    at += whole_lines(bytes);
  };
  if (p.ahead) place(p.shared_b, most_units * 4 * p.shared_columns);
  if (!p.ahead) place(p.shared_a, most_units * 4 * p.block_rows);
  if (partial) place(p.sums, round_up(p.m, k.rows) * p.shared_columns * 4);
  const std::size_t workers_at = at;
  at = 0;
  if (p.ahead) place(p.worker_a, most_units * 4 * p.block_rows);
  if (p.ahead) place(p.worker_holds, sizeof(std::int64_t));
  const std::int64_t panels_of_task = p.across ? ceil_div(column_panels, p.column_blocks) : 1;
  if (!p.ahead) place(p.worker_b, std::min(p.block, most_units) * k.columns * panels_of_task * 4);
  if (!partial) place(p.worker_sums, p.block_rows * k.columns * panels_of_task * 4);
  if (g.b.packed) {
    // What a packing task, or the packing of a block, reads of B.
    const std::int64_t columns = (p.ahead ? kPackColumns : panels_of_task) * k.columns,
                       most = p.ahead ? kPackUnits : std::min(p.block, p.slice_units);
    place(p.worker_numbers, columns * most * per_unit * static_cast<std::int64_t>(size_of(g.b.matrix.dtype)));
  }
  p.per_worker = at;
  p.worker_a += workers_at;
  p.worker_holds += workers_at;
  p.worker_b += workers_at;
  p.worker_sums += workers_at;
  p.worker_numbers += workers_at;
  p.total = workers_at + p.per_worker * static_cast<std::size_t>(workers);
  return p;
}

}  // namespace

Gemm with_few_rows(const Gemm& g, const MatrixKernels& kernels) {
  const ProductKernels& k = product_kernels(g, kernels);
  // x W^T is streamed; of dW the long operand is packed across its memory.
  const bool streams = !g.a.transposed && !g.accumulate, gradient = g.a.transposed && g.b.transposed;
  if (!k.turns || g.b.rows() > k.stream_tokens || g.a.rows() <= kFewRows || !(streams || gradient) ||
      g.bias || g.continues || g.b.packed || g.second_reduction() || (gradient && g.out.dtype != DType::kF32))
    return g;
  Gemm turned = g;
  std::swap(turned.a, turned.b);
  turned.out_turned = true;
  return turned;
}

Plan plan_of(const Gemm& g, const MatrixKernels& kernels, int workers) { return cut(g, kernels, workers); }

std::size_t workspace_bytes(const Gemm& gemm, const MatrixKernels& kernels, int workers) {
  if (gemm.a.rows() == 0 || gemm.b.rows() == 0) return 0;
  return cut(with_few_rows(gemm, kernels), kernels, workers).total;
}

std::size_t workspace_bytes_of_any_rows(const Gemm& gemm, const MatrixKernels& kernels, int workers) {
  if (gemm.a.rows() == 0 || gemm.b.rows() == 0) return 0;
  std::size_t most = cut(with_few_rows(gemm, kernels), kernels, workers, true).total;
  // The other ways that products of fewer rows take, at their largest.
  for (const std::int64_t rows : {kFewRows, std::int64_t{product_kernels(gemm, kernels).stream_tokens}}) {
    if (rows == 0 || gemm.a.rows() <= rows) continue;
    Gemm few = gemm;
    few.a.matrix = gemm.a.matrix.slice(0, rows);
    few.out = gemm.out.slice(0, rows);
    most = std::max(most, cut(few, kernels, workers).total);
  }
  return most;
}

// Every part of the workspace for itself as large as plan_of() makes it for any reduction: a slice has at
// most k.slice units, and at least half as many where there are several.
std::size_t workspace_bytes_of_any_reduction(const Gemm& product, const MatrixKernels& kernels, int workers) {
  if (product.a.rows() == 0 || product.b.rows() == 0) return 0;
  const Gemm gemm = with_few_rows(product, kernels);
  const ProductKernels& k = product_kernels(gemm, kernels);
  const std::int64_t units = units_of(gemm.a.reduction(), k), slice = std::min<std::int64_t>(units, k.slice),
                     rows = round_up(gemm.a.rows(), k.rows), columns = round_up(gemm.b.rows(), k.columns);
  std::int64_t sums = 0, shared = 0, worker = rows * k.columns * 4;
  if (gemm.a.rows() > kFewRows) {
    shared = std::min(slice * 4 * columns, std::max(kSharedBytes, slice * 4 * k.columns));
    worker = std::min<std::int64_t>(rows, k.most_rows) * k.columns * 4 +
             std::min(slice * 4 * rows, std::max<std::int64_t>(k.packed_bytes, slice * 4 * k.rows));
    if (units > k.slice)
      sums = rows * 4 * std::min(columns, std::max<std::int64_t>(k.columns, kSharedBytes / (k.slice * 2)));
  } else {
    shared = slice * 4 * rows;
    std::int64_t block = round_up(k.block, 16), panels = 1;
    if (gemm.b.transposed) {
      block = kAcrossUnits;
      panels = ceil_div(columns / k.columns, std::min<std::int64_t>(columns / k.columns, workers));
    }
    worker = panels * (worker + std::min(slice, block) * k.columns * 4);
    if (units > k.slice) sums = rows * 4 * columns;
  }
  constexpr std::int64_t kLines = 64 * 3;  // each worker's parts begin on lines of the cache
  return whole_lines(shared) + whole_lines(sums) +
         whole_lines(worker + kLines) * static_cast<std::size_t>(workers);
}

}  // namespace stoa::ops::cpu
