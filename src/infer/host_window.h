// Host access to a device tensor: the tensor itself on a CPU, a staging copy elsewhere.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "infer/machine.h"

namespace stoa::infer {

// `fill` writes the host view; afterwards the tensor holds it. Contiguous tensors only. Nothing happens on a
// meta machine.
void write_tensor(Machine& machine, TensorView tensor, const std::function<void(TensorView host)>& fill);
// `read` sees the tensor's content.
void read_tensor(Machine& machine, TensorView tensor, const std::function<void(TensorView host)>& read);
// Copies values to the start of a tensor; returns a view of them. Complete when the stream is synchronized.
TensorView stage(Machine& machine, TensorView tensor, std::span<const std::int32_t> values);
// The first `columns` of every row; `values` has room for exactly those.
void read_floats(Machine& machine, TensorView rows, std::int64_t columns, std::span<float> values);

}  // namespace stoa::infer
