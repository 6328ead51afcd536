#include "nn/grouped_gradient.h"

#include "ops/elementwise.h"
#include "ops/moe.h"

namespace stoa::nn {

TensorView carry_of(Pass& pass, const Param& matrices, std::int64_t outputs) {
  if (!matrices.trained()) return {};
  const TensorView gradient = pass.grads->target(matrices.grad).tensor;
  return pass.ops.scratch.allocate(gradient.dtype, {outputs, gradient.shape[1]});
}

void add_gradient_part(Pass& pass, const Param& matrices, const GroupedRows& rows, const GradientPart& part,
                       TensorView carry) {
  if (!matrices.trained()) return;
  const GradTarget target = pass.grads->target(matrices.grad);
  const std::int64_t outputs = rows.dy.shape[1];
  if (part.begins && !target.accumulate) ops::run(pass.ops, ops::FillZero{target.tensor});
  const auto of_rows = [&](std::int64_t first, std::int64_t count) {
    return ops::GroupedLinearBackwardWeight{.x = rows.x.slice(first, count),
                                            .dy = rows.dy.slice(first, count),
                                            .sorted_experts = rows.sorted.slice(first, count),
                                            .dw = target.tensor};
  };
  const auto run_part_of = [&](std::int64_t expert, std::int64_t first, std::int64_t count, bool continues) {
    ops::GroupedLinearBackwardWeight op = of_rows(first, count);
    op.dw = carry;
    op.accumulate = continues;
    op.part_of = expert;
    ops::run(pass.ops, op);
  };
  const RowCut& cut = part.cut;
  if (cut.head > 0) {
    run_part_of(cut.head_expert, 0, cut.head, true);
    if (cut.head_ends)
      ops::run(pass.ops,
               ops::AddTo{.x = carry, .y = target.tensor.slice(cut.head_expert * outputs, outputs)});
  }
  // Without memory fewer rows come than may: workspaces are for all.
  const std::int64_t came = rows.x.device == DeviceKind::kMeta ? rows.x.rows() : part.rows,
                     whole = came - cut.head - cut.tail;
  if (whole > 0) ops::run(pass.ops, of_rows(cut.head, whole));
  if (cut.tail > 0) run_part_of(cut.tail_expert, cut.head + whole, cut.tail, false);
}

void notify_gradient(Pass& pass, const Param& matrices) {
  if (matrices.trained()) pass.grads->notify(matrices.grad);
}

}  // namespace stoa::nn
