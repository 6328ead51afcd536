#include "ops/cuda/emulation/async_proxy.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace stoa::ops::cuda::emulation {
namespace {

constexpr std::uint32_t kWindow = 1024 + 128;  // address of the first byte
constexpr int kGroup = 128, kDepth = 16;       // threads of a warpgroup, elements of a product

struct Descriptor {
  std::uint32_t start, leading, stride;

  explicit Descriptor(std::uint64_t bits) {
    const auto field = [&](int first) { return static_cast<std::uint32_t>(bits >> first & 0x3fffu) << 4; };
    start = field(0), leading = field(16), stride = field(32);
    constexpr std::uint64_t kFields = 0x3fffull | 0x3fffull << 16 | 0x3fffull << 32 | 7ull << 49 | 3ull << 62;
    require<InternalError>((bits & ~kFields) == 0, "a descriptor with reserved bits: {:x}", bits);
    require<InternalError>(bits >> 62 == 1 && (bits >> 49 & 7) == 0,
                           "a descriptor without the 128-byte swizzle from multiples of 1024: {:x}", bits);
  }
};

// Rows and columns of the sums of a thread, by their number.
int sum_row(int thread, int n) { return thread % kGroup / 32 * 16 + thread % 32 / 4 + n / 2 % 2 * 8; }
int sum_column(int thread, int n) { return n / 4 * 8 + thread % 4 * 2 + n % 2; }

}  // namespace

void AsyncProxy::begin_block(const void* shared, std::size_t bytes, int threads) {
  shared_ = static_cast<const std::byte*>(shared);
  seen_.assign(bytes, std::byte{0xff});
  states_.assign(static_cast<std::size_t>(threads), State{});
}

void AsyncProxy::end_block() const {
  for (std::size_t t = 0; t < states_.size(); ++t) {
    require<InternalError>(states_[t].products.empty(), "thread {} ended with {} products under way", t,
                           states_[t].products.size());
    const std::size_t first = t / kGroup * kGroup;
    require<InternalError>(states_[t].trace == states_[first].trace,
                           "threads {} and {} of a warpgroup ran different products", first, t);
  }
}

std::uint32_t AsyncProxy::address(const void* at) const {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(at) - shared_) + kWindow;
}

void AsyncProxy::copy_begins(const void* to) {
  const std::uint32_t at = address(to) - kWindow;
  require<InternalError>(at + 16 <= seen_.size(), "a copy to {} of {} bytes of shared memory", at,
                         seen_.size());
  std::memset(seen_.data() + at, 0xff, 16);
}
void AsyncProxy::copy_ends(int thread, const void* to) { states_[thread].copied.push_back(address(to)); }
void AsyncProxy::fence(int thread) {
  for (const std::uint32_t at : states_[thread].copied)
    std::memcpy(seen_.data() + (at - kWindow), shared_ + (at - kWindow), 16);
  states_[thread].copied.clear();
}

// What a thread reads, element by element: two rows of a, and the columns of b that it has sums of.
std::vector<std::uint16_t> AsyncProxy::elements(int thread, const Operand& a, const Operand& b,
                                                int columns) const {
  std::vector<std::uint16_t> out(static_cast<std::size_t>((2 + columns / 4) * kDepth));
  std::uint16_t* next = out.data();
  const auto read = [&](const Descriptor& d, bool across, int vector, int k) {
    // Rows of 128 bytes, eight of them to a pattern of 1024 bytes.
    std::uint32_t at = d.start;
    if (across)  // a row is 64 vectors at one k
      at += vector / 64 * d.leading + k / 8 * d.stride + k % 8 * 128 + vector % 64 * 2;
    else  // a row is one vector
      at += vector / 8 * d.stride + vector % 8 * 128 + k * 2;
    at ^= (at >> 7 & 7u) << 4;
    if (at < kWindow || at + 2 > kWindow + seen_.size())
      fail<InternalError>("a product reads shared memory at {}", at);
    std::memcpy(next++, seen_.data() + (at - kWindow), 2);
  };
  const Descriptor left(a.descriptor), right(b.descriptor);
  for (int k = 0; k < kDepth; ++k) {
    for (int n = 0; n < 4; n += 2) read(left, a.across, sum_row(thread, n), k);
    for (int n = 0; n < columns / 2; n += 4)
      for (int c = 0; c < 2; ++c) read(right, b.across, sum_column(thread, n + c), k);
  }
  return out;
}

void AsyncProxy::fence_registers(int thread) { states_[thread].fenced = true; }

void AsyncProxy::multiply(int thread, const Operand& a, const Operand& b, int columns, Widen widen,
                          float* sums) {
  State& state = states_[thread];
  require<InternalError>(state.fenced, "thread {} multiplies without a fence of its registers", thread);
  if (state.products.empty()) {
    state.sums = sums;
    state.held.assign(sums, sums + columns / 2);
    std::fill_n(sums, columns / 2, std::nanf(""));
  }
  require<InternalError>(state.sums == sums && std::ssize(state.held) == columns / 2,
                         "thread {} has products under way for other sums", thread);
  state.products.push_back({a, b, widen, state.groups, elements(thread, a, b, columns)});
  for (const std::uint64_t word : {a.descriptor, b.descriptor})
    state.trace = (state.trace ^ word) * 0x9e3779b97f4a7c15ull;
}

void AsyncProxy::commit(int thread) { ++states_[thread].groups; }

void AsyncProxy::finish(int thread, const Product& p) {
  std::vector<float>& sums = states_[thread].held;
  const int columns = static_cast<int>(sums.size()) * 2;
  // One in eight of the threads that read the same columns looks again.
  require<InternalError>(thread % 32 >= 4 || elements(thread, p.a, p.b, columns) == p.elements,
                         "what a product of thread {} reads was changed meanwhile", thread);
  std::vector<float> values(p.elements.size());
  std::transform(p.elements.begin(), p.elements.end(), values.begin(), p.widen);
  for (int k = 0; k < kDepth; ++k) {
    const float *const a = values.data() + k * (2 + columns / 4), *const b = a + 2;
    for (int j = 0; j < columns / 8; ++j)
      for (int n = 0; n < 4; ++n) sums[4 * j + n] += a[n / 2] * b[2 * j + n % 2];
  }
}

void AsyncProxy::wait(int thread, int left) {
  State& state = states_[thread];
  std::size_t done = 0;
  while (done < state.products.size() && state.products[done].group < state.groups - left)
    finish(thread, state.products[done++]);
  if (done == 0) return;
  state.products.erase(state.products.begin(), state.products.begin() + static_cast<std::ptrdiff_t>(done));
  if (!state.products.empty()) return;
  std::copy(state.held.begin(), state.held.end(), state.sums);
  state.fenced = false;
}

}  // namespace stoa::ops::cuda::emulation
