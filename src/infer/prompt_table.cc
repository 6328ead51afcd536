#include "infer/prompt_table.h"

#include <algorithm>

#include "device/host/host_device.h"
#include "nn/prompt_encoder.h"
#include "ops/reference/reference_backend.h"

namespace stoa::infer {

namespace {

class EncoderTensors final : public nn::ParamAccess {
 public:
  EncoderTensors(const nn::ParamList& params, const std::function<TensorView(const std::string&)>& source) {
    for (const nn::ParamSpec& spec : params.specs()) {
      const TensorView from = source(spec.name);
      views_.emplace_back(from.data, from.dtype, spec.shard.local);
    }
  }
  TensorView get(nn::ParamId id) override { return views_[static_cast<std::size_t>(id.index)]; }
  DType type() const { return views_.front().dtype; }

 private:
  std::vector<TensorView> views_;
};

}  // namespace

TensorView PromptTable::view(const model::ModelSpec& spec,
                             const std::function<TensorView(const std::string&)>& source) {
  const nn::PromptOptions options = *spec.adapters->prompt();
  nn::ParamList params;
  params.begin_unit(false);
  nn::PromptEncoder encoder(options, spec.config.hidden_size, {});
  encoder.declare(params);
  EncoderTensors tensors(params, source);

  HostDevice device;
  ops::ReferenceBackend backend;
  const auto stream = device.create_stream();
  const parallel::ParallelContext alone = parallel::ParallelContext::single(device);
  // A row has a few values of every layer and of every gate, and what they are put together from.
  const std::int64_t widest = std::max({options.inputs, 4 * options.width, spec.config.hidden_size});
  std::vector<std::byte> memory(
      static_cast<std::size_t>((options.tokens + 8) * widest * 8 * (2 * options.layers + 4) + (1 << 16)) *
      size_of(tensors.type()));
  Scratch scratch(TensorView(memory.data(), DType::kU8, {static_cast<std::int64_t>(memory.size())}));
  ops::OpContext ops{backend, *stream, scratch, nullptr};
  const nn::BatchView none;
  nn::Pass pass{.ops = ops, .parallel = alone, .params = tensors, .batch = none};
  const TensorView table = encoder.embeddings(pass);
  const auto* const from = static_cast<const std::byte*>(table.data);
  bytes_.assign(from, from + table.bytes());
  return TensorView(bytes_.data(), table.dtype, table.shape);
}

}  // namespace stoa::infer
