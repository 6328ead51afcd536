#include "run/step_dump.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "ckpt/convert.h"
#include "ckpt/shard_io.h"
#include "infer/host_window.h"

namespace stoa::run {

using ckpt::DumpPhase;

StepDump::StepDump(ckpt::DumpWriter& writer, infer::Machine& machine,
                   const parallel::ParallelContext& parallel, Step step)
    : writer_(writer), machine_(machine), parallel_(parallel), step_(std::move(step)) {}

bool StepDump::wanted(const std::string& name) const {
  return step_.only.empty() || std::any_of(step_.only.begin(), step_.only.end(), [&](const auto& pattern) {
           return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
         });
}

std::int64_t StepDump::layer_of(std::string_view name) const {
  constexpr std::string_view kLayers = "layers.";
  if (name.starts_with("embedding.") || name.starts_with("batch.")) return -1;
  std::int64_t layer = step_.layers;
  if (name.starts_with(kLayers))
    std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
  return layer;
}

std::vector<std::byte> StepDump::copy(TensorView view) {
  std::vector<std::byte> out(view.bytes());
  std::byte* to = out.data();
  if (view.device == DeviceKind::kHost && view.contiguous()) {
    std::memcpy(to, view.data, view.bytes());
    return out;
  }
  const auto take = [&](TensorView part) {
    infer::read_tensor(machine_, part, [&](TensorView host) { std::memcpy(to, host.data, host.bytes()); });
    to += part.bytes();
  };
  if (view.contiguous())
    take(view);
  else
    for (std::int64_t row = 0; row < view.rows(); ++row) take(view.slice(row, 1));
  return out;
}

void StepDump::begin(optim::ParameterStore& parameters, double loss_scale) {
  loss_scale_ = loss_scale;
  for (std::size_t p = 0; p < parameters.specs().size(); ++p) {
    if (parameters.specs()[p].holds_bytes()) continue;
    const nn::ParamId id{static_cast<int>(p)};
    add_held(DumpPhase::kWeights, parameters, id, parameters.master(id), 1);
  }
}

void StepDump::begin_pass(DumpPhase phase, int microbatch, const nn::BatchView& batch, bool show_batch) {
  phase_ = phase;
  microbatch_ = microbatch;
  batch_ = &batch;
  if (!show_batch) return;
  add(phase, "batch.tokens", batch.tokens);
  add(phase, "batch.positions", batch.positions);
  add(phase, "batch.labels", batch.labels);
  add(phase, "batch.loss_mask", batch.loss_mask);
}

void StepDump::gradients(const optim::ParameterStore& parameters, optim::GradientStore& gradients) {
  for (std::size_t p = 0; p < parameters.specs().size(); ++p) {
    const nn::ParamId id{static_cast<int>(p)};
    add_held(DumpPhase::kGradients, parameters, id, gradients.gradient(id), loss_scale_);
  }
}

void StepDump::end(double loss, double rate) { writer_.end_step({step_.number, 0, loss, rate}); }

void StepDump::add_held(DumpPhase phase, const optim::ParameterStore& parameters, nn::ParamId id,
                        TensorView held, double scale) {
  if (!held || held.elements() == 0) return;
  const ShardSpec shard = parameters.held(id);
  const std::size_t size = size_of(held.dtype);
  std::vector<std::byte> flat;  // of a part, cut without regard to rows
  if (shard.flat) flat = copy(held);
  for (const ShardPiece& piece : shard.pieces) {
    if (!wanted(piece.name)) continue;
    ckpt::DumpRecord record;
    record.step = step_.number;
    record.phase = phase;
    record.layer = layer_of(piece.name);
    record.tensor = piece.name;
    record.type = ckpt::storage_type(held.dtype);
    record.scale = scale;
    for (int d = 0; d < piece.global.rank(); ++d) record.global.push_back(piece.global[d]);
    const bool matrix = record.global.size() > 1;
    const std::int64_t columns = matrix ? piece.global.inner() : 1;
    const auto put = [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t width,
                         std::vector<std::byte> bytes) {
      record.begin = {row};
      record.shape = {rows};
      if (matrix) record.begin.push_back(column), record.shape.push_back(width);
      writer_.add(record, std::move(bytes));
    };
    require<InternalError>(record.global.size() == 1 || record.global.size() == 2, "'{}' is {}", piece.name,
                           piece.global.text());
    if (!shard.flat) {
      const std::int64_t width = piece.column_count > 0 ? piece.column_count : columns;
      TensorView view = held.slice(piece.memory_row, piece.count);
      if (matrix && view.shape[1] != width) view = view.columns(0, width);
      put(piece.begin, piece.count, piece.column_begin, width, copy(view));
      continue;
    }
    ckpt::for_each_run(piece, shard.local, shard.local.inner(), shard.flat, [&](ckpt::ElementRun run) {
      while (run.count > 0) {  // whole rows, or part of one
        const std::int64_t row = run.file / columns, column = run.file % columns;
        const std::int64_t rows = column == 0 ? run.count / columns : 0;
        const std::int64_t count = rows > 0 ? rows * columns : std::min(columns - column, run.count);
        const std::byte* from = flat.data() + static_cast<std::size_t>(run.memory) * size;
        put(row, std::max<std::int64_t>(rows, 1), column, rows > 0 ? columns : count,
            std::vector<std::byte>(from, from + static_cast<std::size_t>(count) * size));
        run.file += count, run.memory += count, run.count -= count;
      }
    });
  }
}

void StepDump::add(DumpPhase phase, std::string name, TensorView view, nn::Columns columns,
                   std::int64_t first) {
  if (!view || !wanted(name)) return;
  const std::int64_t rows = view.rows();
  const std::int64_t rank = parallel_.coordinate(parallel::Axis::kTensor);
  if (first < 0) first = rows == batch_->tokens.rows() ? 0 : rank * rows;
  parallel::for_each_run(
      batch_->context, batch_->rows, batch_->length,
      [&](std::int64_t begin, std::int64_t count, std::int64_t global) {
        const std::int64_t from = std::max(begin, first), to = std::min(begin + count, first + rows);
        if (from < to)
          add_run(phase, name, view.slice(from - first, to - from), columns, global + from - begin);
      });
}

void StepDump::add_run(DumpPhase phase, const std::string& name, TensorView view, nn::Columns columns,
                       std::int64_t first) {
  const std::int64_t rows = view.rows(), channels = view.elements() / rows;
  if (columns.total == 0) columns.total = channels;
  ckpt::DumpRecord record;
  record.step = step_.number;
  record.phase = phase;
  record.microbatch = microbatch_;
  record.layer = layer_of(name);
  record.tensor = name;
  record.type = ckpt::storage_type(view.dtype);
  if (phase == DumpPhase::kBackward) record.scale = loss_scale_;
  record.global = {step_.rows * step_.length};
  record.begin = {(batch_->first_sample - step_.first_sample) * step_.length + first};
  record.shape = {rows};
  if (view.shape.rank() > 1) {
    record.global.push_back(columns.total);
    record.begin.push_back(columns.first);
    record.shape.push_back(channels);
  }
  require<InternalError>(record.begin[0] >= 0 && record.begin[0] + rows <= record.global[0],
                         "tokens [{}, {}) of '{}' are not within the {} of the step", record.begin[0],
                         record.begin[0] + rows, record.tensor, record.global[0]);
  writer_.add(std::move(record), copy(view));
}

void StepDump::forward(std::string_view layer, std::string_view tensor, TensorView view,
                       nn::Columns columns) {
  if (phase_ == DumpPhase::kForward)
    add(DumpPhase::kForward, fmt::format("{}{}", layer, tensor), view, columns);
}

void StepDump::gradient(std::string_view layer, std::string_view tensor, TensorView view,
                        nn::Columns columns) {
  add(DumpPhase::kBackward, fmt::format("{}{}", layer, tensor), view, columns);
}

void StepDump::logits(TensorView view, std::int64_t first, std::int64_t vocabulary) {
  const std::string name = "head.logits";  // their largest, log-sum-exp and root mean square, per token
  if (phase_ != DumpPhase::kForward || view.shape[1] < vocabulary || !wanted(name)) return;
  const std::int64_t rows = view.rows();
  std::vector<double> row(static_cast<std::size_t>(vocabulary));
  std::vector<float> statistics;
  for (std::int64_t i = 0; i < rows; ++i) {
    infer::read_tensor(machine_, view.slice(i, 1), [&](TensorView host) {
      ckpt::convert_elements(static_cast<const std::byte*>(host.data), host.dtype,
                             reinterpret_cast<std::byte*>(row.data()), DType::kF64, vocabulary);
    });
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0, squares = 0;
    for (const double x : row) {
      sum += std::exp(x - largest);
      squares += x * x;
    }
    for (const double x :
         {largest, largest + std::log(sum), std::sqrt(squares / static_cast<double>(vocabulary))})
      statistics.push_back(static_cast<float>(x));
  }
  add(DumpPhase::kForward, name, TensorView(statistics.data(), DType::kF32, {rows, 3}), {}, first);
}

}  // namespace stoa::run
