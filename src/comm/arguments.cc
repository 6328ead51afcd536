#include "comm/arguments.h"

#include <numeric>

#include "base/error.h"

namespace stoa::comm {
namespace {

bool overlap(const TensorView& a, const TensorView& b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.data),
             begin_b = reinterpret_cast<std::uintptr_t>(b.data);
  return begin_a < begin_b + b.bytes() && begin_b < begin_a + a.bytes();
}

}  // namespace

void check_view(const Caller& caller, const TensorView& view, const char* operation) {
  if (view.device != DeviceKind::kHost && view.device != caller.memory)
    fail<ShapeError>("{}: {} of {}: this communicator moves host memory", caller.label, operation,
                     view.text());
  if (!view.contiguous())
    fail<ShapeError>("{}: {} of {}: the rows must be contiguous, their stride is {}", caller.label, operation,
                     view.text(), view.stride0);
}

static void check_views(const Caller& caller, const TensorView& in, const TensorView& out,
                        const char* operation) {
  check_view(caller, in, operation);
  check_view(caller, out, operation);
  if (in.device != out.device)
    fail<ShapeError>("{}: {} of {} to {}: memory of one device is expected", caller.label, operation,
                     in.text(), out.text());
}

void check_peer(const Caller& caller, int peer, const char* operation) {
  require<CommError>(peer >= 0 && peer < caller.size && peer != caller.member,
                     "{}: {} names peer {}, peers are 0 to {} without {}", caller.label, operation, peer,
                     caller.size - 1, caller.member);
}

void check_all_gather(const Caller& caller, const TensorView& in, const TensorView& out) {
  check_views(caller, in, out, "all_gather");
  if (!(out.dtype == in.dtype && out.elements() == in.elements() * caller.size))
    fail<ShapeError>("{}: all_gather of {} from {} ranks does not fit {}", caller.label, in.text(),
                     caller.size, out.text());
  require<ShapeError>(!overlap(in, out) || in.data == out.byte_offset(in.elements() * caller.member),
                      "{}: all_gather: the input may be part of the output only at this rank's position",
                      caller.label);
}

void check_reduce_scatter(const Caller& caller, const TensorView& in, const TensorView& out) {
  check_views(caller, in, out, "reduce_scatter");
  if (!(out.dtype == in.dtype && in.elements() == out.elements() * caller.size))
    fail<ShapeError>("{}: reduce_scatter of {} to {} ranks does not fit {}", caller.label, in.text(),
                     caller.size, out.text());
  require<ShapeError>(!overlap(in, out) || out.data == in.byte_offset(out.elements() * caller.member),
                      "{}: reduce_scatter: the output may be part of the input only at this rank's position",
                      caller.label);
}

void check_all_to_all(const Caller& caller, const TensorView& in, const TensorView& out) {
  check_views(caller, in, out, "all_to_all");
  if (!(out.dtype == in.dtype && in.elements() == out.elements() && in.elements() % caller.size == 0))
    fail<ShapeError>("{}: all_to_all of {} among {} ranks does not fit {}", caller.label, in.text(),
                     caller.size, out.text());
  require<ShapeError>(!overlap(in, out), "{}: all_to_all: input and output overlap", caller.label);
}

void check_all_to_all_v(const Caller& caller, const TensorView& in, std::span<const std::int64_t> send_rows,
                        const TensorView& out, std::span<const std::int64_t> receive_rows) {
  check_views(caller, in, out, "all_to_all_v");
  const auto fits = [&](const TensorView& view, std::span<const std::int64_t> rows) {
    std::int64_t left = view.rows();
    for (const std::int64_t n : rows) {
      if (n < 0 || n > left) return false;
      left -= n;
    }
    return static_cast<int>(rows.size()) == caller.size;
  };
  if (!(in.dtype == out.dtype && in.shape.inner() == out.shape.inner() && fits(in, send_rows) &&
        fits(out, receive_rows)))
    fail<ShapeError>("{}: all_to_all_v: the rows per peer do not fit {} and {}", caller.label, in.text(),
                     out.text());
  require<ShapeError>(!overlap(in, out), "{}: all_to_all_v: input and output overlap", caller.label);
}

void check_broadcast(const Caller& caller, const TensorView& data, int root) {
  check_view(caller, data, "broadcast");
  require<CommError>(root >= 0 && root < caller.size, "{}: broadcast from member {}, members are 0 to {}",
                     caller.label, root, caller.size - 1);
}

std::vector<std::int64_t> offsets_of(std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> offsets(rows.size());
  std::exclusive_scan(rows.begin(), rows.end(), offsets.begin(), std::int64_t{0});
  return offsets;
}

}  // namespace stoa::comm
