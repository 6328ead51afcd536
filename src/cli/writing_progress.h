// Shows how far the writing of a directory is, which a signal ends without a trace.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/console.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt.h"

namespace stoa::cli {

class WritingProgress {
 public:
  // `what`: "export"; `undone`: "nothing is exported".
  WritingProgress(Context& context, std::string what, const std::string& undone)
      : context_(context), what_(std::move(what)) {
    context_.interrupt.set({.grace = std::chrono::seconds(10),
                            .words = "exiting, " + undone + " (again: exit immediately)",
                            .last_words = {}});
  }
  // To be called with the bytes written so far, and those of all.
  std::function<void(std::uint64_t done, std::uint64_t total)> reporter() {
    return [this](std::uint64_t done, std::uint64_t total) { update(done, total); };
  }
  void finish() {
    context_.interrupt.set({});  // it is there
    if (progress_) progress_->finish();
  }

 private:
  void update(std::uint64_t done, std::uint64_t total) {
    if (!progress_)
      progress_ = std::make_unique<Progress>(context_.console, what_, static_cast<double>(total), "B");
    progress_->update(static_cast<double>(done));
    require<Interrupted>(!context_.interrupt.token().stop_requested(), "interrupted; nothing was written");
  }

  Context& context_;
  const std::string what_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace stoa::cli
