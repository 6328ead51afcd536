#include "data/idx_file.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::data {

IdxView::IdxView(std::span<const std::byte> bytes, std::uint64_t bin_bytes, const std::string& name) {
  const std::byte* p = bytes.data();
  const std::uint64_t size = bytes.size();
  require<DataError>(size > 0, "'{}' is empty; expected a Megatron .idx file", name);
  require<DataError>(size >= kIdxMagic.size() && std::memcmp(p, kIdxMagic.data(), kIdxMagic.size()) == 0,
                     "'{}' is not a Megatron .idx file: it does not begin with MMIDIDX", name);
  require<DataError>(size >= kIdxHeaderBytes, "'{}' is truncated: {} bytes, the header alone has {}", name,
                     size, kIdxHeaderBytes);
  const auto version = read<std::uint64_t>(p + 9, 0);
  require<DataError>(version == 1, "'{}' has version {}; only version 1 of the .idx format is known", name,
                     version);
  const auto code = read<std::uint8_t>(p + 17, 0);
  const auto dtype = token_dtype_of_code(code);
  require<DataError>(dtype.has_value(), "'{}' has dtype code {}; known are 1 (uint8) to 8 (uint16)", name,
                     code);
  dtype_ = *dtype;
  const auto s = read<std::uint64_t>(p + 18, 0), d = read<std::uint64_t>(p + 26, 0);
  const std::uint64_t room = size - kIdxHeaderBytes;
  // Bounding S and D by the file size first keeps the sum below from overflowing.
  require<DataError>(s <= room / 12 && d <= room / 8 && 12 * s + 8 * d <= room,
                     "'{}' is truncated: {} sequences and {} document indices need more than its {} bytes",
                     name, s, d, size);
  const std::uint64_t rest = room - 12 * s - 8 * d;
  require<DataError>(rest == 0 || rest == s, "'{}' has {} bytes after its last document index", name, rest);
  require<DataError>(d >= 1, "'{}' has no document indices; expected at least the leading 0", name);
  sequences_ = static_cast<std::int64_t>(s);
  documents_ = static_cast<std::int64_t>(d) - 1;
  lengths_ = p + kIdxHeaderBytes;
  offsets_ = lengths_ + 4 * s;
  starts_ = offsets_ + 8 * s;

  const std::uint64_t width = token_dtype_bytes(dtype_);
  std::uint64_t needed = 0;
  for (std::int64_t i = 0; i < sequences_; ++i) {
    const std::int32_t n = length(i);
    const std::int64_t at = offset(i);
    require<DataError>(n >= 0, "'{}': sequence {} has length {}", name, i, n);
    const std::uint64_t extent = static_cast<std::uint64_t>(n) * width;
    require<DataError>(
        at >= 0 && static_cast<std::uint64_t>(at) <= bin_bytes &&
            extent <= bin_bytes - static_cast<std::uint64_t>(at),
        "'{}': sequence {} ({} tokens at byte {}) lies outside its .bin file of {} bytes; the .bin file is "
        "truncated or belongs to other data",
        name, i, n, at, bin_bytes);
    needed = std::max(needed, static_cast<std::uint64_t>(at) + extent);
    tokens_ += n;
    longest_ = std::max<std::int64_t>(longest_, n);
  }
  require<DataError>(
      needed == bin_bytes,
      "'{}' describes {} bytes of tokens but its .bin file has {}; they do not belong together", name, needed,
      bin_bytes);
  std::int64_t previous = 0;
  for (std::int64_t i = 0; i <= documents_; ++i) {
    const std::int64_t start = document_start(i);
    require<DataError>(i == 0 ? start == 0 : start >= previous && start <= sequences_,
                       "'{}': document index {} is {}; expected {}", name, i, start,
                       i == 0 ? std::string("0") : fmt::format("{} to {}", previous, sequences_));
    previous = start;
  }
  require<DataError>(previous == sequences_,
                     "'{}': the last document index is {}, but there are {} sequences", name, previous,
                     sequences_);
}

}  // namespace stoa::data
