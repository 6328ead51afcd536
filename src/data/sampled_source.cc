#include "data/sampled_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace stoa::data {

SampledSource::SampledSource(std::unique_ptr<ByteSource> source, std::size_t bytes)
    : source_(std::move(source)) {
  sample_.resize(bytes);
  std::size_t filled = 0;
  while (filled < bytes) {
    std::size_t got = 0;
    try {
      got = source_->read(sample_.data() + filled, bytes - filled);
    } catch (const DataError&) {
      if (filled == 0) throw;
      fault_ = std::current_exception();  // of who reads beyond what stands before it
    }
    if (got == 0) break;
    filled += got;
  }
  sample_.resize(filled);
}

std::size_t SampledSource::read(char* to, std::size_t bytes) {
  if (at_ == sample_.size()) {
    if (fault_) std::rethrow_exception(fault_);
    return source_->read(to, bytes);
  }
  const std::size_t count = std::min(bytes, sample_.size() - at_);
  std::memcpy(to, sample_.data() + at_, count);
  at_ += count;
  return count;
}

}  // namespace stoa::data
