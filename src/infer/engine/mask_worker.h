// Finds out which tokens may follow constrained texts while the model computes a pass.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "constraint/constraint.h"

namespace stoa::infer {

class MaskWorker {
 public:
  MaskWorker() = default;
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  // Looks at the texts on a thread of its own, which the first call starts. They are the worker's until
  // wait() returns. An error is left for who asks the text itself.
  void start(std::vector<constraint::ConstrainedText*> texts);
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<constraint::ConstrainedText*> texts_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace stoa::infer
