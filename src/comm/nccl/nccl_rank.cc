#include "comm/nccl/nccl_rank.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::comm {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);  // between two looks of the watch

}  // namespace

NcclRank::NcclRank(NcclApi api, SharableDevice& device, std::chrono::milliseconds timeout,
                   std::function<std::string()> others)
    : api_(std::move(api)),
      device_(device),
      timeout_(timeout),
      others_(std::move(others)),
      collectives_(device.create_urgent_stream()),
      watch_([this](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        device_.use_in_this_thread();
        while (!stopped_.wait_for(lock, stop, kLook, [] { return false; }) && !stop.stop_requested()) look();
      }) {}

NcclRank::~NcclRank() {
  watch_.request_stop();
  watch_.join();
}

void NcclRank::check(int status, const std::string& what) const {
  if (status == kNcclSuccess || status == kNcclInProgress) return;
  throw_if_failed();  // rather the reason than what follows from it
  fail<CommError>("{}: NCCL: {}", what, api_.status_name(status));
}

void NcclRank::throw_if_failed() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw CommError(failure_);
}

void NcclRank::give_up(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) fail_all(failure);
}

void NcclRank::open(const std::string& label, NcclHandle handle) {
  const std::lock_guard lock(mutex_);
  links_.push_back({label, handle});
}

void NcclRank::close(NcclHandle handle) {
  {
    const std::lock_guard lock(mutex_);
    // After a failure the watch has ended it.
    if (std::erase_if(links_, [&](const Link& link) { return link.handle == handle; }) == 0) return;
  }
  api_.destroy(handle);
}

void NcclRank::watch(std::string text, std::shared_ptr<Event> done) {
  const std::lock_guard lock(mutex_);
  std::erase_if(operations_, [](const Operation& operation) { return operation.done->ready(); });
  operations_.push_back({std::move(text), std::move(done), std::chrono::steady_clock::now()});
}

// With the lock held.
void NcclRank::look() try {
  if (!failure_.empty()) return;
  if (std::string failure = others_ ? others_() : std::string(); !failure.empty())
    return fail_all(std::move(failure));
  for (const Link& link : links_) {
    int status = kNcclSuccess;
    if (api_.async_error(link.handle, &status) == kNcclSuccess && status != kNcclSuccess &&
        status != kNcclInProgress)
      return fail_all(fmt::format("{}: NCCL: {}", link.label, api_.status_name(status)));
  }
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(operations_, [](const Operation& operation) { return operation.done->ready(); });
  const auto late = std::find_if(operations_.begin(), operations_.end(), [&](const Operation& operation) {
    return now - operation.begin > timeout_;
  });
  if (late != operations_.end())
    fail_all(fmt::format("{} waited {:.1f} s on the GPU: not all ranks of the group came to it", late->text,
                         std::chrono::duration<double>(timeout_).count()));
} catch (const Error& error) {  // the device is down
  fail_all(error.what());
}

// With the lock held: what waits on the GPU ends, so that the host gets through to the message.
void NcclRank::fail_all(std::string failure) {
  failure_ = std::move(failure);
  for (const Link& link : links_) api_.abort(link.handle);
  links_.clear();
  operations_.clear();
}

}  // namespace stoa::comm
