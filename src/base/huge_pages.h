// Large arrays in huge pages, where the system has them: reading here and there in them misses the TLB less.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace stoa {

template <class T>
class HugePageAllocator {
 public:
  using value_type = T;
  HugePageAllocator() = default;
  template <class Other>
  explicit(false) HugePageAllocator(const HugePageAllocator<Other>&) {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kPage) return static_cast<T*>(::operator new(bytes));
    void* data = ::operator new (bytes, std::align_val_t{kPage});
    ::madvise(data, bytes, MADV_HUGEPAGE);  // a wish: where it is refused, small pages do
    return static_cast<T*>(data);
  }
  void deallocate(T* data, std::size_t count) {
    if (count * sizeof(T) < kPage)
      ::operator delete(data);
    else
      ::operator delete (data, std::align_val_t{kPage});
  }
  friend bool operator==(HugePageAllocator, HugePageAllocator) { return true; }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
};

template <class T>
using HugePageVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace stoa
