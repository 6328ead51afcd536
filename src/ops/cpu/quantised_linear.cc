// Products with matrices in the numbers of quantised files: encoding of tokens and division of work. The
// inner loops are in quantised_kernels.cc and quantised_tiles.h.
#include "ops/cpu/quantised_linear.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/fetch_ahead.h"
#include "base/rounding.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/operands.h"
#include "ops/cpu/quantised_kernels.h"
#include "ops/cpu/stream_shares.h"
#include "ops/moe.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kTaskBytes = 8 << 10;      // of weights, of the smallest task
constexpr std::int64_t kTaskElements = 16 << 10;  // of tokens that are encoded
constexpr std::int64_t kLeastTileTokens = 9;      // from where tiles are faster than vectors
constexpr std::int64_t kVectorTokens = 8;         // most that vectors take at once

// How tokens are cut, and where the parts of the workspace are.
struct TokenPlan {
  bool tiles;
  std::int64_t height, units, count;  // of a tile, of a row, of tiles
  std::size_t scales, half_sums, sums, unpacked, per_worker, total;
};

TokenPlan token_plan_of(std::int64_t tokens, const quant::MatrixShape& shape, const MatrixKernels& kernels,
                        int workers) {
  TokenPlan p{};
  p.tiles = kernels.quantised != nullptr && tokens >= kLeastTileTokens;
  p.height = kTileTokens;
  if (!p.tiles)
    for (p.height = 1; p.height < std::min(tokens, kVectorTokens);) p.height *= 2;
  p.units = shape.columns / quant::kUnitColumns;
  p.count = ceil_div(tokens, p.height);
  const std::int64_t cells = p.count * p.units * p.height;
  std::size_t at = whole_lines(cells * 2 * quant::kUnitColumns);
  const auto place = [&at](std::size_t& offset, std::int64_t bytes) {
    offset = at;
    at += whole_lines(bytes);
  };
  place(p.scales, cells * 4);
  place(p.half_sums, cells * 8);
  place(p.sums, cells * 4);
  p.unpacked = at;
  p.per_worker = p.tiles ? whole_lines(2 * p.units * kUnpackedUnit) : 0;
  p.total = at + p.per_worker * static_cast<std::size_t>(workers);
  return p;
}

TokenCodes codes_in(std::byte* memory, const TokenPlan& p) {
  return {.height = p.height,
          .units = p.units,
          .codes = reinterpret_cast<std::int8_t*>(memory),
          .scales = reinterpret_cast<float*>(memory + p.scales),
          .half_sums = reinterpret_cast<std::int32_t*>(memory + p.half_sums),
          .sums = reinterpret_cast<float*>(memory + p.sums)};
}

std::int64_t groups_of(const quant::MatrixShape& shape) {
  std::int64_t groups = 0;
  for (int p = 0; p < shape.count; ++p) groups += shape.parts[static_cast<std::size_t>(p)].groups();
  return groups;
}

// The part in which group `group` of all is, and its number there.
struct GroupPlace {
  int part = 0;
  std::int64_t group = 0, row = 0;  // row: the part's first
  const std::byte* groups = nullptr;
};
GroupPlace place_of_group(const QuantisedLinear& op, std::int64_t group) {
  GroupPlace at{0, group, 0, static_cast<const std::byte*>(op.w.data)};
  for (;; ++at.part) {
    const quant::MatrixPart& part = op.shape.parts[static_cast<std::size_t>(at.part)];
    if (at.group < part.groups()) return at;
    at.group -= part.groups();
    at.row += part.rows;
    at.groups += part.bytes(op.shape.columns);
  }
}

// Where group `group` of all begins.
const std::byte* groups_from(const QuantisedLinear& op, std::int64_t group) {
  const auto* const data = static_cast<const std::byte*>(op.w.data);
  if (group == groups_of(op.shape)) return data + op.shape.bytes();
  const GroupPlace at = place_of_group(op, group);
  const quant::MatrixPart& part = op.shape.parts[static_cast<std::size_t>(at.part)];
  return at.groups + at.group * part.layout().group_bytes(op.shape.columns);
}

struct Product {
  const QuantisedLinear& op;
  const MatrixKernels& kernels;
  const QuantisedKernels& vectors;
  const TokenPlan& plan;
  std::byte* memory;

  void encode(std::int64_t first, std::int64_t end) const {
    vectors.encode({.x = op.x.data,
                    .stride = op.x.stride0,
                    .element = element_of(op.x.dtype),
                    .tokens = op.x.shape[0],
                    .first = first,
                    .end = end,
                    .to = codes_in(memory, plan)});
  }

  // Groups [first, end) of all parts; those that follow are fetched ahead up to `stop`.
  void multiply(std::int64_t first, std::int64_t end, std::int64_t stop, int worker) const {
    const std::byte* const fetched = groups_from(op, stop);
    while (first < end) {
      const GroupPlace at = place_of_group(op, first);
      const quant::MatrixPart& part = op.shape.parts[static_cast<std::size_t>(at.part)];
      const std::int64_t count = std::min(end - first, part.groups() - at.group);
      const WeightsJob job{
          .format = weight_format(part.type),
          .groups = at.groups,
          .group_bytes = part.layout().group_bytes(op.shape.columns),
          .first = at.group,
          .end = at.group + count,
          .fetched = fetched,
          .rows = part.rows,
          .x = codes_in(memory, plan),
          .tokens = op.x.shape[0],
          .bias = op.bias ? op.bias.as<float>() + at.row : nullptr,
          .out = static_cast<std::byte*>(op.y.data) + static_cast<std::size_t>(at.row) * size_of(op.y.dtype),
          .out_stride = op.y.stride0,
          .out_element = element_of(op.y.dtype),
          .unpacked = memory + plan.unpacked + plan.per_worker * static_cast<std::size_t>(worker)};
      // Two scales for 32 columns would be four products of tiles, which vectors beat.
      const bool on_tiles = plan.tiles && part.type != quant::BlockType::kQ6_K;
      on_tiles ? kernels.quantised->products(job) : vectors.products(job);
      first += count;
    }
  }
};

}  // namespace

void run(const QuantisedLinear& op, const MatrixKernels& kernels, InstructionSet isa, WorkerPool& pool,
         void* workspace) {
  if (op.x.shape[0] == 0 || op.shape.count == 0) return;
  const TokenPlan plan = token_plan_of(op.x.shape[0], op.shape, kernels, pool.size());
  const Product product{op, kernels, STOA_KERNELS(isa, quantised_kernels), plan,
                        static_cast<std::byte*>(workspace)};
  run_pieces(pool, plan.count, std::max<std::int64_t>(1, kTaskElements / (op.shape.columns * plan.height)),
             [&](std::int64_t first, std::int64_t end) { product.encode(first, end); });
  const std::int64_t groups = groups_of(op.shape), bytes = op.shape.bytes();
  StreamShares shares(groups, 1, ceil_div(kTaskBytes * groups, bytes), pool.size());
  const auto* const weights = static_cast<const std::byte*>(op.w.data);
  if (op.x.shape[0] <= kStreamedTokens)
    pool.fetch_ahead().reads(weights, bytes,
                             [&](int worker) { return groups_from(op, shares.begin(worker)) - weights; });
  pool.run(pool.size(), [&](std::int64_t, int worker) {
    shares.work(worker, [&](std::int64_t first, std::int64_t end, std::int64_t stop) {
      product.multiply(first, end, stop, worker);
    });
  });
}

std::size_t workspace_bytes(const QuantisedLinear& op, const MatrixKernels& kernels, int workers) {
  if (op.x.shape[0] == 0) return 0;
  return token_plan_of(op.x.shape[0], op.shape, kernels, workers).total;
}

void CpuBackend::execute(const QuantisedLinear& op, Resources resources) {
  if (op.x.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  run(op, products_, isa_, pool_, resources.workspace);
}

std::size_t CpuBackend::workspace_bytes(const QuantisedLinear& op) const {
  return op.x.dtype == DType::kF64 ? 0 : cpu::workspace_bytes(op, products_, pool_.size());
}

void CpuBackend::execute(const GroupedQuantisedLinear& op, Resources resources) {
  if (op.x.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  for_each_expert(op.sorted_experts, [&](std::int64_t expert, std::int64_t begin, std::int64_t end) {
    run(op.of_expert(expert, begin, end), products_, isa_, pool_, resources.workspace);
  });
}

// What suffices for any number of rows of an expert: all of them, or the most that vectors take.
std::size_t CpuBackend::workspace_bytes(const GroupedQuantisedLinear& op) const {
  const std::int64_t rows = op.x.rows();
  if (op.x.dtype == DType::kF64 || rows == 0) return 0;
  std::size_t most = 0;
  for (const std::int64_t some : {rows, std::min(rows, kVectorTokens)})
    most = std::max(most, token_plan_of(some, op.shape, products_, pool_.size()).total);
  return most;
}

// A row of every worker.
std::size_t CpuBackend::workspace_bytes(const QuantisedRows& op) const {
  return op.y.dtype == DType::kF64
             ? 0
             : whole_lines(op.shape.columns * 4) * static_cast<std::size_t>(pool_.size());
}

void CpuBackend::execute(const QuantisedRows& op, Resources resources) {
  if (op.y.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const std::int64_t columns = op.shape.columns, rows = op.shape.rows(), step = rows_per_task(8 * columns);
  const auto* tokens = op.tokens.as<std::int32_t>();
  pool_.run(ceil_div(op.y.rows(), step), [&](std::int64_t task, int worker) {
    auto* row = reinterpret_cast<float*>(static_cast<std::byte*>(resources.workspace) +
                                         whole_lines(columns * 4) * static_cast<std::size_t>(worker));
    for (std::int64_t t = task * step; t < std::min(op.y.rows(), (task + 1) * step); ++t) {
      if (tokens[t] >= 0 && tokens[t] < rows)
        quant::unpack_row(op.shape, static_cast<const std::byte*>(op.w.data), tokens[t], row);
      else
        std::fill_n(row, columns, 0.0f);
      with_float(op.y.dtype, [&]<class T>() {
        std::transform(row, row + columns, op.y.row<T>(t), [](float x) { return static_cast<T>(x); });
      });
    }
  });
}

}  // namespace stoa::ops::cpu
