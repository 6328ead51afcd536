#include "run/importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ckpt/convert.h"
#include "infer/engine/text_losses.h"

namespace stoa::run {
namespace {

constexpr std::int64_t kWindow = 512;  // tokens that are read at once

// Runs everything on another backend, and sums squares of the inputs of linear layers by their matrix, and
// cosines of the stream in front of a layer and behind it.
class InputSquares final : public ops::ForwardOps<InputSquares> {
 public:
  struct Sum {
    std::vector<double> squares;
    std::int64_t rows = 0;
  };
  explicit InputSquares(ops::Backend& inner) : inner_(inner) {}

  std::string_view name() const override { return inner_.name(); }
  DeviceKind device_kind() const override { return inner_.device_kind(); }
  bool multiplies_stored_experts() const override { return inner_.multiplies_stored_experts(); }
  const Sum* of(const void* matrix) const {
    const auto found = sums_.find(matrix);
    return found == sums_.end() ? nullptr : &found->second;
  }

  // `norms`: the weights of every layer's first norm and of the final one, which all read the stream.
  void follow(std::vector<const void*> norms) {
    norms_ = std::move(norms);
    streams_.resize(norms_.size());
    cosines_.resize(norms_.size());
  }
  // By layer.
  std::vector<double> changes() const {
    std::vector<double> out;
    for (std::size_t layer = 0; layer + 1 < norms_.size(); ++layer)
      out.push_back(1 - cosines_[layer] / static_cast<double>(std::max<std::int64_t>(rows_, 1)));
    return out;
  }

  template <class Op>
  void apply(const Op& op, ops::Resources resources) {
    if constexpr (std::is_same_v<Op, ops::LinearForward>) add(op);
    if constexpr (std::is_same_v<Op, ops::NormForward>)
      if (!op.branch) compare(op.gamma, op.x);
    inner_.execute(op, resources);
    if constexpr (std::is_same_v<Op, ops::NormForward>)
      if (op.branch) compare(op.gamma, op.sum);
  }
  template <class Op>
  std::size_t workspace(const Op& op) const {
    return inner_.workspace_bytes(op);
  }

 private:
  void add(const ops::LinearForward& op) {
    const std::int64_t columns = op.x.shape[1];
    Sum& sum = sums_[op.w.data];
    sum.squares.resize(static_cast<std::size_t>(columns));
    sum.rows += op.x.shape[0];
    row_.resize(static_cast<std::size_t>(columns));
    for (std::int64_t r = 0; r < op.x.shape[0]; ++r) {
      ckpt::convert_elements(static_cast<const std::byte*>(op.x.byte_offset(r * op.x.stride0)), op.x.dtype,
                             reinterpret_cast<std::byte*>(row_.data()), DType::kF32, columns);
      for (std::size_t c = 0; c < row_.size(); ++c) sum.squares[c] += static_cast<double>(row_[c]) * row_[c];
    }
  }

  // Rows of the stream at a norm, which may come in pieces.
  void compare(TensorView gamma, TensorView stream) {
    const auto found = std::find(norms_.begin(), norms_.end(), gamma.data);
    if (!gamma || found == norms_.end()) return;
    const auto place = static_cast<std::size_t>(found - norms_.begin());
    if (place == 0)
      for (auto& rows : streams_) rows.clear();
    std::vector<float>& here = streams_[place];
    const auto width = static_cast<std::size_t>(stream.shape.inner()), begin = here.size(),
               count = static_cast<std::size_t>(stream.elements());
    here.resize(begin + count);
    ckpt::convert_elements(static_cast<const std::byte*>(stream.data), stream.dtype,
                           reinterpret_cast<std::byte*>(here.data() + begin), DType::kF32, stream.elements());
    if (place == 0) {
      rows_ += stream.rows();
      return;
    }
    const std::vector<float>& before = streams_[place - 1];
    for (std::size_t row = begin; row < here.size(); row += width) {
      double product = 0, a = 0, b = 0;
      for (std::size_t i = row; i < row + width; ++i) {
        const double x = before[i], y = here[i];
        product += x * y, a += x * x, b += y * y;
      }
      cosines_[place - 1] += a > 0 && b > 0 ? product / std::sqrt(a * b) : 1;
    }
  }

  ops::Backend& inner_;
  std::map<const void*, Sum> sums_;
  std::vector<float> row_;
  std::vector<const void*> norms_;
  std::vector<std::vector<float>> streams_;  // of the current pass, by norm
  std::vector<double> cosines_;              // by layer, sums over rows_ tokens
  std::int64_t rows_ = 0;
};

// The weights of the norms that read the stream in front of each layer and behind the last; empty: there are
// not as many.
std::vector<const void*> norms_of_stream(infer::LoadedChunk& chunk, std::int64_t layers) {
  std::map<std::string, const void*> found;
  const auto& specs = chunk.parameters().specs();
  for (std::size_t p = 0; p < specs.size(); ++p)
    found[specs[p].name] = chunk.parameters().get({static_cast<int>(p)}).data;
  std::vector<const void*> out;
  for (std::int64_t layer = 0; layer <= layers; ++layer) {
    const auto norm =
        found.find(layer == layers ? "final_norm.weight" : fmt::format("layers.{}.norm1.weight", layer));
    if (norm == found.end()) return {};
    out.push_back(norm->second);
  }
  return out;
}

}  // namespace

Calibration measure_importance(const std::function<infer::OpenModel(infer::MakeMachine)>& open,
                               const infer::MakeMachine& make_machine,
                               const std::function<std::vector<std::int32_t>(infer::OpenModel&)>& read_ids) {
  InputSquares* watched = nullptr;
  infer::OpenModel model = open([&] {
    infer::Machine machine = make_machine();
    require<ConfigError>(machine.device->kind() == DeviceKind::kHost,
                         "an importance matrix is measured on a CPU");
    machine.parts.push_back(std::move(machine.backend));
    auto squares = std::make_unique<InputSquares>(*machine.parts.back());
    watched = squares.get();
    machine.backend = std::move(squares);
    return machine;
  });
  const std::vector<std::int32_t> ids = read_ids(model);
  const auto rank =
      infer::load_for_losses(model, {.text_tokens = kWindow, .pass_tokens = kWindow, .tokenizer = false});
  watched->follow(norms_of_stream(rank->chunk(), model.model().config.num_layers));
  const auto window = static_cast<std::size_t>(infer::longest_text(rank->limits()));
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += window)
    infer::text_losses(*rank, std::span(ids).subspan(begin, std::min(window + 1, ids.size() - begin)));
  Calibration out;
  out.layers = watched->changes();
  const auto& specs = rank->chunk().parameters().specs();
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const auto* sum = watched->of(rank->chunk().parameters().get({static_cast<int>(p)}).data);
    if (!sum || sum->rows == 0) continue;
    std::vector<float> mean;
    for (const double square : sum->squares)
      mean.push_back(static_cast<float>(square / static_cast<double>(sum->rows)));
    for (const ShardPiece& piece : specs[p].shard.pieces) out.matrices[piece.name] = mean;
  }
  return out;
}

}  // namespace stoa::run
