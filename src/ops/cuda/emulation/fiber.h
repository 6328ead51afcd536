// A call that can be left in its middle and resumed: its own stack, switched by hand.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace stoa::ops::cuda::emulation {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `body` on the fiber's stack until it returns or suspends. The fiber is idle.
  void start(std::function<void()> body);
  // The three are calls even where they could be inlined: registers that the switch of stacks does not name
  // are kept by callers.
  [[gnu::noinline]] void resume();   // from where it suspended
  [[gnu::noinline]] void suspend();  // called by the body: returns to whoever started or resumed it
  // Called by the body: suspends it and resumes `next`, which returns to whoever this one would return to.
  [[gnu::noinline]] void pass_to(Fiber& next);
  bool done() const { return done_; }
  // What the body of a fiber that is done has thrown.
  void rethrow_error();

 private:
  struct Context;
  static void enter(void* self);

  std::unique_ptr<Context> context_;
  std::function<void()> body_;
  std::exception_ptr error_;
  bool done_ = true;
};

}  // namespace stoa::ops::cuda::emulation
