#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/loss.h"
#include "ops/cuda/kernels/optimizer.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {
namespace {

static_assert(kSquaresBlock == SumSquares::kBlock);

template <class Op>
CrossEntropyArgs loss_of(const Op& op, const TensorView& logits) {
  CrossEntropyArgs args;
  args.labels = op.labels.template as<std::int32_t>();
  if (!logits) return args;
  args.type = fast_element_of(Op::kName, logits);
  args.logits = logits.data;
  args.rows = logits.shape[0], args.width = logits.shape[1];
  args.wide = is_aligned(args.logits) && args.width % 8 == 0;
  return args;
}

template <class Op>
UpdateArgs update_of(const Op& op) {
  fast_element_of(Op::kName, op.master);
  UpdateArgs args;
  args.master = op.master.template as<float>();
  args.gradient = op.gradient.template as<float>();
  args.compute = op.compute.data;
  if (op.compute) args.compute_type = fast_element_of(Op::kName, op.compute);
  args.count = op.master.elements();
  args.state = op.state.template as<double>();
  args.rate_factor = op.rate_factor;
  args.decay_factor = op.decay_factor;
  args.wide = all_aligned({args.master, args.gradient, args.compute});
  return args;
}

}  // namespace

void CudaBackend::execute(const CrossEntropy& op, Resources resources) {
  CrossEntropyArgs args = loss_of(op, op.logits);
  args.columns = args.vocabulary = op.vocabulary;
  args.mask = op.loss_mask.as<float>();
  args.seed = op.gradient ? slot(op.state, StepSlot::kLossSeed) : nullptr;
  args.losses = op.losses.as<float>();
  args.smoothing = static_cast<float>(op.smoothing), args.z_weight = static_cast<float>(op.z_weight);
  launch_cross_entropy(args, native_stream(resources.stream));
}

void CudaBackend::execute(const CrossEntropyPart& op, Resources resources) {
  CrossEntropyArgs args = loss_of(op, op.logits);
  args.first_column = op.first_column, args.columns = op.columns;
  args.part = op.part.as<float>();
  launch_cross_entropy_part(args, native_stream(resources.stream));
}

void CudaBackend::execute(const CrossEntropyMerge& op, Resources resources) {
  CrossEntropyArgs args = loss_of(op, op.logits);
  args.rows = op.parts.shape[1];
  args.first_column = op.first_column, args.columns = op.columns, args.vocabulary = op.vocabulary;
  args.mask = op.loss_mask.as<float>();
  args.seed = op.logits ? slot(op.state, StepSlot::kLossSeed) : nullptr;
  args.losses = op.losses.as<float>();
  args.smoothing = static_cast<float>(op.smoothing), args.z_weight = static_cast<float>(op.z_weight);
  args.parts = op.parts.as<float>();
  args.ranks = op.parts.shape[0];
  launch_cross_entropy_merge(args, native_stream(resources.stream));
}

void CudaBackend::execute(const SumLosses& op, Resources resources) {
  fast_element_of(SumLosses::kName, op.losses);
  SumLossesArgs args;
  args.losses = op.losses.as<float>();
  args.mask = op.loss_mask.as<float>();
  args.count = op.losses.elements();
  args.sum = slot(op.state, StepSlot::kLossSum);
  launch_sum_losses(args, native_stream(resources.stream));
}

void CudaBackend::execute(const BeginStep& op, Resources resources) {
  launch_begin_step({op.state.as<double>(), op.tokens}, native_stream(resources.stream));
}

void CudaBackend::execute(const SumSquares& op, Resources resources) {
  fast_element_of(SumSquares::kName, op.x);
  if (op.x.elements() == 0) return;
  SumSquaresArgs args;
  args.x = op.x.as<float>();
  args.count = op.x.elements();
  args.blocks = op.blocks(), args.first_block = op.first_block();
  args.origin = op.cut.origin, args.skip = op.cut.skip, args.width = op.cut.width, args.pitch = op.cut.pitch;
  args.sums = op.sums.as<double>();
  args.wide = is_aligned(args.x);
  launch_sum_squares(args, native_stream(resources.stream));
}

void CudaBackend::execute(const AddSquares& op, Resources resources) {
  launch_add_squares({op.sums.as<double>(), op.sums.elements(), slot(op.state, StepSlot::kSquares)},
                     native_stream(resources.stream));
}

void CudaBackend::execute(const PrepareUpdate& op, Resources resources) {
  PrepareArgs args;
  args.state = op.state.as<double>();
  args.max_norm = op.max_norm, args.samples = op.samples;
  const RateSchedule& r = op.rate;
  args.rate = {static_cast<RateDecayCode>(r.decay),
               static_cast<StableDecayCode>(r.stable_decay),
               r.initial,
               r.peak,
               r.minimum,
               r.warmup_samples,
               r.decay_samples,
               r.stable_decay_samples};
  const WeightDecaySchedule& w = op.weight_decay;
  args.weight_decay = {static_cast<RampCode>(w.ramp), w.start, w.end, w.samples};
  const LossScale& l = op.loss_scale;
  args.loss_scale = {l.dynamic, l.minimum, l.growth, l.backoff, l.window, l.hysteresis};
  launch_prepare_update(args, native_stream(resources.stream));
}

void CudaBackend::execute(const AdamUpdate& op, Resources resources) {
  UpdateArgs args = update_of(op);
  args.m = op.m.as<float>(), args.v = op.v.as<float>();
  args.beta1 = op.beta1, args.beta2 = op.beta2, args.epsilon = op.epsilon;
  args.decoupled = op.decoupled;
  args.wide = args.wide && all_aligned({args.m, args.v});
  launch_adam(args, native_stream(resources.stream));
}

void CudaBackend::execute(const SgdUpdate& op, Resources resources) {
  UpdateArgs args = update_of(op);
  args.m = op.momentum ? op.momentum.as<float>() : nullptr;
  args.momentum = op.momentum_factor;
  args.wide = args.wide && is_aligned(args.m);
  launch_sgd(args, native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
