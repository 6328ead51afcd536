// What every communicator asks of its arguments. ShapeError or CommError names the group and the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor_view.h"

namespace stoa::comm {

// The calling member: for messages, and for its part of the tensors.
struct Caller {
  const std::string& label;
  int size;
  int member;
  DeviceKind memory = DeviceKind::kHost;  // that is moved besides the host's
};

void check_view(const Caller& caller, const TensorView& view, const char* operation);
void check_peer(const Caller& caller, int peer, const char* operation);
void check_all_gather(const Caller& caller, const TensorView& in, const TensorView& out);
void check_reduce_scatter(const Caller& caller, const TensorView& in, const TensorView& out);
void check_all_to_all(const Caller& caller, const TensorView& in, const TensorView& out);
void check_all_to_all_v(const Caller& caller, const TensorView& in, std::span<const std::int64_t> send_rows,
                        const TensorView& out, std::span<const std::int64_t> receive_rows);
void check_broadcast(const Caller& caller, const TensorView& data, int root);

// Rows before each peer's.
std::vector<std::int64_t> offsets_of(std::span<const std::int64_t> rows);

inline std::byte* byte_at(const TensorView& view, std::int64_t element) {
  return static_cast<std::byte*>(view.byte_offset(element));
}

}  // namespace stoa::comm
