#include "infer/host_window.h"

namespace stoa::infer {

void write_tensor(Machine& machine, TensorView tensor, const std::function<void(TensorView)>& fill) {
  require<InternalError>(tensor.contiguous(), "{} is not contiguous", tensor.text());
  switch (machine.device->kind()) {
    case DeviceKind::kHost:
      return fill(tensor);
    case DeviceKind::kMeta:
      return;
    case DeviceKind::kCuda: {
      std::vector<std::byte> staging(tensor.bytes());
      fill(TensorView(staging.data(), tensor.dtype, tensor.shape));
      machine.device->copy_from_host(tensor.data, staging.data(), staging.size(), *machine.stream);
      machine.stream->synchronize();
    }
  }
}

void read_tensor(Machine& machine, TensorView tensor, const std::function<void(TensorView)>& read) {
  require<InternalError>(tensor.contiguous(), "{} is not contiguous", tensor.text());
  if (machine.device->kind() == DeviceKind::kHost) return read(tensor);
  std::vector<std::byte> staging(tensor.bytes());
  machine.device->copy_to_host(staging.data(), tensor.data, staging.size(), *machine.stream);
  machine.stream->synchronize();
  read(TensorView(staging.data(), tensor.dtype, tensor.shape));
}

TensorView stage(Machine& machine, TensorView tensor, std::span<const std::int32_t> values) {
  const TensorView to = tensor.slice(0, std::ssize(values));
  machine.device->copy_from_host(to.data, values.data(), values.size_bytes(), *machine.stream);
  return to;
}

void read_floats(Machine& machine, TensorView rows, std::int64_t columns, std::span<float> values) {
  require<InternalError>(static_cast<std::int64_t>(values.size()) == rows.rows() * columns,
                         "{} values for {} rows of {}", values.size(), rows.rows(), columns);
  read_tensor(machine, rows, [&](TensorView host) {
    dispatch_float(host.dtype, [&]<class T>() {
      float* to = values.data();
      for (std::int64_t r = 0; r < host.rows(); ++r, to += columns) {
        const T* from = host.row<T>(r);
        for (std::int64_t i = 0; i < columns; ++i) to[i] = static_cast<float>(from[i]);
      }
    });
  });
}

}  // namespace stoa::infer
