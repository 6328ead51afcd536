// Ascending numbers in a file, written and then read once: what an external sort found out about places in a
// corpus.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

class PositionFile {
 public:
  explicit PositionFile(fs::path path);  // makes it
  ~PositionFile();                       // and removes it
  PositionFile(const PositionFile&) = delete;
  PositionFile& operator=(const PositionFile&) = delete;

  void add(std::uint64_t position);
  void finish();  // nothing is added from now on
  // Takes the numbers below `end`, in order.
  template <class F>
  void take_below(std::uint64_t end, F&& visit) {
    while (more() && next_ < end) {
      visit(next_);
      ++at_;
    }
  }
  std::uint64_t size() const { return size_; }

 private:
  bool more();

  const fs::path path_;
  std::fstream file_;
  std::vector<std::uint64_t> buffer_;
  std::size_t at_ = 0;
  std::uint64_t next_ = 0, size_ = 0;
};

}  // namespace stoa::curate
