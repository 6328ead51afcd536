#include "optim/muon.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/all.h"

namespace stoa::optim {
namespace {

struct Coefficients {
  double a, b, c;
};

// Jordan et al. 2024: one polynomial for every step. "quintic": a different one for each of five steps,
// fitted jointly, as in modded-nanogpt and in Megatron.
Coefficients coefficients_of(MuonCoefficients kind, std::int64_t step) {
  constexpr Coefficients kSimple{3.4445, -4.7750, 2.0315};
  constexpr std::array<Coefficients, 5> kQuintic{{{4.0848, -6.8946, 2.9270},
                                                  {3.9505, -6.3029, 2.6377},
                                                  {3.7418, -5.5913, 2.3037},
                                                  {2.8769, -3.1427, 1.2046},
                                                  {2.8366, -3.0525, 1.2012}}};
  if (kind == MuonCoefficients::kSimple) return kSimple;
  return kQuintic[static_cast<std::size_t>(step) % kQuintic.size()];
}

TensorView held_part(TensorView local, FlatRange held) {
  return local.reshape({local.elements()}).slice(held.begin, held.end - held.begin);
}

void copy_rows(ops::OpContext& ops, TensorView from, TensorView to) {
  ops::run(ops, ops::CopyRows{.x = from, .index = {}, .y = to});
}

}  // namespace

bool takes_muon(const OptimConfig& config, std::string_view canonical_name, const Shape& global) {
  return config.name == OptimizerKind::kMuon && global.rank() == 2 &&
         canonical_name.find("layers.") != std::string_view::npos;
}

Muon::Muon(ParameterStore& parameters, GradientStore& gradients, const OptimConfig& config)
    : parameters_(parameters), gradients_(gradients), config_(config) {
  for (std::size_t p = 0; p < parameters.specs().size(); ++p) {
    const ShardPiece& piece = parameters.specs()[p].shard.pieces.front();
    if (parameters.specs()[p].trained && takes_muon(config, piece.name, piece.global))
      ids_.push_back({static_cast<int>(p)});
  }
}

bool Muon::updates(nn::ParamId id) const {
  return std::any_of(ids_.begin(), ids_.end(), [&](nn::ParamId own) { return own.index == id.index; });
}

// Liu et al. 2025, section 2.2, and Bernstein's spectral norm; Megatron's muon_scale_mode.
double Muon::scale(const Shape& matrix) const {
  const double rows = static_cast<double>(matrix[0]), columns = static_cast<double>(matrix[1]);
  switch (config_.muon_scale_mode) {
    case MuonScale::kSpectral:
      return config_.muon_extra_scale_factor * std::sqrt(std::max(rows, columns));
    case MuonScale::kUnitRmsNorm:
      return config_.muon_extra_scale_factor * std::sqrt(rows / columns);
    case MuonScale::kShapeScaling:
      return config_.muon_extra_scale_factor * std::sqrt(std::max(1.0, rows / columns));
  }
  fail<InternalError>("unknown scale");
}

// Assembles the whole canonical matrix on every rank that holds a part of it.
void Muon::gather(ops::OpContext& ops, const nn::ParamSpec& spec, const ShardPiece& piece, TensorView local,
                  TensorView whole) const {
  const bool all = piece.count == piece.global[0] && piece.column_count == piece.global[1];
  if (!all) ops::run(ops, ops::FillZero{whole});
  // Exactly one of the ranks that hold copies of these rows contributes them; the sum is then exact.
  if (all || piece.first_copy)
    copy_rows(ops, local.slice(piece.memory_row, piece.count),
              whole.slice(piece.begin, piece.count).columns(piece.column_begin, piece.column_count));
  if (all) return;
  const auto group =
      spec.copies == parallel::Group::kExpertData ? parallel::Group::kExpertTensor : parallel::Group::kTensor;
  parameters_.data_parallel()
      ->parallel.along(group)
      .all_reduce(whole, comm::ReduceOp::kSum, ops.stream)
      ->wait();
}

void Muon::update(ops::OpContext& ops, nn::ParamId id, TensorView momentum, TensorView state) const {
  const nn::ParamSpec& spec = parameters_.specs()[static_cast<std::size_t>(id.index)];
  const DataParallel& parallel = *parameters_.data_parallel();
  comm::Communicator& copies = parallel.parallel.along(spec.copies);
  const FlatRange held = parameters_.held_range(id);
  Scratch::Frame frame(ops.scratch);
  const TensorView gradient = gradients_.gradient(id);
  const TensorView local = ops.scratch.allocate(gradient.dtype, spec.shard.local);
  if (parameters_.sharded()) ops::run(ops, ops::FillZero{local});
  const TensorView own = parameters_.sharded() ? held_part(local, held) : local;
  if (held.begin < held.end)
    ops::run(ops, ops::MuonMomentum{.gradient = gradient,
                                    .momentum = momentum,
                                    .direction = own,
                                    .state = state,
                                    .factor = config_.muon_momentum,
                                    .nesterov = config_.muon_use_nesterov});
  if (parameters_.sharded() && copies.size() > 1)
    copies.all_reduce(local, comm::ReduceOp::kSum, ops.stream)->wait();
  const auto& pieces = spec.shard.pieces;
  const auto members = static_cast<std::size_t>(copies.size()),
             self = static_cast<std::size_t>(copies.rank());
  for (std::size_t first = 0; first < pieces.size(); first += members) {
    Scratch::Frame round(ops.scratch);
    std::vector<TensorView> wholes;
    std::vector<std::unique_ptr<Event>> told;
    const std::size_t end = std::min(first + members, pieces.size());
    for (std::size_t i = first; i < end; ++i) {
      wholes.push_back(ops.scratch.allocate(gradient.dtype, pieces[i].global));
      gather(ops, spec, pieces[i], local, wholes.back());
    }
    if (first + self < end)
      orthogonalize(ops, wholes[self], config_.muon_coefficient_type, config_.muon_num_ns_steps,
                    scale(pieces[first + self].global));
    for (std::size_t i = first; i < end; ++i)
      told.push_back(copies.broadcast(wholes[i - first], static_cast<int>(i - first), ops.stream));
    for (auto& event : told) event->wait();
    for (std::size_t i = first; i < end; ++i) {
      const ShardPiece& piece = pieces[i];
      copy_rows(
          ops,
          wholes[i - first].slice(piece.begin, piece.count).columns(piece.column_begin, piece.column_count),
          local.slice(piece.memory_row, piece.count));
    }
  }
  if (held.begin < held.end)
    ops::run(ops, ops::MuonUpdate{.master = parameters_.master(id),
                                  .compute = parameters_.held_value(id),
                                  .direction = own,
                                  .state = state,
                                  .scale = 1,
                                  .decay_factor = spec.decay ? 1.0 : 0.0});
}

void orthogonalize(ops::OpContext& ops, TensorView x, MuonCoefficients kind, std::int64_t steps,
                   double scale) {
  const std::int64_t rows = x.shape[0], columns = x.shape[1], least = std::min(rows, columns);
  Scratch::Frame frame(ops.scratch);
  const TensorView product = ops.scratch.allocate(x.dtype, {least, least}),
                   polynomial = ops.scratch.allocate(x.dtype, {least, least}),
                   next = ops.scratch.allocate(x.dtype, x.shape);
  ops::run(ops, ops::UnitNorm{.x = x, .y = x});
  const bool wide = rows <= columns;  // the smaller of x x' and x' x is taken; both are symmetric
  for (std::int64_t step = 0; step < steps; ++step) {
    const Coefficients k = coefficients_of(kind, step);
    const double factor = step + 1 == steps ? scale : 1;
    if (wide)
      ops::run(ops, ops::LinearForward{.x = x, .w = x, .bias = {}, .y = product});
    else
      ops::run(ops,
               ops::LinearBackwardWeight{.x = x, .dy = x, .dw = product, .dbias = {}, .accumulate = false});
    ops::run(ops, ops::LinearForward{.x = product, .w = product, .bias = {}, .y = polynomial});
    ops::run(ops, ops::Combine{.a = k.b, .b = k.c, .x = product, .y = polynomial});
    if (wide)
      ops::run(ops, ops::LinearBackwardInput{.dy = polynomial, .w = x, .dx = next});
    else
      ops::run(ops, ops::LinearForward{.x = x, .w = polynomial, .bias = {}, .y = next});
    ops::run(ops, ops::Combine{.a = factor, .b = factor * k.a, .x = next, .y = x});
  }
}

}  // namespace stoa::optim
