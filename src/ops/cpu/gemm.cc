#include "ops/cpu/gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/half.h"
#include "base/rounding.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/operands.h"
#include "ops/cpu/packed_kernels.h"
#include "ops/cpu/quantised_kernels.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kSharedBytes = 10 << 20;  // of packed B, shared by the workers
constexpr std::int64_t kFewRows = 128;           // up to here B is used too rarely to be packed ahead
constexpr std::int64_t kPackColumns = 8,
                       kPackUnits = 256;                // panels and units of B that a packing task handles
constexpr std::int64_t kStreamRows = 8;                 // of W that few tokens stream at once
constexpr std::int64_t kLeastStreamElements = 8 << 10;  // of W in a task
constexpr std::int64_t kMostStreamTasks = 128;
constexpr std::size_t kPastCaches = 4 << 20;  // of output, from where it is not kept in the caches
constexpr std::int64_t kTasksPerWorker = 4;   // so that an unlucky worker does not keep the others waiting

// How a product is cut. A function of shapes, types, instruction set and number of workers.
struct Plan {
  const ProductKernels* kernels;
  bool stream;         // W is read without packing it
  bool packed_tokens;  // streamed by kernels->stream, which takes packed tokens; else by vectors->stream
  bool ahead;          // B is packed by all before it is used; else each task packs what it uses
  std::int64_t m, n, r;
  std::int64_t second_units;  // of the second product's reduction, behind the last slice
  std::int64_t block;         // units of the reduction that a tile sums before it goes to memory
  std::int64_t slice;         // reduction elements per slice, a multiple of the block
  std::int64_t slices;
  std::int64_t slice_units;     // units of a full slice
  std::int64_t row_blocks;      // tasks along m
  std::int64_t block_rows;      // most rows of a row block, a multiple of the tile
  std::int64_t shared_columns;  // columns of B packed ahead, a multiple of the panel
  std::int64_t column_blocks;   // tasks along n, of shared_columns when ahead, else of n
  // workspace
  std::size_t shared_b, shared_a, sums, worker_a, worker_holds, worker_b, worker_sums, worker_numbers,
      per_worker, total;
};

const ProductKernels& product_kernels(const Gemm& g, const MatrixKernels& kernels) {
  return kernels.bf16 && g.a.matrix.dtype == DType::kBF16 ? *kernels.bf16 : kernels.vectors->floats;
}

std::int64_t units_of(std::int64_t reduction, const ProductKernels& k) {
  return round_up(std::max<std::int64_t>(1, ceil_div(reduction, k.pairs ? 2 : 1)), k.group);
}

// Panels of A that a worker packs at a time.
std::int64_t panels_at_once(std::int64_t slice_units, const ProductKernels& k) {
  return std::clamp<std::int64_t>(k.packed_bytes / (slice_units * 4), k.rows, k.most_rows) / k.rows;
}

// `any_rows`: with room for products of fewer rows, as long as those have B packed ahead too.
Plan plan_of(const Gemm& g, const MatrixKernels& kernels, int workers, bool any_rows = false) {
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
  p.stream =
      !g.a.transposed && !g.b.transposed && !g.accumulate && !g.b.packed && !p.second_units &&
      (shares_order ? p.m <= k.stream_tokens : kernels.rows_apart || p.m <= kernels.vectors->stream_tokens);
  if (p.stream) {
    p.packed_tokens = shares_order;
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
    p.column_blocks = std::min<std::int64_t>(column_panels, 16 * kTasksPerWorker * workers);
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
  if (!p.ahead) place(p.worker_b, std::min(p.block, most_units) * k.columns * 4);
  if (!partial) place(p.worker_sums, p.block_rows * k.columns * 4);
  if (g.b.packed) {
    // What a packing task, or the packing of a block, reads of B.
    const std::int64_t columns = p.ahead ? kPackColumns * k.columns : k.columns,
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
  // Units [from, from + length) of this slice of a panel of B, to where a task finds them.
  void pack_block_of_b(std::int64_t column, std::int64_t width, std::int64_t from, std::int64_t length,
                       std::uint32_t* to, int worker) const {
    const std::int64_t there = std::clamp<std::int64_t>(units(count) - from, 0, length);
    if (there > 0 || length == 0) {
      const std::int64_t element = from * per_unit();
      pack_part_of_b(pack_job(g.b, column, column + width, begin + element,
                              std::min<std::int64_t>(there * per_unit(), count - element), k.columns, to),
                     worker);
    }
    if (there == length) return;
    const std::int64_t element = (from + there - units(count)) * per_unit();
    k.pack_b(pack_job(g.b2, column, column + width, element,
                      std::min<std::int64_t>((length - there) * per_unit(), g.second_reduction() - element),
                      k.columns, to + there * k.columns));
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

    const std::uint32_t* a = units_at(p.shared_a) + i0 * slice_units * k.rows;
    if (p.ahead) {
      std::uint32_t* packed = units_at(p.worker_a + mine);
      const std::int64_t block = begin / p.slice * p.row_blocks + rb;
      if (std::exchange(holds(worker), block) != block)
        pack_rows_of_a(i0 * k.rows, std::min(i1 * k.rows, p.m), packed);
      a = packed;
    }
    const std::size_t out_size = size_of(g.out.dtype);
    for (std::int64_t j = j0; j < j1; ++j) {
      const std::int64_t column = column0 + j * k.columns;
      const std::int64_t width = std::min<std::int64_t>(k.columns, p.n - column);
      auto* sums = reinterpret_cast<float*>(memory + p.worker_sums + mine);
      if (p.slices > 1)
        sums = reinterpret_cast<float*>(memory + p.sums) + (j * row_panels + i0) * k.rows * k.columns;
      for (std::int64_t u = 0; u == 0 || u < slice_units; u += p.block) {
        const std::int64_t block = std::min(p.block, slice_units - u);
        const std::uint32_t* b = units_at(p.shared_b) + (j * slice_units + u) * k.columns;
        if (!p.ahead) {
          std::uint32_t* packed = units_at(p.worker_b + mine);
          pack_block_of_b(column, width, u, block, packed, worker);
          b = packed;
        }
        bool first = first_slice && u == 0;
        if (first && g.continues) {
          load_sums(i0 * k.rows, std::min(i1 * k.rows, p.m), column, width, sums);
          first = false;
        }
        const bool last = last_slice && u + p.block >= slice_units;
        const StoreJob store{.out = static_cast<std::byte*>(g.out.data) +
                                    static_cast<std::size_t>(i0 * k.rows * g.out.stride0 + column) * out_size,
                             .out_stride = g.out.stride0,
                             .element = element_of(g.out.dtype),
                             .bias = g.bias ? g.bias.as<float>() + column : nullptr,
                             .accumulate = g.accumulate,
                             .past_caches = past_caches};
        k.tiles({.units = block,
                 .a = a + u * k.rows,
                 .a_stride = slice_units * k.rows,
                 .b = b,
                 .sums = sums,
                 .rows = std::min<std::int64_t>(i1 * k.rows, p.m) - i0 * k.rows,
                 .columns = width,
                 .first = first,
                 .store = last ? &store : nullptr,
                 .next_b = p.ahead});
      }
    }
  }
};

// Where the rows of W end that each task streams; the number of tasks. Each round of tasks, one per worker,
// takes half of what is left: few are taken, and all workers end at nearly the same time (Hummel, Schonberg
// and Flynn 1992, "Factoring").
std::int64_t cut_stream(std::int64_t rows, std::int64_t inputs, std::int64_t at_once, std::int64_t workers,
                        std::array<std::int64_t, kMostStreamTasks>& ends) {
  const std::int64_t least =
      round_up(std::max(ceil_div(kLeastStreamElements, inputs), ceil_div(rows, kMostStreamTasks)), at_once);
  std::int64_t tasks = 0;
  for (std::int64_t end = 0; end < rows;) {
    const std::int64_t share = std::max(least, round_up((rows - end) / (2 * workers), at_once));
    for (std::int64_t w = 0; w < workers && end < rows; ++w)
      ends[static_cast<std::size_t>(tasks++)] = end = std::min(rows, end + share);
  }
  return tasks;
}

void run_stream(const Gemm& g, const Plan& p, const GemmKernels& kernels, WorkerPool& pool, void* workspace) {
  struct Shared {
    StreamJob job;
    const GemmKernels& k;
    const ProductKernels& products;
    std::uint32_t* tokens;  // packed, or null
    std::array<std::int64_t, kMostStreamTasks> ends;
  };
  Shared shared{{.x = g.a.matrix.data,
                 .x_stride = g.a.matrix.stride0,
                 .w = g.b.matrix.data,
                 .w_stride = g.b.matrix.stride0,
                 .tokens = p.m,
                 .inputs = p.r,
                 .first = 0,
                 .end = p.n,
                 .element = element_of(g.a.matrix.dtype),
                 .bias = g.bias ? g.bias.as<float>() : nullptr,
                 .out = g.out.data,
                 .out_stride = g.out.stride0,
                 .out_element = element_of(g.out.dtype)},
                kernels,
                *p.kernels,
                p.packed_tokens ? static_cast<std::uint32_t*>(workspace) : nullptr,
                {}};
  if (p.packed_tokens)
    pool.run(ceil_div(p.m, shared.products.panel_tokens), [&shared](std::int64_t panel, int) {
      const ProductKernels& k = shared.products;
      const StreamJob& job = shared.job;
      const std::int64_t first = panel * k.panel_tokens, words = units_of(job.inputs, k) * k.panel_tokens;
      k.pack_tokens({.source = job.x,
                     .stride = job.x_stride,
                     .element = job.element,
                     .rows_contiguous = true,
                     .first = first,
                     .end = std::min<std::int64_t>(first + k.panel_tokens, job.tokens),
                     .begin = 0,
                     .count = job.inputs,
                     .panel_stride = words,
                     .panels = shared.tokens + panel * words});
    });
  const std::int64_t tasks =
      cut_stream(p.n, p.r, p.packed_tokens ? p.kernels->stream_rows : kStreamRows, pool.size(), shared.ends);
  pool.run(tasks, [&shared](std::int64_t task, int) {
    StreamJob job = shared.job;
    job.first = task ? shared.ends[static_cast<std::size_t>(task - 1)] : 0;
    job.end = shared.ends[static_cast<std::size_t>(task)];
    if (!shared.tokens) return shared.k.stream(job);
    const TileScope scope(shared.products);
    shared.products.stream(job, shared.tokens);
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

std::size_t workspace_bytes(const Gemm& gemm, const MatrixKernels& kernels, int workers) {
  if (gemm.a.rows() == 0 || gemm.b.rows() == 0) return 0;
  return plan_of(gemm, kernels, workers).total;
}

std::size_t workspace_bytes_of_any_rows(const Gemm& gemm, const MatrixKernels& kernels, int workers) {
  if (gemm.a.rows() == 0 || gemm.b.rows() == 0) return 0;
  std::size_t most = plan_of(gemm, kernels, workers, true).total;
  // The other ways that products of fewer rows take, at their largest.
  for (const std::int64_t rows : {kFewRows, std::int64_t{product_kernels(gemm, kernels).stream_tokens}}) {
    if (rows == 0 || gemm.a.rows() <= rows) continue;
    Gemm few = gemm;
    few.a.matrix = gemm.a.matrix.slice(0, rows);
    few.out = gemm.out.slice(0, rows);
    most = std::max(most, plan_of(few, kernels, workers).total);
  }
  return most;
}

// Every part of the workspace for itself as large as plan_of() makes it for any reduction: a slice has at
// most k.slice units, and at least half as many where there are several.
std::size_t workspace_bytes_of_any_reduction(const Gemm& gemm, const MatrixKernels& kernels, int workers) {
  if (gemm.a.rows() == 0 || gemm.b.rows() == 0) return 0;
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
    worker += std::min<std::int64_t>(slice, round_up(k.block, 16)) * k.columns * 4;
    if (units > k.slice) sums = rows * 4 * columns;
  }
  constexpr std::int64_t kLines = 64 * 3;  // each worker's parts begin on lines of the cache
  return whole_lines(shared) + whole_lines(sums) +
         whole_lines(worker + kLines) * static_cast<std::size_t>(workers);
}

void run(const Gemm& gemm, const MatrixKernels& kernels, WorkerPool& pool, void* workspace) {
  if (gemm.a.rows() == 0 || gemm.b.rows() == 0) return;
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
