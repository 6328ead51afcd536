// Bounds the memory that pages of mapped files take: those that were read are released, and come again from
// the file when they are needed.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <vector>

namespace stoa::curate {

class PageBudget {
 public:
  explicit PageBudget(std::size_t bytes) : bytes_(bytes) {}

  // `mapped`: all bytes of a mapped file.
  void add(std::span<const std::byte> mapped) {
    if (mapped.empty()) return;
    files_.push_back(mapped);
    all_ += mapped.size();
  }
  // Counts bytes that were read next to those before, or that lie anywhere, `places` of them.
  void count(std::size_t bytes, std::size_t places = 0) {
    if (all_ <= bytes_) return;
    constexpr std::size_t kMappedAround = 64 << 10;  // by the system, around a page that is missing
    used_ += bytes + places * kMappedAround;
    if (used_ > bytes_) release();
  }
  void release() {
    used_ = 0;
    for (const auto& file : files_)
      ::madvise(const_cast<std::byte*>(file.data()), file.size(), MADV_DONTNEED);
  }

 private:
  const std::size_t bytes_;
  std::size_t all_ = 0, used_ = 0;
  std::vector<std::span<const std::byte>> files_;
};

}  // namespace stoa::curate
