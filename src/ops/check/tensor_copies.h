// Copies of the tensors of one operation that preserve aliasing: a tensor that is passed as two arguments is
// one tensor in the copy.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/tensor_view.h"

namespace stoa::ops {

// Bytes at an address fit for any kernel.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes);
  void* data() const { return data_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  void* data_ = nullptr;
};

class TensorCopies {
 public:
  void add(const TensorView& tensor);       // note its memory
  void make();                              // copy all that was noted
  void redirect(TensorView& tensor) const;  // point it at the copy

 private:
  struct Region {
    std::uintptr_t begin, end;
    std::uintptr_t lead =
        0;  // bytes of the copy before the first: it starts as far past an aligned address as the original
    AlignedBytes copy{0};
  };
  std::vector<Region> regions_;  // in order, apart from each other after make()
};

}  // namespace stoa::ops
