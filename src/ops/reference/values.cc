#include "ops/reference/values.h"

#include <bit>
#include <cmath>

namespace stoa::ops {

namespace {

// To float, towards zero with a sticky last bit: rounding that to 16 or 8 bits equals rounding once.
float to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (std::isnan(x) || static_cast<double>(nearest) == x) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(x)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <class T>
T narrow(double x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(x);
  else
    return T(to_odd(x));
}

template <class T>
double widen(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<double>(static_cast<float>(x));
}

// Calls `body` with the C++ type of a floating-point type of any width.
template <class Body>
decltype(auto) dispatch(DType type, Body&& body) {
  return is_fp8(type) ? dispatch_fp8(type, body) : dispatch_float(type, body);
}

}  // namespace

Values load(const TensorView& tensor) {
  if (!tensor) return {};
  Values out(static_cast<std::size_t>(tensor.elements()));
  const std::int64_t inner = tensor.shape.inner();
  dispatch(tensor.dtype, [&]<class T>() {
    for (std::int64_t r = 0; r < tensor.rows(); ++r) {
      const T* row = tensor.row<T>(r);
      double* to = out.data() + r * inner;
      for (std::int64_t i = 0; i < inner; ++i) to[i] = widen(row[i]);
    }
  });
  return out;
}

std::vector<std::int64_t> load_integers(const TensorView& tensor) {
  if (!tensor) return {};
  if (!tensor.contiguous()) fail<InternalError>("integers {} are not contiguous", tensor.text());
  const auto n = tensor.elements();
  if (tensor.dtype == DType::kI64) return {tensor.as<std::int64_t>(), tensor.as<std::int64_t>() + n};
  return {tensor.as<std::int32_t>(), tensor.as<std::int32_t>() + n};
}

void store(const Values& values, const TensorView& tensor) {
  if (!tensor) return;
  const std::int64_t inner = tensor.shape.inner();
  if (static_cast<std::int64_t>(values.size()) != tensor.elements())
    fail<InternalError>("{} values for {}", values.size(), tensor.text());
  dispatch(tensor.dtype, [&]<class T>() {
    for (std::int64_t r = 0; r < tensor.rows(); ++r) {
      T* row = tensor.row<T>(r);
      const double* from = values.data() + r * inner;
      for (std::int64_t i = 0; i < inner; ++i) row[i] = narrow<T>(from[i]);
    }
  });
}

double rounded(double x, DType type) {
  return dispatch(type, [&]<class T>() { return widen(narrow<T>(x)); });
}

}  // namespace stoa::ops
