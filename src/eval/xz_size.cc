#include "eval/xz_size.h"

#include <lzma.h>

#include <array>

#include "base/error.h"

namespace stoa::eval {
namespace {

// Compresses and counts.
class XzCounter {
 public:
  XzCounter() {
    require<IoError>(lzma_easy_encoder(&stream_, kPreset, LZMA_CHECK_CRC64) == LZMA_OK,
                     "not enough memory for xz's preset {}", kPreset);
  }
  ~XzCounter() { lzma_end(&stream_); }
  XzCounter(const XzCounter&) = delete;
  XzCounter& operator=(const XzCounter&) = delete;

  void add(std::string_view part) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(part.data());
    stream_.avail_in = part.size();
    while (stream_.avail_in > 0) require<IoError>(code(LZMA_RUN) == LZMA_OK, "liblzma failed");
  }
  std::int64_t finish() {
    lzma_ret state = LZMA_OK;
    while (state == LZMA_OK) state = code(LZMA_FINISH);
    require<IoError>(state == LZMA_STREAM_END, "liblzma failed ({})", static_cast<int>(state));
    return static_cast<std::int64_t>(stream_.total_out);
  }

 private:
  static constexpr std::uint32_t kPreset = 9;

  lzma_ret code(lzma_action action) {
    stream_.next_out = buffer_.data();
    stream_.avail_out = buffer_.size();
    return lzma_code(&stream_, action);
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  std::array<std::uint8_t, 1 << 16> buffer_{};
};

}  // namespace

std::int64_t xz_size(const std::vector<std::string_view>& parts) {
  XzCounter counter;
  for (const auto part : parts) counter.add(part);
  return counter.finish();
}

}  // namespace stoa::eval
