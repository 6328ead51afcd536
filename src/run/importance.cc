#include "run/importance.h"

#include <algorithm>

#include "ckpt/convert.h"

namespace stoa::run {
namespace {

// Runs everything on another backend, and sums squares of the inputs of linear layers by their matrix.
class InputSquares final : public ops::ForwardOps<InputSquares, ops::Backend, ops::AllOps> {
 public:
  struct Sum {
    std::vector<double> squares;
    std::int64_t rows = 0;
  };
  explicit InputSquares(ops::Backend& inner) : inner_(inner) {}

  std::string_view name() const override { return inner_.name(); }
  DeviceKind device_kind() const override { return inner_.device_kind(); }
  const Sum* of(const void* matrix) const {
    const auto found = sums_.find(matrix);
    return found == sums_.end() ? nullptr : &found->second;
  }

  template <class Op>
  void apply(const Op& op, ops::Resources resources) {
    if constexpr (std::is_same_v<Op, ops::LinearForward>) add(op);
    inner_.execute(op, resources);
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

  ops::Backend& inner_;
  std::map<const void*, Sum> sums_;
  std::vector<float> row_;
};

}  // namespace

Importance measure_importance(const std::function<infer::OpenModel(infer::MakeMachine)>& open,
                              const infer::MakeMachine& make_machine,
                              const std::function<std::vector<std::int32_t>(infer::OpenModel&)>& read_ids) {
  const InputSquares* watched = nullptr;
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
  const auto rank = infer::load_decoder(model, {.cache = false, .context = {}, .tokenizer = false});
  const auto window = static_cast<std::size_t>(rank->pass_tokens());
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += window)
    rank->text_losses(std::span(ids).subspan(begin, std::min(window + 1, ids.size() - begin)));
  Importance out;
  const auto& specs = rank->chunk().parameters().specs();
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const auto* sum = watched->of(rank->chunk().parameters().get({static_cast<int>(p)}).data);
    if (!sum || sum->rows == 0) continue;
    std::vector<float> mean;
    for (const double square : sum->squares)
      mean.push_back(static_cast<float>(square / static_cast<double>(sum->rows)));
    for (const ShardPiece& piece : specs[p].shard.pieces) out[piece.name] = mean;
  }
  return out;
}

}  // namespace stoa::run
