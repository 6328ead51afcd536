#include "nn/picked_tokens.h"

#include "ops/elementwise.h"

namespace stoa::nn {

Linear whole_linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, double deviation,
                    parallel::TensorPlace place, bool bias) {
  place.sequence = false;
  return Linear({.name = name,
                 .inputs = inputs,
                 .pieces = {{name, outputs, {}}},
                 .bias = bias,
                 .deviation = deviation,
                 .split = LinearSplit::kWhole,
                 .place = place,
                 .columns = {}});
}

TensorView all_rows(Pass& pass, const parallel::TensorPlace& place, TensorView x, DType type) {
  TensorView own = x;
  if (x.dtype != type) {
    own = pass.ops.scratch.allocate(type, x.shape);
    ops::run(pass.ops, ops::Cast{.x = x, .y = own});
  }
  return gather_rows(pass, place, own).wait();
}

TensorView pick_rows(Pass& pass, const parallel::TensorPlace& place, TensorView x, TensorView index,
                     DType type) {
  Scratch& scratch = pass.ops.scratch;
  const Shape shape{index.rows(), x.shape.inner()};
  const TensorView picked = scratch.allocate(type, shape);
  Scratch::Frame frame(scratch);
  const TensorView all = gather_rows(pass, place, x).wait();
  const TensorView chosen = x.dtype == type ? picked : scratch.allocate(x.dtype, shape);
  ops::run(pass.ops, ops::CopyRows{.x = all, .index = index, .y = chosen});
  if (chosen.data != picked.data) ops::run(pass.ops, ops::Cast{.x = chosen, .y = picked});
  return picked;
}

TensorView pick_rows(Pass& pass, const parallel::TensorPlace& place, TensorView x,
                     std::span<const std::int32_t> rows, DType type) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const TensorView picked = pass.ops.scratch.allocate(type, {count, x.shape.inner()});
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView all = gather_rows(pass, place, x).wait();
  // Neighbours go together.
  for (std::int64_t i = 0, run = 0; i < count; i += run) {
    const std::int32_t first = rows[static_cast<std::size_t>(i)];
    for (run = 1; i + run < count && rows[static_cast<std::size_t>(i + run)] == first + run;) ++run;
    ops::run(pass.ops, ops::Cast{.x = all.slice(first, run), .y = picked.slice(i, run)});
  }
  return picked;
}

void scatter_rows(Pass& pass, const parallel::TensorPlace& place, TensorView gradients, TensorView x) {
  const TensorView places = pass.batch.masked.places;
  const std::int64_t first = place.first_row(places.rows());
  ops::run(pass.ops, ops::CopyRows{.x = gradients, .index = places.slice(first, x.rows()), .y = x});
}

}  // namespace stoa::nn
