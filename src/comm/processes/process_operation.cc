#include "comm/processes/process_operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace stoa::comm {
namespace {

constexpr std::size_t kLargestMessage = std::size_t{1} << 30;  // MPI counts in int

}  // namespace

void ProcessOperation::send(const void* data, std::size_t bytes, int peer) {
  const auto* p = static_cast<const std::byte*>(data);
  do {
    const std::size_t part = std::min(bytes, kLargestMessage);
    open_.push_back({link_.send(p, part, peer, tag_), part, peer, false});
    p += part;
    bytes -= part;
  } while (bytes > 0);
}

void ProcessOperation::receive(void* data, std::size_t bytes, int peer) {
  auto* p = static_cast<std::byte*>(data);
  do {
    const std::size_t part = std::min(bytes, kLargestMessage);
    open_.push_back({link_.receive(p, part, peer, tag_), part, peer, true});
    p += part;
    bytes -= part;
  } while (bytes > 0);
}

bool ProcessOperation::advance() {
  for (;;) {
    for (std::size_t i = 0; i < open_.size();) {
      const Message message = open_[i];
      std::optional<ProcessLink::Done> done;
      try {
        done = link_.test(message.handle);
      } catch (const CommError& error) {
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
        fail<CommError>("{}: {}", text(), error.what());
      }
      if (!done) {
        ++i;
        continue;
      }
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      require<CommError>(!message.incoming || done->bytes == message.bytes,
                         "{}: rank {} sent {} bytes, {} were expected", text(), message.peer, done->bytes,
                         message.bytes);
    }
    if (!open_.empty()) return false;
    if (rounds_.empty()) return true;
    const auto action = std::move(rounds_.front());
    rounds_.pop_front();
    action();
  }
}

void ProcessOperation::withdraw() noexcept {
  for (const Message& message : open_) link_.cancel(message.handle);
  open_.clear();
  rounds_.clear();
}

std::string ProcessOperation::text() const {
  if (view_.data == nullptr) return fmt::format("{}: {}{}", group_, name_, activity_.text());
  return fmt::format("{}: {} {} ({} bytes){}", group_, name_, view_.text(), view_.bytes(), activity_.text());
}

std::vector<int> ProcessOperation::awaited() const {
  std::vector<int> ranks;
  for (const bool incoming : {true, false})
    for (const Message& message : open_)
      if (message.incoming == incoming && std::find(ranks.begin(), ranks.end(), message.peer) == ranks.end())
        ranks.push_back(message.peer);
  return ranks;
}

}  // namespace stoa::comm
