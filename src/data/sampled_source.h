// A source whose first bytes can be examined before they are read.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "data/byte_source.h"

namespace stoa::data {

class SampledSource final : public ByteSource {
 public:
  static constexpr std::size_t kSampleBytes = 1 << 18;

  // Reads up to `bytes` bytes. A fault behind the first of them is one of the read that comes to it.
  explicit SampledSource(std::unique_ptr<ByteSource> source, std::size_t bytes = kSampleBytes);

  std::string_view sample() const { return sample_; }
  void skip(std::size_t bytes) { at_ = bytes; }

  std::size_t read(char* to, std::size_t bytes) override;
  std::uint64_t position() const override { return source_->position(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string sample_;
  std::exception_ptr fault_;  // behind the sample
  std::size_t at_ = 0;
};

}  // namespace stoa::data
