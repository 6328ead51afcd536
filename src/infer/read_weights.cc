#include "infer/read_weights.h"

#include <map>
#include <vector>

namespace stoa::infer {

namespace {

template <class Files>
void read_files(Machine& machine, const Files& files, const HeldParameters& rank,
                const std::function<TensorView(nn::ParamId)>& memory) {
  std::map<int, std::vector<std::byte>> staging;
  const bool on_host = machine.device->kind() == DeviceKind::kHost;
  files.read(
      rank,
      [&](nn::ParamId id) {
        const TensorView tensor = memory(id);
        if (on_host) return tensor;
        auto& bytes = staging[id.index];
        bytes.resize(tensor.bytes());
        return TensorView(bytes.data(), tensor.dtype, tensor.shape);
      },
      [&](nn::ParamId id) {
        if (on_host) return;
        const auto bytes = staging.extract(id.index);
        machine.device->copy_from_host(memory(id).data, bytes.mapped().data(), bytes.mapped().size(),
                                       *machine.stream);
        machine.stream->synchronize();
      });
}

}  // namespace

void read_weights(Machine& machine, const ModelFiles& files, const HeldParameters& rank,
                  const std::function<TensorView(nn::ParamId)>& memory) {
  read_files(machine, files, rank, memory);
}

void read_weights(Machine& machine, const AdapterFiles& files, const HeldParameters& rank,
                  const std::function<TensorView(nn::ParamId)>& memory) {
  read_files(machine, files, rank, memory);
}

}  // namespace stoa::infer
