#include "ckpt/strided_elements.h"

#include <algorithm>
#include <cstring>

namespace stoa::ckpt {

std::span<const std::byte> strided_elements(std::span<const std::byte> memory, std::size_t element_bytes,
                                            const std::vector<std::int64_t>& shape,
                                            const std::vector<std::int64_t>& stride, std::int64_t begin,
                                            std::int64_t end, std::vector<std::byte>& scratch) {
  // The last dimensions lie together: `run` elements. `outer` dimensions are before them.
  std::size_t outer = shape.size();
  std::int64_t run = 1;
  while (outer > 0 && (shape[outer - 1] == 1 || stride[outer - 1] == run)) run *= shape[--outer];
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  };

  std::vector<std::int64_t> index(outer);
  std::int64_t rest = begin / run, from = begin % run, within = from;
  for (std::size_t d = outer; d-- > 0;) {
    index[d] = rest % shape[d];
    rest /= shape[d];
    from += index[d] * stride[d];
  }
  if (end - begin <= run - within) return memory.subspan(bytes(from), bytes(end - begin));

  scratch.resize(std::max(scratch.size(), bytes(end - begin)));
  std::byte* to = scratch.data();
  from -= within;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t n = std::min(run - within, end - at);
    std::memcpy(to, memory.data() + bytes(from + within), bytes(n));
    to += bytes(n);
    at += n;
    within = 0;
    for (std::size_t d = outer; d-- > 0;) {
      from += stride[d];
      if (++index[d] < shape[d]) break;
      from -= shape[d] * stride[d];
      index[d] = 0;
    }
  }
  return std::span(scratch).first(bytes(end - begin));
}

}  // namespace stoa::ckpt
