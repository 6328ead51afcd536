#include "eval/box_compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ckpt/convert.h"

namespace stoa::eval {
namespace {

using ckpt::DumpRecord;

// `count` elements as fp64, with the scale of the record divided out.
void read_elements(const std::byte* from, const DumpRecord& record, std::int64_t count, double* out) {
  const DType type = *ckpt::memory_type(record.type);
  if (is_float(type)) {
    ckpt::convert_elements(from, type, reinterpret_cast<std::byte*>(out), DType::kF64, count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t value = 0;  // little-endian, two's complement
      const std::size_t bytes = size_of(type);
      std::memcpy(&value, from + static_cast<std::size_t>(i) * bytes, bytes);
      if (type == DType::kI32) value = static_cast<std::int32_t>(value);
      out[i] = static_cast<double>(value);
    }
  }
  if (record.scale != 1)
    for (std::int64_t i = 0; i < count; ++i) out[i] /= record.scale;
}

// Calls body(index of the whole tensor's first element, offset in a, offset in b, count) for every run of the
// last dimension.
template <class Body>
void for_each_run(const Box& box, const DumpRecord& a, const DumpRecord& b, Body&& body) {
  const std::size_t rank = box.shape.size();
  if (box.elements() == 0) return;
  if (rank == 0) {
    body(std::vector<std::int64_t>{}, std::int64_t{0}, std::int64_t{0}, std::int64_t{1});
    return;
  }
  std::vector<std::int64_t> index = box.begin;
  const auto offset = [&](const DumpRecord& r) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < rank; ++d) at = at * r.shape[d] + index[d] - r.begin[d];
    return at;
  };
  while (true) {
    body(index, offset(a), offset(b), box.shape[rank - 1]);
    std::size_t d = rank - 1;
    while (d > 0) {
      --d;
      if (++index[d] < box.begin[d] + box.shape[d]) break;
      index[d] = box.begin[d];
      if (d == 0) return;
    }
    if (rank == 1) return;
  }
}

// Calls `body` for the runs of a box with both sides' elements as fp64, at most kPiece elements at a time.
template <class Body>
void for_each_piece(const Box& box, const DumpRecord& a, std::span<const std::byte> bytes_a,
                    const DumpRecord& b, std::span<const std::byte> bytes_b, Body&& body) {
  constexpr std::int64_t kPiece = 1 << 16;
  std::vector<double> x(kPiece), y(kPiece);
  const std::size_t size_a = ckpt::size_of(a.type), size_b = ckpt::size_of(b.type);
  for_each_run(box, a, b, [&](const auto& index, std::int64_t at_a, std::int64_t at_b, std::int64_t count) {
    for (std::int64_t begin = 0; begin < count; begin += kPiece) {
      const std::int64_t part = std::min(kPiece, count - begin);
      read_elements(bytes_a.data() + static_cast<std::size_t>(at_a + begin) * size_a, a, part, x.data());
      read_elements(bytes_b.data() + static_cast<std::size_t>(at_b + begin) * size_b, b, part, y.data());
      for (std::int64_t i = 0; i < part; ++i) body(index, begin + i, x[i], y[i]);
    }
  });
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double quotient(double error, double limit) {
  if (error == 0) return 0;
  if (std::isnan(error)) return std::numeric_limits<double>::infinity();
  return limit > 0 ? error / limit : std::numeric_limits<double>::infinity();
}

}  // namespace

std::int64_t Box::elements() const {
  std::int64_t n = 1;
  for (const auto size : shape) n *= size;
  return n;
}

std::optional<Box> intersect(const DumpRecord& a, const DumpRecord& b) {
  Box box;
  for (std::size_t d = 0; d < a.global.size(); ++d) {
    const std::int64_t begin = std::max(a.begin[d], b.begin[d]);
    const std::int64_t end = std::min(a.begin[d] + a.shape[d], b.begin[d] + b.shape[d]);
    if (end <= begin) return std::nullopt;
    box.begin.push_back(begin);
    box.shape.push_back(end - begin);
  }
  return box;
}

bool equal_bits(const Box& box, const DumpRecord& a, std::span<const std::byte> bytes_a, const DumpRecord& b,
                std::span<const std::byte> bytes_b) {
  if (a.type != b.type || a.scale != b.scale) return false;
  const std::size_t size = ckpt::size_of(a.type);
  bool equal = true;
  for_each_run(box, a, b, [&](const auto&, std::int64_t at_a, std::int64_t at_b, std::int64_t count) {
    equal = equal && std::memcmp(bytes_a.data() + static_cast<std::size_t>(at_a) * size,
                                 bytes_b.data() + static_cast<std::size_t>(at_b) * size,
                                 static_cast<std::size_t>(count) * size) == 0;
  });
  return equal;
}

BoxDifference compare_boxes(const Box& box, const DumpRecord& a, std::span<const std::byte> bytes_a,
                            const DumpRecord& b, std::span<const std::byte> bytes_b, const Allowed& allowed,
                            double scale) {
  BoxDifference out;
  double squares = 0, errors = 0;
  for_each_piece(box, a, bytes_a, b, bytes_b, [&](const auto&, std::int64_t, double x, double y) {
    if (std::isfinite(x)) squares += x * x;
    if (same_number(x, y)) return;
    const double error = x - y;
    errors += error * error;
  });
  const auto n = static_cast<double>(box.elements());
  const double rms = std::max(std::sqrt(squares / n), scale);
  out.distance = quotient(std::sqrt(errors), std::sqrt(squares));
  out.share =
      quotient(std::sqrt(errors), allowed.norm * rms * std::sqrt(n) + allowed.absolute * std::sqrt(n));
  double worst = -1;
  for_each_piece(
      box, a, bytes_a, b, bytes_b, [&](const auto& index, std::int64_t column, double x, double y) {
        if (same_number(x, y)) return;
        const double limit = allowed.element * std::max({std::fabs(x), std::fabs(y), rms}) + allowed.absolute;
        const double share = quotient(std::fabs(x - y), limit);
        if (share > 1) ++out.beyond;
        // With a tolerance of 0 the element with the largest difference counts as the worst.
        const double badness =
            std::isinf(share) && std::isfinite(x - y) ? 1e300 * std::min(std::fabs(x - y), 1.0) : share;
        if (badness <= worst) return;
        worst = badness;
        out.index = index;
        if (!out.index.empty()) out.index.back() += column;
        out.a = x;
        out.b = y;
        out.share = std::max(out.share, share);
      });
  return out;
}

double sum_of_squares(std::span<const std::byte> bytes, const DumpRecord& record) {
  constexpr std::int64_t kPiece = 1 << 16;
  std::vector<double> x(kPiece);
  double sum = 0;
  const std::size_t size = ckpt::size_of(record.type);
  for (std::int64_t begin = 0; begin < record.elements(); begin += kPiece) {
    const std::int64_t part = std::min(kPiece, record.elements() - begin);
    read_elements(bytes.data() + static_cast<std::size_t>(begin) * size, record, part, x.data());
    for (std::int64_t i = 0; i < part; ++i)
      if (std::isfinite(x[i])) sum += x[i] * x[i];
  }
  return sum;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace stoa::eval
