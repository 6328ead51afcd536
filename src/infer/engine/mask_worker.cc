#include "infer/engine/mask_worker.h"

namespace stoa::infer {

MaskWorker::~MaskWorker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void MaskWorker::start(std::vector<constraint::ConstrainedText*> texts) {
  if (texts.empty()) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  {
    const std::lock_guard lock(mutex_);
    texts_ = std::move(texts);
  }
  wake_.notify_all();
}

void MaskWorker::wait() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return texts_.empty(); });
}

void MaskWorker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !texts_.empty(); });
    if (stop_) return;
    lock.unlock();
    for (constraint::ConstrainedText* text : texts_) {
      try {
        (void)text->allowed();
      } catch (const constraint::ConstraintError&) {
        // The draw asks again, and reports it.
      }
    }
    lock.lock();
    texts_.clear();
    done_.notify_all();
  }
}

}  // namespace stoa::infer
