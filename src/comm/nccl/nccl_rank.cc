#include "comm/nccl/nccl_rank.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace stoa::comm {
namespace {

constexpr auto kWatchInterval = std::chrono::milliseconds(100);

}  // namespace

NcclRank::NcclRank(NcclApi api, SharableDevice& device, std::chrono::milliseconds timeout,
                   std::function<std::string()> others)
    : api_(std::move(api)),
      device_(device),
      timeout_(timeout),
      others_(std::move(others)),
      collectives_(device.create_urgent_stream()),
      watch_([this](const std::stop_token& stop) {
        Lock lock(mutex_);
        device_.use_in_this_thread();
        while (!stopped_.wait_for(lock, stop, kWatchInterval, [] { return false; }) && !stop.stop_requested())
          look(lock);
      }) {}

NcclRank::~NcclRank() {
  watch_.request_stop();
  watch_.join();
  for (NativeStream* const recorder : recorders_) recorder->leave(*this);
}

void NcclRank::check(int status, const std::string& what) const {
  if (status == kNcclSuccess || status == kNcclInProgress) return;
  throw_if_failed();  // report the cause rather than its consequences
  fail<CommError>("{}: NCCL: {}", what, api_.status_name(status));
}

void NcclRank::throw_if_failed() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw CommError(failure_);
}

void NcclRank::give_up(const std::string& failure) {
  drop_recordings();
  Lock lock(mutex_);
  if (failure_.empty()) fail_all(failure, lock);
}

void NcclRank::drop_recordings() {
  for (NativeStream* const recorder : recorders_) recorder->drop_recording();
}

void NcclRank::open(const std::string& label, NcclHandle handle) {
  const std::lock_guard lock(mutex_);
  links_.push_back({label, handle});
}

void NcclRank::close(NcclHandle handle) {
  drop_recordings();
  {
    const std::lock_guard lock(mutex_);
    // After a failure the watch thread has already aborted the communicator.
    if (std::erase_if(links_, [&](const Link& link) { return link.handle == handle; }) == 0) return;
  }
  api_.destroy(handle);
}

void NcclRank::watch(std::string text, std::shared_ptr<Event> done) {
  const std::lock_guard lock(mutex_);
  std::erase_if(watched_, [](const Watched& operation) { return operation.done->ready(); });
  watched_.push_back({std::move(text), std::move(done), std::chrono::steady_clock::now()});
}

std::shared_ptr<NcclRank::Operation> NcclRank::submitted(std::string text, std::shared_ptr<Event> done,
                                                         Stream& asker) {
  auto* const recorder = dynamic_cast<NativeStream*>(&asker);
  if (recorder && recorder->records() && recorders_.insert(recorder).second) recorder->accompany(*this);
  auto operation =
      std::make_shared<Operation>(Operation{std::move(done), asker, recorder && recorder->recording()});
  if (!operation->recorded)
    watch(std::move(text), operation->done);
  else if (recorded_++ == 0)
    first_recorded_ = std::move(text);
  std::erase_if(outstanding_, [](const auto& earlier) { return earlier->ordered; });
  outstanding_.push_back(operation);
  return operation;
}

void NcclRank::join(Stream& recorder) {
  for (const auto& operation : outstanding_)
    if (&operation->asker == &recorder) operation->order();
}

void NcclRank::started(Stream& recorder) {
  if (recorded_ > 0)
    watch(fmt::format("a recorded step with {} operations from {} on", recorded_, first_recorded_),
          recorder.record());
  recorded_ = 0;
}

// With the lock held.
void NcclRank::look(Lock& lock) try {
  if (!failure_.empty()) return;
  if (std::string failure = others_ ? others_() : std::string(); !failure.empty())
    return fail_all(std::move(failure), lock);
  for (const Link& link : links_) {
    int status = kNcclSuccess;
    if (api_.async_error(link.handle, &status) == kNcclSuccess && status != kNcclSuccess &&
        status != kNcclInProgress)
      return fail_all(fmt::format("{}: NCCL: {}", link.label, api_.status_name(status)), lock);
  }
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(watched_, [](const Watched& operation) { return operation.done->ready(); });
  const auto late = std::find_if(watched_.begin(), watched_.end(),
                                 [&](const Watched& operation) { return now - operation.begin > timeout_; });
  if (late != watched_.end())
    fail_all(fmt::format("{} waited {:.1f} s on the GPU: not all ranks of the group came to it", late->text,
                         std::chrono::duration<double>(timeout_).count()),
             lock);
} catch (const Error& error) {  // the device is down
  fail_all(error.what(), lock);
}

// Aborts all communicators, so that work that waits on the GPU ends and the host can report the failure. The
// caller's lock is released meanwhile: NCCL's abort waits until no graph holds the communicator, and the
// rank's thread drops its graph once it has seen the failure. In parallel, since a graph may hold several.
void NcclRank::fail_all(std::string failure, Lock& lock) {
  failure_ = std::move(failure);
  const std::vector<Link> links = std::exchange(links_, {});
  watched_.clear();
  lock.unlock();
  {
    std::vector<std::jthread> aborts;
    for (const Link& link : links) aborts.emplace_back([&] { api_.abort(link.handle); });
  }
  lock.lock();
}

}  // namespace stoa::comm
