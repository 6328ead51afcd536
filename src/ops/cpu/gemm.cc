#include "ops/cpu/gemm.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/fetch_ahead.h"
#include "base/half.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/gemm_plan.h"
#include "ops/cpu/operands.h"
#include "ops/cpu/packed_kernels.h"
#include "ops/cpu/quantised_kernels.h"
#include "ops/cpu/stream_shares.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kStreamRows = 8;                 // of W that few tokens stream at once
constexpr std::int64_t kLeastStreamElements = 8 << 10;  // of W in a task
constexpr std::size_t kPastCaches = 4 << 20;            // of output, from where it is not kept in the caches

// What a thread sets up for a task's tiles.
class TileScope {
 public:
  explicit TileScope(const ProductKernels& k) : k_(k) {
    if (k_.enter) k_.enter();
  }
  ~TileScope() {
    if (k_.leave) k_.leave();
  }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const ProductKernels& k_;
};

bool passes_caches(const Gemm& g) {
  const std::size_t row = static_cast<std::size_t>(g.out.stride0) * size_of(g.out.dtype);
  return !g.accumulate && g.out.bytes() >= kPastCaches && row % 64 == 0 &&
         reinterpret_cast<std::uintptr_t>(g.out.data) % 64 == 0;
}

quant::RowType row_type_of(DType type) {
  return type == DType::kBF16  ? quant::RowType::kBF16
         : type == DType::kF16 ? quant::RowType::kF16
                               : quant::RowType::kF32;
}

// One product under way.
struct Run {
  const Gemm& g;
  const Plan& p;
  const ProductKernels& k;
  const quant::RowKernels& row_kernels;
  std::byte* const memory;
  const int workers;
  const bool past_caches;
  std::int64_t column0 = 0;  // first column of B that is packed
  std::int64_t columns = 0;  // how many
  std::int64_t begin = 0;    // slice of the reduction
  std::int64_t count = 0;
  bool first_slice = true, last_slice = true;

  std::uint32_t* units_at(std::size_t offset) const {
    return reinterpret_cast<std::uint32_t*>(memory + offset);
  }

  std::int64_t per_unit() const { return k.pairs ? 2 : 1; }
  std::int64_t units(std::int64_t elements) const {
    return round_up(ceil_div(elements, per_unit()), k.group);
  }

  PackJob pack_job(const GemmOperand& x, std::int64_t first, std::int64_t end, std::int64_t from,
                   std::int64_t elements, std::int64_t width, std::uint32_t* to) const {
    return {.source = x.matrix.data,
            .stride = x.matrix.stride0,
            .element = element_of(x.matrix.dtype),
            .rows_contiguous = !x.transposed,
            .first = first,
            .end = end,
            .begin = from,
            .count = elements,
            .panel_stride = units(elements) * width,
            .panels = to};
  }

  // Packs a part of B; of a packed one, its numbers are unpacked first.
  void pack_part_of_b(PackJob job, int worker) const {
    if (g.b.packed) {
      void* const to = memory + p.worker_numbers + p.per_worker * static_cast<std::size_t>(worker);
      const auto* const from = static_cast<const std::byte*>(g.b.matrix.data);
      const std::int64_t rows = job.end - job.first;
      const quant::PackedRange range = g.b.transposed
                                           ? quant::PackedRange{job.begin, job.count, job.first, rows}
                                           : quant::PackedRange{job.first, rows, job.begin, job.count};
      quant::unpack_rows(*g.b.packed, from, range, row_kernels, row_type_of(g.b.matrix.dtype), to,
                         range.columns);
      job.source = to;
      job.stride = range.columns;
      job.end = rows;
      job.first = job.begin = 0;
    }
    k.pack_b(job);
  }

  // Units of this slice, with the second product's where they follow.
  std::int64_t slice_units() const { return units(count) + (last_slice ? p.second_units : 0); }

  std::int64_t pack_b_parts() const {
    return ceil_div(units(count), kPackUnits) + (last_slice && p.second_units);
  }
  std::int64_t pack_b_tasks() const { return ceil_div(columns, kPackColumns * k.columns) * pack_b_parts(); }
  // A group of panels and a part of this slice of B, or the second product's.
  void pack_b(std::int64_t task, int worker) const {
    const std::int64_t parts = pack_b_parts();
    const std::int64_t column = task / parts * kPackColumns * k.columns, unit = task % parts * kPackUnits;
    const std::int64_t first = column0 + column,
                       end = column0 + std::min(column + kPackColumns * k.columns, columns);
    std::uint32_t* const panels = units_at(p.shared_b) + column * slice_units();
    const bool second = unit >= units(count);
    PackJob job = second ? pack_job(g.b2, first, end, 0, g.second_reduction(), k.columns,
                                    panels + units(count) * k.columns)
                         : pack_job(g.b, first, end, begin + unit * per_unit(),
                                    std::min(kPackUnits * per_unit(), count - unit * per_unit()), k.columns,
                                    panels + unit * k.columns);
    job.panel_stride = slice_units() * k.columns;
    second ? k.pack_b(job) : pack_part_of_b(job, worker);
  }
  // Units [from, from + length) of this slice of columns [column, end) of B, to where a task finds them.
  void pack_block_of_b(std::int64_t column, std::int64_t end, std::int64_t from, std::int64_t length,
                       std::uint32_t* to, int worker) const {
    const std::int64_t there = std::clamp<std::int64_t>(units(count) - from, 0, length);
    if (there > 0 || length == 0) {
      const std::int64_t element = from * per_unit();
      PackJob job = pack_job(g.b, column, end, begin + element,
                             std::min<std::int64_t>(there * per_unit(), count - element), k.columns, to);
      job.panel_stride = length * k.columns;
      pack_part_of_b(job, worker);
    }
    if (there == length) return;
    const std::int64_t element = (from + there - units(count)) * per_unit();
    PackJob job =
        pack_job(g.b2, column, end, element,
                 std::min<std::int64_t>((length - there) * per_unit(), g.second_reduction() - element),
                 k.columns, to + there * k.columns);
    job.panel_stride = length * k.columns;
    k.pack_b(job);
  }
  // Rows [first, end) of A of this slice, and of the second product where it follows.
  void pack_rows_of_a(std::int64_t first, std::int64_t end, std::uint32_t* to) const {
    PackJob job = pack_job(g.a, first, end, begin, count, k.rows, to);
    job.panel_stride = slice_units() * k.rows;
    k.pack_a(job);
    if (!last_slice || !p.second_units) return;
    job = pack_job(g.a2, first, end, 0, g.second_reduction(), k.rows, to + units(count) * k.rows);
    job.panel_stride = slice_units() * k.rows;
    k.pack_a(job);
  }
  // Panel i of A.
  void pack_a(std::int64_t panel) const {
    const std::int64_t first = panel * k.rows;
    pack_rows_of_a(first, std::min(first + k.rows, p.m),
                   units_at(p.shared_a) + panel * slice_units() * k.rows);
  }

  // Which block of A, of which slice, a worker has packed.
  std::int64_t& holds(int worker) const {
    return *reinterpret_cast<std::int64_t*>(memory + p.worker_holds +
                                            p.per_worker * static_cast<std::size_t>(worker));
  }
  void forget_blocks() const {
    for (int w = 0; w < workers; ++w) holds(w) = -1;
  }

  // Rows [row, end) of a panel of columns of the output, to where tiles find their sums.
  void load_sums(std::int64_t row, std::int64_t end, std::int64_t column, std::int64_t width,
                 float* sums) const {
    for (std::int64_t i = row; i < round_up(end, k.rows); ++i, sums += k.columns) {
      const std::int64_t there = i < end ? width : 0;
      if (there) std::copy_n(g.out.row<float>(i) + column, there, sums);
      std::fill(sums + there, sums + k.columns, 0.0f);
    }
  }

  void compute(std::int64_t task, int worker) const {
    const std::size_t mine = p.per_worker * static_cast<std::size_t>(worker);
    const std::int64_t row_panels = ceil_div(p.m, k.rows), column_panels = ceil_div(columns, k.columns);
    // As many row blocks at a time as there are workers, so that a worker comes back to the one it has
    // packed.
    const std::int64_t round = task / (workers * p.column_blocks), turn = task % (workers * p.column_blocks);
    const std::int64_t at_once = std::min<std::int64_t>(workers, p.row_blocks - round * workers);
    const std::int64_t rb = round * workers + turn % at_once, cb = turn / at_once;
    const std::int64_t i0 = rb * row_panels / p.row_blocks, i1 = (rb + 1) * row_panels / p.row_blocks;
    const std::int64_t j0 = cb * column_panels / p.column_blocks,
                       j1 = (cb + 1) * column_panels / p.column_blocks;
    if (i0 == i1 || j0 == j1) return;
    const std::int64_t slice_units = this->slice_units();
    const TileScope scope(k);

    const std::uint32_t* packed = units_at(p.shared_a) + i0 * slice_units * k.rows;
    const std::int64_t in_place = p.rows_in_place ? std::clamp(p.m / k.rows, i0, i1) : i0;
    if (p.ahead && in_place < i1) {
      std::uint32_t* to = units_at(p.worker_a + mine);
      const std::int64_t block = begin / p.slice * p.row_blocks + rb;
      if (std::exchange(holds(worker), block) != block)
        pack_rows_of_a(in_place * k.rows, std::min(i1 * k.rows, p.m), to);
      packed = to;
    }
    const Place place{.packed = packed,
                      .row_panel = i0,
                      .packed_panel = in_place,
                      .end_panel = i1,
                      .first_column = j0,
                      .worker = worker};
    if (p.across) {
      for (std::int64_t u = 0; u == 0 || u < slice_units; u += p.block) {
        const std::int64_t block = std::min(p.block, slice_units - u);
        std::uint32_t* b = packed_b(worker);
        pack_block_of_b(column0 + j0 * k.columns, column0 + std::min(j1 * k.columns, columns), u, block, b,
                        worker);
        for (std::int64_t j = j0; j < j1; ++j, b += block * k.columns) compute_block(place, j, u, block, b);
      }
      return;
    }
    for (std::int64_t j = j0; j < j1; ++j)
      for (std::int64_t u = 0; u == 0 || u < slice_units; u += p.block) {
        const std::int64_t block = std::min(p.block, slice_units - u), column = column0 + j * k.columns;
        std::uint32_t* b =
            p.ahead ? units_at(p.shared_b) + (j * slice_units + u) * k.columns : packed_b(worker);
        if (!p.ahead)
          pack_block_of_b(column, std::min<std::int64_t>(column + k.columns, p.n), u, block, b, worker);
        compute_block(place, j, u, block, b);
      }
  }

  std::uint32_t* packed_b(int worker) const {
    return units_at(p.worker_b + p.per_worker * static_cast<std::size_t>(worker));
  }

  // What a task computes with.
  struct Place {
    const std::uint32_t* packed;                      // panels of A from packed_panel
    std::int64_t row_panel, packed_panel, end_panel;  // of A; those before packed_panel are read in place
    std::int64_t first_column;                        // panel of B
    int worker;
  };

  // Adds units [u, u + block) of panel j of B, packed, to the sums, and stores them after the last.
  void compute_block(const Place& at, std::int64_t j, std::int64_t u, std::int64_t block,
                     const std::uint32_t* b) const {
    TileJob job{};
    job.units = block;
    job.b = b;
    job.next_b = p.ahead;
    if (at.row_panel < at.packed_panel) {
      job.a_row = g.a.matrix.stride0 / per_unit();
      job.a_stride = job.a_row * k.rows;
      job.a = static_cast<const std::uint32_t*>(g.a.matrix.data) + at.row_panel * job.a_stride +
              begin / per_unit() + u;
      compute_panels(at, at.row_panel, at.packed_panel, j, u, job);
      job.next_b = false;  // the products above fetch it
    }
    if (at.packed_panel == at.end_panel) return;
    job.a_row = 0;
    job.a_stride = slice_units() * k.rows;
    job.a = at.packed + u * k.rows;
    compute_panels(at, at.packed_panel, at.end_panel, j, u, job);
  }

  // compute_block() for panels [first_panel, end_panel) of A, to which `job` points.
  void compute_panels(const Place& at, std::int64_t first_panel, std::int64_t end_panel, std::int64_t j,
                      std::int64_t u, TileJob job) const {
    const std::size_t mine = p.per_worker * static_cast<std::size_t>(at.worker);
    const std::int64_t row_panels = ceil_div(p.m, k.rows), row = first_panel * k.rows,
                       end_row = std::min(end_panel * k.rows, p.m), column = column0 + j * k.columns;
    job.rows = end_row - row;
    job.columns = std::min<std::int64_t>(k.columns, p.n - column);
    job.sums =
        p.slices > 1
            ? reinterpret_cast<float*>(memory + p.sums) + (j * row_panels * k.rows + row) * k.columns
            : reinterpret_cast<float*>(memory + p.worker_sums + mine) +
                  ((p.across ? (j - at.first_column) * p.block_rows : 0) + row - at.row_panel * k.rows) *
                      k.columns;
    job.first = first_slice && u == 0;
    if (job.first && g.continues) {
      load_sums(row, end_row, column, job.columns, job.sums);
      job.first = false;
    }
    const std::int64_t out_at = g.out_turned ? column * g.out.stride0 + row : row * g.out.stride0 + column;
    const StoreJob store{
        .out = static_cast<std::byte*>(g.out.data) + static_cast<std::size_t>(out_at) * size_of(g.out.dtype),
        .out_stride = g.out.stride0,
        .element = element_of(g.out.dtype),
        .bias = g.bias ? g.bias.as<float>() + column : nullptr,
        .accumulate = g.accumulate,
        .past_caches = past_caches,
        .turned = g.out_turned};
    job.store = last_slice && u + job.units >= slice_units() ? &store : nullptr;
    k.tiles(job);
  }
};

void run_stream(const Gemm& g, const Plan& p, const GemmKernels& kernels, WorkerPool& pool, void* workspace) {
  struct Shared {
    StreamJob job;
    const GemmKernels& k;
    const ProductKernels& products;
    std::uint32_t* tokens;  // packed, or null
    StreamShares shares;
  };
  Shared shared{{.x = g.a.matrix.data,
                 .x_stride = g.a.matrix.stride0,
                 .x_contiguous = !g.a.transposed,
                 .w = g.b.matrix.data,
                 .w_stride = g.b.matrix.stride0,
                 .tokens = p.m,
                 .inputs = p.r,
                 .first = 0,
                 .end = p.n,
                 .fetched = p.n,
                 .element = element_of(g.a.matrix.dtype),
                 .bias = g.bias ? g.bias.as<float>() : nullptr,
                 .out = g.out.data,
                 .out_stride = g.out.stride0,
                 .out_element = element_of(g.out.dtype),
                 .turned = g.out_turned},
                kernels,
                *p.kernels,
                p.packed_tokens ? static_cast<std::uint32_t*>(workspace) : nullptr,
                {p.n, p.packed_tokens ? p.kernels->stream_rows : kStreamRows,
                 ceil_div(kLeastStreamElements, p.r), pool.size()}};
  if (p.packed_tokens)
    pool.run(ceil_div(p.m, shared.products.panel_tokens), [&shared](std::int64_t panel, int) {
      const ProductKernels& k = shared.products;
      const StreamJob& job = shared.job;
      const std::int64_t first = panel * k.panel_tokens, words = units_of(job.inputs, k) * k.panel_tokens;
      k.pack_tokens(job, first, std::min<std::int64_t>(first + k.panel_tokens, job.tokens),
                    shared.tokens + panel * words);
    });
  const std::int64_t row_bytes = g.b.matrix.stride0 * static_cast<std::int64_t>(size_of(g.b.matrix.dtype));
  // On tiles all products that are streamed take as long as memory needs; of turned ones b is no weight.
  if (p.m <= kStreamedTokens || (p.packed_tokens && !g.out_turned))
    pool.fetch_ahead().reads(static_cast<const std::byte*>(g.b.matrix.data), p.n * row_bytes,
                             [&](int worker) { return shared.shares.begin(worker) * row_bytes; });
  pool.run(pool.size(), [&shared](std::int64_t, int worker) {
    StreamJob job = shared.job;
    std::optional<TileScope> scope;
    if (shared.tokens) scope.emplace(shared.products);
    shared.shares.work(worker, [&](std::int64_t first, std::int64_t end, std::int64_t stop) {
      job.first = first;
      job.end = end;
      job.fetched = stop;
      shared.tokens ? shared.products.stream(job, shared.tokens) : shared.k.stream(job);
    });
  });
}

}  // namespace

MatrixKernels matrix_kernels(InstructionSet isa, bool rows_apart) {
  const GemmKernels& vectors = STOA_KERNELS(isa, gemm_kernels);
  MatrixKernels kernels{&vectors, vectors.pairs.tiles ? &vectors.pairs : nullptr, rows_apart, nullptr,
                        &STOA_KERNELS(isa, packed_kernels)};
#if defined(__x86_64__)
  if (isa == InstructionSet::kAmxBf16) {
    kernels.bf16 = &avx512bf16::tile_products();
    kernels.quantised = &avx512bf16::quantised_tiles();
  }
#endif
  return kernels;
}

void run(const Gemm& product, const MatrixKernels& kernels, WorkerPool& pool, void* workspace) {
  if (product.a.rows() == 0 || product.b.rows() == 0) return;
  const Gemm gemm = with_few_rows(product, kernels);
  const Plan p = plan_of(gemm, kernels, pool.size());
  if (p.stream) return run_stream(gemm, p, *kernels.vectors, pool, workspace);
  Run job{gemm,
          p,
          *p.kernels,
          *kernels.rows,
          static_cast<std::byte*>(workspace),
          pool.size(),
          passes_caches(gemm)};
  if (p.ahead) job.forget_blocks();
  for (job.column0 = 0; job.column0 < p.n; job.column0 += p.shared_columns) {
    job.columns = std::min(p.shared_columns, p.n - job.column0);
    for (std::int64_t s = 0; s < p.slices; ++s) {
      job.begin = s * p.slice;
      job.count = std::min(p.slice, p.r - job.begin);
      job.first_slice = s == 0;
      job.last_slice = s + 1 == p.slices;
      // A lambda of one reference fits into std::function without allocation.
      if (p.ahead) {
        pool.run(job.pack_b_tasks(), [&job](std::int64_t task, int worker) { job.pack_b(task, worker); });
      } else {
        pool.run(ceil_div(p.m, p.kernels->rows), [&job](std::int64_t task, int) { job.pack_a(task); });
      }
      pool.run(p.row_blocks * p.column_blocks,
               [&job](std::int64_t task, int worker) { job.compute(task, worker); });
    }
  }
}

void column_sums(const TensorView& source, const TensorView& out, bool accumulate, InstructionSet isa,
                 WorkerPool& pool) {
  constexpr std::int64_t kColumns = 64;
  struct Shared {
    ColumnSumJob job;
    std::int64_t columns;
    const GemmKernels& k;
  };
  const std::int64_t columns = source.shape[1];
  const Shared shared{{.source = source.data,
                       .stride = source.stride0,
                       .rows = source.shape[0],
                       .first = 0,
                       .end = columns,
                       .element = element_of(source.dtype),
                       .out = out.as<float>(),
                       .accumulate = accumulate},
                      columns,
                      STOA_KERNELS(isa, gemm_kernels)};
  pool.run(ceil_div(columns, kColumns), [&shared](std::int64_t task, int) {
    ColumnSumJob job = shared.job;
    job.first = task * kColumns;
    job.end = std::min(job.first + kColumns, shared.columns);
    shared.k.column_sums(job);
  });
}

}  // namespace stoa::ops::cpu
