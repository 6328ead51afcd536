// The part of a tensor that two dumps both hold, element by element.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/tensor_dump.h"
#include "eval/tolerance.h"

namespace stoa::eval {

struct Box {
  std::vector<std::int64_t> begin, shape;
  std::int64_t elements() const;
};

// The box that two records of one tensor have in common; none if they hold different parts.
std::optional<Box> intersect(const ckpt::DumpRecord& a, const ckpt::DumpRecord& b);

// Same type, scale and bytes.
bool equal_bits(const Box& box, const ckpt::DumpRecord& a, std::span<const std::byte> bytes_a,
                const ckpt::DumpRecord& b, std::span<const std::byte> bytes_b);

struct BoxDifference {
  double distance = 0;              // |A - B| / |A|
  double share = 0;                 // of what is allowed, of the norm or of the worst element
  std::int64_t beyond = 0;          // elements further apart than allowed
  std::vector<std::int64_t> index;  // of the worst element, in the whole tensor
  double a = 0, b = 0;              // there
};

// `scale`: least root mean square that errors are measured by.
BoxDifference compare_boxes(const Box& box, const ckpt::DumpRecord& a, std::span<const std::byte> bytes_a,
                            const ckpt::DumpRecord& b, std::span<const std::byte> bytes_b,
                            const Allowed& allowed, double scale);

double sum_of_squares(std::span<const std::byte> bytes, const ckpt::DumpRecord& record);

std::string shape_text(const std::vector<std::int64_t>& shape);  // "[4, 768]"

}  // namespace stoa::eval
