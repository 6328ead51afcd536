// What the checks of operations have in common: one description per tensor, one form of error.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "tensor/tensor_view.h"

// Texts of tensors in errors are made where a check fails only: they would take longer than many an
// operation.
template <>
struct fmt::formatter<stoa::TensorView> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const stoa::TensorView& tensor, Context& context) const {
    return fmt::formatter<std::string>::format(tensor.text(), context);
  }
};
template <>
struct fmt::formatter<stoa::Shape> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const stoa::Shape& shape, Context& context) const {
    return fmt::formatter<std::string>::format(shape.text(), context);
  }
};

namespace stoa::ops {

// A set of element types.
class TypeSet {
 public:
  TypeSet(DType type) : bits_(1u << static_cast<unsigned>(type)) {}  // NOLINT: a type is a set of one
  TypeSet operator|(TypeSet other) const {
    TypeSet out = *this;
    out.bits_ |= other.bits_;
    return out;
  }
  bool has(DType type) const { return (bits_ >> static_cast<unsigned>(type)) & 1u; }
  std::string text() const;  // "bf16 or fp32"

  static TypeSet any_float();
  // The types whose sums are kept in the type in which sums over `type` are kept: fp64 goes with fp64 alone.
  static TypeSet floats_like(DType type);
  static TypeSet fp8();
  static TypeSet any();

 private:
  unsigned bits_;
};

enum class Layout : std::uint8_t { kContiguous, kStridedRows };

// Checks the tensors of one operation. ShapeError: "linear forward: w is bf16[768, 700], expected bf16 [N, K]
// = [any, 768]".
class Checker {
 public:
  template <class Op>
  explicit Checker(const Op& op) : op_(Op::kName) {
    Op::visit(op, [this](const char* name, const TensorView& tensor, auto) { same_device(name, tensor); });
  }

  // Dimensions of -1 may be anything; `symbols` names them in errors.
  void tensor(const char* name, const TensorView& tensor, TypeSet types, const char* symbols,
              const Shape& dims, Layout layout = Layout::kContiguous) const;
  // The same for a tensor that may be none; true where it is given.
  bool optional(const char* name, const TensorView& tensor, TypeSet types, const char* symbols,
                const Shape& dims, Layout layout = Layout::kContiguous) const;
  void none(const char* name, const TensorView& tensor, const char* why) const;
  void probability(const char* name, double p) const;
  // Two tensors that must not be one memory.
  void apart(const char* name, const TensorView& tensor, const char* other_name,
             const TensorView& other) const;

  template <class... Args>
  void that(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]]
      refuse(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void same_device(const char* name, const TensorView& tensor);
  [[noreturn]] void refuse(const std::string& message) const;

  const char* op_;
  const char* first_name_ = nullptr;
  DeviceKind device_ = DeviceKind::kHost;
};

// Whether a tensor is given; one without elements needs no memory.
inline bool is_given(const TensorView& tensor) {
  return tensor.data != nullptr || (tensor.shape.rank() > 0 && tensor.elements() == 0);
}

}  // namespace stoa::ops
