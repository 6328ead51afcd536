// Small fixed-rank shapes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/error.h"

namespace stoa {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) {
    require<InternalError>(dims.size() <= kMaxRank, "a shape has at most {} dimensions, got {}", kMaxRank,
                           dims.size());
    for (auto d : dims) dims_[rank_++] = d;
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  void set(int i, std::int64_t value) { dims_[i < 0 ? i + rank_ : i] = value; }
  std::int64_t back() const { return dims_[rank_ - 1]; }

  // Number of elements; 1 for a scalar (rank 0).
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  // Elements of one index of dimension 0.
  std::int64_t inner() const {
    return rank_ == 0 ? 1 : (dims_[0] == 0 ? Shape::tail(*this) : elements() / dims_[0]);
  }

  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if (dims_[i] != other.dims_[i]) return false;
    return true;
  }

  std::string text() const;  // "[4, 768]"

 private:
  static std::int64_t tail(const Shape& shape) {
    std::int64_t n = 1;
    for (int i = 1; i < shape.rank_; ++i) n *= shape.dims_[i];
    return n;
  }
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace stoa
