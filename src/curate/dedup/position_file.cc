#include "curate/dedup/position_file.h"

#include "base/error.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kBufferedPositions = 1 << 13;

}  // namespace

PositionFile::PositionFile(fs::path path)
    : path_(std::move(path)),
      file_(path_, std::ios::binary | std::ios::in | std::ios::out | std::ios::trunc) {
  require<IoError>(file_.is_open(), "cannot write '{}'", path_.string());
}

PositionFile::~PositionFile() {
  file_.close();
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void PositionFile::add(std::uint64_t position) {
  buffer_.push_back(position);
  ++size_;
  if (buffer_.size() < kBufferedPositions) return;
  file_.write(reinterpret_cast<const char*>(buffer_.data()),
              static_cast<std::streamsize>(buffer_.size() * sizeof(std::uint64_t)));
  require<IoError>(file_.good(), "cannot write '{}': is the disk full?", path_.string());
  buffer_.clear();
}

void PositionFile::finish() {
  file_.write(reinterpret_cast<const char*>(buffer_.data()),
              static_cast<std::streamsize>(buffer_.size() * sizeof(std::uint64_t)));
  file_.flush();
  require<IoError>(file_.good(), "cannot write '{}': is the disk full?", path_.string());
  buffer_.clear();
  file_.seekg(0);
}

bool PositionFile::more() {
  if (at_ == buffer_.size()) {
    buffer_.resize(kBufferedPositions);
    file_.read(reinterpret_cast<char*>(buffer_.data()),
               static_cast<std::streamsize>(buffer_.size() * sizeof(std::uint64_t)));
    buffer_.resize(static_cast<std::size_t>(file_.gcount()) / sizeof(std::uint64_t));
    at_ = 0;
  }
  if (buffer_.empty()) return false;
  next_ = buffer_[at_];
  return true;
}

}  // namespace stoa::curate
