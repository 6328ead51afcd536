#include "ops/cuda/kernels/muon.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/optimizer.h"
#include "ops/cuda/operands.h"
#include "ops/cuda/rounding.h"

namespace stoa::ops::cuda {
namespace {

std::int64_t square_blocks(const UnitNorm& op) { return ceil_div(op.x.elements(), kSquaresBlock); }

}  // namespace

void CudaBackend::execute(const MuonMomentum& op, Resources resources) {
  fast_element_of(MuonMomentum::kName, op.gradient);
  MuonMomentumArgs args;
  args.gradient = op.gradient.as<float>(), args.momentum = op.momentum.as<float>();
  args.direction = op.direction.as<float>();
  args.count = op.gradient.elements();
  args.state = op.state.as<double>();
  args.factor = op.factor, args.nesterov = op.nesterov;
  args.wide = all_aligned({args.gradient, args.momentum, args.direction});
  launch_muon_momentum(args, native_stream(resources.stream));
}

// Sums of blocks, and their sum.
std::size_t CudaBackend::workspace_bytes(const UnitNorm& op) const {
  return static_cast<std::size_t>(square_blocks(op) + 1) * sizeof(double);
}

void CudaBackend::execute(const UnitNorm& op, Resources resources) {
  fast_element_of(UnitNorm::kName, op.x);
  void* stream = native_stream(resources.stream);
  const std::int64_t blocks = square_blocks(op);
  auto* sums = static_cast<double*>(resources.workspace);
  launch_fill_zero(sums, workspace_bytes(op), stream);
  SumSquaresArgs squares;
  squares.x = op.x.as<float>();
  squares.count = op.x.elements();
  squares.blocks = blocks;
  squares.sums = sums;
  squares.wide = is_aligned(squares.x);
  launch_sum_squares(squares, stream);
  launch_add_squares({sums, blocks, sums + blocks}, stream);
  launch_unit_scale({op.x.as<float>(), op.y.as<float>(), squares.count, sums + blocks, UnitNorm::kLeast,
                     all_aligned({op.x.data, op.y.data})},
                    stream);
}

void CudaBackend::execute(const MuonUpdate& op, Resources resources) {
  fast_element_of(MuonUpdate::kName, op.master);
  MuonUpdateArgs args;
  args.master = op.master.as<float>(), args.direction = op.direction.as<float>();
  args.compute = op.compute.data;
  if (op.compute) args.compute_type = fast_element_of(MuonUpdate::kName, op.compute);
  args.count = op.master.elements();
  args.state = op.state.as<double>();
  args.scale = op.scale, args.decay_factor = op.decay_factor;
  args.wide = all_aligned({args.master, args.direction, args.compute});
  launch_muon_update(args, native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
