// For tests: runs the tile instructions of AMX on processors without AMX. Each raises SIGILL; the handler
// decodes it, applies it to a tile state of the thread as tile_semantics.h defines, and resumes after it. So
// the instructions of gemm_tile_kernels.cc themselves are tested: operands, addresses and configuration. On
// processors with AMX no signal is raised, and the tests run on the hardware.
#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "ops/cpu/tile_semantics.h"

namespace stoa::ops::cpu {

// Active during its lifetime. Only one may exist at a time.
class TileTrap {
 public:
  TileTrap() {
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
  }
  ~TileTrap() { sigaction(SIGILL, &before_, nullptr); }
  TileTrap(const TileTrap&) = delete;
  TileTrap& operator=(const TileTrap&) = delete;

  // Instructions emulated so far, by all threads.
  static std::atomic<std::int64_t>& count() {
    static std::atomic<std::int64_t> n{0};
    return n;
  }
  // The tile state of the calling thread. A kernel releases its tiles before it returns.
  static TileState& state() {
    static thread_local TileState tiles;
    return tiles;
  }

 private:
  static std::uint64_t reg(const ucontext_t& u, int index) {
    constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<std::uint64_t>(u.uc_mcontext.gregs[kOrder[index]]);
  }

  // A memory operand: base + displacement, and the scaled index apart. Returns the bytes from ModRM on.
  struct Operand {
    std::uint64_t address = 0;
    std::int64_t index = 0;
    bool sib = false;
  };
  static int decode(const ucontext_t& u, const std::uint8_t* modrm, int x, int b, Operand& operand) {
    const int mod = modrm[0] >> 6, rm = modrm[0] & 7;
    int at = 1;
    bool base = true;
    int base_register = rm | b << 3;
    if (rm == 4) {
      const std::uint8_t sib = modrm[at++];
      operand.sib = true;
      const int index = ((sib >> 3) & 7) | x << 3;
      if (index != 4) operand.index = static_cast<std::int64_t>(reg(u, index)) << (sib >> 6);
      base_register = (sib & 7) | b << 3;
      if ((sib & 7) == 5 && mod == 0) base = false;
    }
    const bool relative = mod == 0 && rm == 5;
    std::int32_t displacement = 0;
    if (mod == 1) {
      displacement = static_cast<std::int8_t>(modrm[at++]);
    } else if (mod == 2 || relative || !base) {
      std::memcpy(&displacement, modrm + at, 4);
      at += 4;
    }
    // RIP-relative: the base is the next instruction, which begins after ModRM and the displacement.
    if (relative)
      operand.address = reinterpret_cast<std::uint64_t>(modrm) + static_cast<std::uint64_t>(at);
    else if (base)
      operand.address = reg(u, base_register);
    operand.address += static_cast<std::uint64_t>(static_cast<std::int64_t>(displacement));
    return at;
  }

  // Length of the instruction, or 0 if it is not a tile instruction or would fault.
  static int execute(const ucontext_t& u, const std::uint8_t* code) {
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return 0;  // VEX.128.0F38.W0
    const int x = (code[1] & 0x40) == 0, b = (code[1] & 0x20) == 0;
    const int prefix = code[2] & 3, vvvv = ~(code[2] >> 3) & 15;
    const std::uint8_t opcode = code[3], *modrm = code + 4;
    const int tile = (modrm[0] >> 3) & 7;
    const bool memory = modrm[0] >> 6 != 3;
    TileState& tiles = state();
    Operand operand;
    const int length = 4 + (memory ? decode(u, modrm, x, b, operand) : 1);
    auto* address = reinterpret_cast<void*>(operand.address);
    bool good = false;
    if (opcode == 0x49 && prefix == 0 && memory) {
      TileConfiguration configuration;
      std::memcpy(&configuration, address, sizeof configuration);
      good = tiles.configure(configuration);
    } else if (opcode == 0x49 && prefix == 0 && modrm[0] == 0xc0) {
      tiles.release();
      good = true;
    } else if (opcode == 0x49 && prefix == 3 && !memory) {
      good = tiles.zero(tile);
    } else if (opcode == 0x4b && memory && operand.sib && (prefix == 3 || prefix == 1)) {
      good = tiles.load(tile, address, operand.index);
    } else if (opcode == 0x4b && memory && operand.sib && prefix == 2) {
      good = tiles.store(tile, address, operand.index);
    } else if (opcode == 0x5c && prefix == 2 && !memory && vvvv < 8) {
      good = tiles.multiply_add(tile, modrm[0] & 7, vvvv);
    }
    return good ? length : 0;
  }

  static void handle(int, siginfo_t*, void* context) {
    auto& u = *static_cast<ucontext_t*>(context);
    greg_t& at = u.uc_mcontext.gregs[REG_RIP];
    const int length = execute(u, reinterpret_cast<const std::uint8_t*>(at));
    if (length == 0) {  // a genuine fault: restore the default action, which ends the process
      signal(SIGILL, SIG_DFL);
      return;
    }
    at += length;
    ++count();
  }

  struct sigaction before_ {};
};

}  // namespace stoa::ops::cpu

#endif
