#include "ops/cuda/emulation/fiber.h"

#include <ucontext.h>

#include <cstdint>
#include <vector>

#include "base/error.h"

#if defined(__x86_64__)
asm(R"(
.text
.type stoa_enter_fiber, @function
stoa_enter_fiber:
  popq %rdi
  popq %rax
  callq *%rax
  ud2
)");
extern "C" void stoa_enter_fiber();
#endif

namespace stoa::ops::cuda::emulation {

namespace {
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kStack = 256 << 10;
#else
// Kernels keep little. The rest over a power of two puts the tops of neighbours' stacks, which all lanes of a
// warp use in turn, into different sets of the processor's caches.
constexpr std::size_t kStack = (64 << 10) + 9 * 64;
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
  using Place = void*;  // the top of a stack that was left
#else
  using Place = ucontext_t;
#endif
  Place inside{}, resumed_from{};
  Place* outside = nullptr;  // resumed_from of this fiber, or of the one that passed to it
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

namespace {
// Inline, and with a jump instead of a return, so that branch prediction works: a fiber resumes at a call
// that another fiber has just left. The compiler keeps the registers named below, callers the others; the 128
// bytes below the stack pointer may be in use.
inline __attribute__((always_inline)) void switch_stack(void** save, void* load) {
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "pushq %%rbp\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "movq %%rsp, (%%rdi)\n\t"
      "movq %%rsi, %%rsp\n\t"
      "popq %%rax\n\t"
      "jmpq *%%rax\n"
      "1:\n\t"
      "popq %%rbp\n\t"
      "leaq 128(%%rsp), %%rsp"
      : "+D"(save), "+S"(load)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
        "xmm14", "xmm15", "cc", "memory");
}
}  // namespace

void Fiber::resume() {
  context_->outside = &context_->resumed_from;
  switch_stack(context_->outside, context_->inside);
}
void Fiber::suspend() { switch_stack(&context_->inside, *context_->outside); }
void Fiber::pass_to(Fiber& next) {
  next.context_->outside = context_->outside;
  switch_stack(&context_->inside, next.context_->inside);
}

void Fiber::start(std::function<void()> body) {
  body_ = std::move(body);
  done_ = false;
  error_ = nullptr;
  // What switch_stack() and stoa_enter_fiber pop. Above it the stack is aligned as at a call.
  const auto end = reinterpret_cast<std::uintptr_t>(context_->memory.get()) + kStack - 64;
  auto** at = reinterpret_cast<void**>(end / 16 * 16) - 3;
  at[0] = reinterpret_cast<void*>(&stoa_enter_fiber);
  at[1] = this;
  at[2] = reinterpret_cast<void*>(&Fiber::enter);
  context_->inside = at;
  resume();
}

#else

void Fiber::resume() {
  context_->outside = &context_->resumed_from;
  ::swapcontext(context_->outside, &context_->inside);
}
void Fiber::suspend() { ::swapcontext(&context_->inside, context_->outside); }
void Fiber::pass_to(Fiber& next) {
  next.context_->outside = context_->outside;
  ::swapcontext(&context_->inside, &next.context_->inside);
}

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

void Fiber::rethrow_error() {
  if (!error_) return;
  std::exception_ptr error = std::exchange(error_, nullptr);
  std::rethrow_exception(error);
}

}  // namespace stoa::ops::cuda::emulation
