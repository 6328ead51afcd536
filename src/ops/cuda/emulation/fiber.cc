#include "ops/cuda/emulation/fiber.h"

#include <ucontext.h>

#include <cstdint>
#include <vector>

#include "base/error.h"

#if defined(__x86_64__)
// Callee-saved registers are kept on the stack that is left.
asm(R"(
.text
.type stoa_switch_stack, @function
stoa_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.type stoa_enter_fiber, @function
stoa_enter_fiber:
  movq %r12, %rdi
  callq *%r13
  ud2
)");
extern "C" void stoa_switch_stack(void** save, void* load);
extern "C" void stoa_enter_fiber();
#endif

namespace stoa::ops::cuda::emulation {

namespace {
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kStack = 256 << 10;
#else
constexpr std::size_t kStack = 64 << 10;  // kernels keep little
#endif
using Stack = std::unique_ptr<std::byte[]>;

// Stacks of fibers that are gone. Every launch starts hundreds; from the heap of a thread that is not the
// first, their pages would go back to the system each time, which takes as long as most kernels here.
std::vector<Stack>& idle_stacks() {
  static thread_local std::vector<Stack> stacks;
  return stacks;
}

Stack take_stack() {
  std::vector<Stack>& idle = idle_stacks();
  if (idle.empty()) return std::make_unique_for_overwrite<std::byte[]>(kStack);
  Stack stack = std::move(idle.back());
  idle.pop_back();
  return stack;
}
}  // namespace

struct Fiber::Context {
  Stack memory = take_stack();
#ifndef __SANITIZE_ADDRESS__  // it keeps marks of the calls that were left
  ~Context() { idle_stacks().push_back(std::move(memory)); }
#endif
#if defined(__x86_64__)
  void* inside = nullptr;
  void* outside = nullptr;
#else
  ucontext_t inside{}, outside{};
#endif
};

Fiber::Fiber() : context_(std::make_unique<Context>()) {}
Fiber::~Fiber() = default;

void Fiber::enter(void* self) {
  auto* fiber = static_cast<Fiber*>(self);
  try {
    fiber->body_();
  } catch (...) {
    fiber->error_ = std::current_exception();
  }
  fiber->done_ = true;
  fiber->suspend();
}

#if defined(__x86_64__)

void Fiber::switch_in() { stoa_switch_stack(&context_->outside, context_->inside); }
void Fiber::suspend() { stoa_switch_stack(&context_->inside, context_->outside); }

void Fiber::start(std::function<void()> body) {
  body_ = std::move(body);
  done_ = false;
  error_ = nullptr;
  // What stoa_switch_stack pops: r15 r14 r13 r12 rbx rbp, then the return address. Above it the stack is
  // aligned as at a call.
  const auto end = reinterpret_cast<std::uintptr_t>(context_->memory.get()) + kStack - 64;
  auto** top = reinterpret_cast<void**>(end / 16 * 16);
  void** at = top - 7;
  at[0] = at[1] = nullptr;
  at[2] = reinterpret_cast<void*>(&Fiber::enter);
  at[3] = this;
  at[4] = at[5] = nullptr;
  at[6] = reinterpret_cast<void*>(&stoa_enter_fiber);
  context_->inside = at;
  resume();
}

#else

void Fiber::switch_in() { ::swapcontext(&context_->outside, &context_->inside); }
void Fiber::suspend() { ::swapcontext(&context_->inside, &context_->outside); }

namespace {
void enter_from_halves(unsigned high, unsigned low, void (*enter)(void*)) {
  enter(reinterpret_cast<void*>((static_cast<std::uintptr_t>(high) << 32) | low));
}
}  // namespace

void Fiber::start(std::function<void()> body) {
  body_ = std::move(body);
  done_ = false;
  error_ = nullptr;
  ::getcontext(&context_->inside);
  context_->inside.uc_stack.ss_sp = context_->memory.get();
  context_->inside.uc_stack.ss_size = kStack;
  context_->inside.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&context_->inside, reinterpret_cast<void (*)()>(&enter_from_halves), 3,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self), &Fiber::enter);
  resume();
}

#endif

void Fiber::resume() {
  switch_in();
  if (!error_) return;
  std::exception_ptr error = std::exchange(error_, nullptr);
  std::rethrow_exception(error);
}

}  // namespace stoa::ops::cuda::emulation
