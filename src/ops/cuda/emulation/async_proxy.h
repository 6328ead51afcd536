// Matrix products of warpgroups on sm_90a, after the PTX ISA (wgmma). They read shared memory through the
// asynchronous proxy: what copies wrote there is poison to them until the thread that copied has fenced it.
// They run while their threads continue: sums are poison until they were waited for, and operands that change
// before then are an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoa::ops::cuda::emulation {

class AsyncProxy {
 public:
  void begin_block(const void* shared, std::size_t bytes, int threads);
  void end_block() const;  // nothing is under way, and the warps of a warpgroup did the same

  // Where `at` is in the window of shared memory. The window does not begin at a multiple of 1024.
  std::uint32_t address(const void* at) const;

  // Copies of 16 bytes to shared memory.
  void copy_begins(const void* to);
  void copy_ends(int thread, const void* to);
  void fence(int thread);

  // A product of 64 x columns x 16: of vectors of elements of 16 bits that descriptors name, `across` where
  // vectors are contiguous instead of elements.
  struct Operand {
    std::uint64_t descriptor = 0;
    bool across = false;
  };
  using Widen = float (*)(std::uint16_t);
  void fence_registers(int thread);
  void multiply(int thread, const Operand& a, const Operand& b, int columns, Widen widen, float* sums);
  void commit(int thread);
  void wait(int thread, int left);  // for all but the last `left` groups

 private:
  struct Product {
    Operand a, b;
    Widen widen;
    std::int64_t group;
    std::vector<std::uint16_t> elements;  // of the operands, when it began
  };
  struct State {
    std::vector<std::uint32_t> copied;  // and not fenced: addresses
    std::vector<Product> products;      // under way
    std::int64_t groups = 0;            // committed
    bool fenced = false;                // its registers, since it last waited for all products
    float* sums = nullptr;
    std::vector<float> held;  // what the sums will be
    std::uint64_t trace = 0;  // of its products
  };
  std::vector<std::uint16_t> elements(int thread, const Operand& a, const Operand& b, int columns) const;
  void finish(int thread, const Product& product);

  const std::byte* shared_ = nullptr;
  std::vector<std::byte> seen_;  // shared memory as products see it
  std::vector<State> states_;
};

}  // namespace stoa::ops::cuda::emulation
