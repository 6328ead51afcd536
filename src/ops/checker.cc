#include "ops/checker.h"

#include <vector>

namespace stoa::ops {

namespace {

std::string_view device_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kHost:
      return "host";
    case DeviceKind::kMeta:
      return "meta";
    case DeviceKind::kCuda:
      return "cuda";
  }
  return "?";
}

bool fits(const Shape& shape, const Shape& expected) {
  if (shape.rank() != expected.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] < 0 || (expected[i] >= 0 && shape[i] != expected[i])) return false;
  return true;
}

std::string expected_text(const Shape& expected) {
  std::string out = "[";
  for (int i = 0; i < expected.rank(); ++i) {
    if (i) out += ", ";
    out += expected[i] < 0 ? "any" : std::to_string(expected[i]);
  }
  return out + "]";
}

}  // namespace

std::string TypeSet::text() const {
  std::vector<std::string> names;
  for (DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32,
                     DType::kU8, DType::kE4M3, DType::kE5M2})
    if (has(type)) names.emplace_back(name_of(type));
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

TypeSet TypeSet::any_float() { return TypeSet(DType::kF64) | DType::kF32 | DType::kBF16 | DType::kF16; }

TypeSet TypeSet::floats_like(DType type) {
  return type == DType::kF64 ? TypeSet(DType::kF64) : TypeSet(DType::kF32) | DType::kBF16 | DType::kF16;
}

TypeSet TypeSet::fp8() { return TypeSet(DType::kE4M3) | DType::kE5M2; }

TypeSet TypeSet::any() { return any_float() | DType::kI64 | DType::kI32 | DType::kU8; }

void Checker::tensor(const char* name, const TensorView& tensor, TypeSet types, const char* symbols,
                     const Shape& dims, Layout layout) const {
  if (!is_given(tensor)) [[unlikely]]
    refuse(fmt::format("{} is none, expected {} {} = {}", name, types.text(), symbols, expected_text(dims)));
  if (!types.has(tensor.dtype) || !fits(tensor.shape, dims)) [[unlikely]]
    refuse(fmt::format("{} is {}, expected {} {} = {}", name, tensor.text(), types.text(), symbols,
                       expected_text(dims)));
  if (layout == Layout::kContiguous) {
    if (!tensor.contiguous()) [[unlikely]]
      refuse(fmt::format("{} is {}, expected contiguous rows", name, tensor.text()));
  } else if (tensor.rows() > 1 && tensor.stride0 < tensor.shape.inner()) [[unlikely]] {
    refuse(
        fmt::format("{} is {}: its rows of {} elements overlap", name, tensor.text(), tensor.shape.inner()));
  }
}

bool Checker::optional(const char* name, const TensorView& tensor, TypeSet types, const char* symbols,
                       const Shape& dims, Layout layout) const {
  if (!is_given(tensor)) return false;
  this->tensor(name, tensor, types, symbols, dims, layout);
  return true;
}

void Checker::none(const char* name, const TensorView& tensor, const char* why) const {
  if (is_given(tensor)) [[unlikely]]
    refuse(fmt::format("{} is {}, expected none {}", name, tensor.text(), why));
}

void Checker::probability(const char* name, double p) const {
  that(p >= 0 && p < 1, "{} is {}, expected a probability in [0, 1)", name, p);
}

void Checker::apart(const char* name, const TensorView& tensor, const char* other_name,
                    const TensorView& other) const {
  that(tensor.data == nullptr || tensor.data != other.data, "{} and {} are one memory, expected two", name,
       other_name);
}

void Checker::same_device(const char* name, const TensorView& tensor) {
  if (!tensor.data) return;
  if (!first_name_) {
    first_name_ = name;
    device_ = tensor.device;
  }
  that(tensor.device == device_, "{} is on {}, {} on {}: expected one device", first_name_,
       device_name(device_), name, device_name(tensor.device));
}

void Checker::refuse(const std::string& message) const { fail<ShapeError>("{}: {}", op_, message); }

}  // namespace stoa::ops
