// Host access to a device tensor: the tensor itself on a CPU, a staging copy elsewhere.
#pragma once

#include <functional>
#include <vector>

#include "run/machine.h"

namespace stoa::run {

// `fill` writes the host view; afterwards the tensor holds it. Contiguous tensors only. Nothing happens on a
// meta machine.
void write_tensor(Machine& machine, TensorView tensor, const std::function<void(TensorView host)>& fill);
// `read` sees the tensor's content.
void read_tensor(Machine& machine, TensorView tensor, const std::function<void(TensorView host)>& read);

}  // namespace stoa::run
