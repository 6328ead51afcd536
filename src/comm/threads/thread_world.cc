#include "comm/threads/thread_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#include "comm/threads/thread_communicator.h"
#include "comm/threads/thread_group.h"

namespace stoa::comm {

ThreadWorld::ThreadWorld(int size, std::chrono::milliseconds timeout) : size_(size), timeout_(timeout) {
  require<ConfigError>(size >= 1, "a world of threads has at least 1 rank, got {}", size);
  sides_.resize(static_cast<std::size_t>(size));
}

ThreadWorld::~ThreadWorld() = default;

std::vector<std::unique_ptr<Communicator>> ThreadWorld::create(const std::string& label,
                                                               std::span<const int> ranks) {
  require<ConfigError>(!ranks.empty(), "the {} group has no ranks", label);
  std::vector<int> members(ranks.begin(), ranks.end());
  for (const int rank : members) {
    require<ConfigError>(rank >= 0 && rank < size_, "the {} group names rank {}, the world has ranks 0 to {}",
                         label, rank, size_ - 1);
    require<ConfigError>(std::count(members.begin(), members.end(), rank) == 1,
                         "the {} group names rank {} twice", label, rank);
  }
  auto group = std::make_unique<ThreadGroup>(*this, label, std::move(members));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int i = 0; i < group->size(); ++i)
    communicators.push_back(std::make_unique<ThreadCommunicator>(*group, i));
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
  return communicators;
}

void ThreadWorld::abort(int rank, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  failure_ = fmt::format("rank {} failed: {}", rank, message);
  aborted_ = true;
  for (const auto& group : groups_) group->wake();
}

std::string ThreadWorld::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void ThreadWorld::throw_if_aborted() const {
  if (aborted()) throw CommError(failure());
}

void ThreadWorld::run(const std::function<void(int)>& body) {
  std::mutex first_mutex;
  std::exception_ptr first;
  const auto keep = [&](int rank, const std::string& message) {
    {
      const std::lock_guard lock(first_mutex);
      if (!first) first = std::current_exception();
    }
    abort(rank, message);
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) {
      try {
        threads.emplace_back([&, rank] {
          try {
            body(rank);
          } catch (const std::exception& error) {
            keep(rank, error.what());
          } catch (...) {
            keep(rank, "an exception of unknown type");
          }
        });
      } catch (const std::system_error& error) {  // the ranks that did start must not wait for this one
        keep(rank, fmt::format("its thread cannot be started: {}", error.what()));
        break;
      }
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace stoa::comm
