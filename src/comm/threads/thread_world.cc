#include "comm/threads/thread_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#include "comm/threads/thread_communicator.h"
#include "comm/threads/thread_group.h"

namespace stoa::comm {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

ThreadWorld::ThreadWorld(int size, std::chrono::milliseconds timeout,
                         std::optional<std::chrono::milliseconds> answer)
    : size_(size), timeout_(timeout), answer_(answer.value_or(answer_time(timeout))) {
  require<ConfigError>(size >= 1, "a world of threads has at least 1 rank, got {}", size);
  sides_.resize(static_cast<std::size_t>(size));
  answers_.resize(sides_.size());
  works_.resize(sides_.size());
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
  try {
    fail_all(fmt::format("rank {} failed: {}", rank, message));
  } catch (const CommError&) {
    // The caller knows.
  }
}

void ThreadWorld::fail_all(const std::string& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      failure_ = failure;
      aborted_ = true;
      for (const auto& group : groups_) group->wake();
    }
  }
  throw CommError(this->failure());
}

void ThreadWorld::apart(int rank, const std::string& text, const std::function<void()>& body) {
  const auto note = [&](std::optional<std::string> work) {
    const std::lock_guard lock(answers_mutex_);
    works_[rank] = std::move(work);
  };
  struct End {
    decltype(note)& tell;
    ~End() { tell(std::nullopt); }
  } end{note};
  note(text);
  body();
}

void ThreadWorld::answer(int rank, WaitState state) {
  const std::uint64_t inquiry = inquiries();
  const std::lock_guard lock(answers_mutex_);
  answers_[rank] = {inquiry, std::move(state)};
}

std::optional<std::string> ThreadWorld::inquire(int rank, const std::function<WaitState()>& state,
                                                const std::function<bool()>& over) {
  WaitChain chain(rank, state().awaited);
  const std::uint64_t number = ++inquiries_;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& group : groups_) group->wake();
  }
  std::uint64_t answered = 0;
  const auto deadline = Clock::now() + answer_;
  while (!over() && !chain.unanswered().empty() && Clock::now() < deadline) {
    if (answered != inquiries()) {  // others ask too
      answered = inquiries();
      answer(rank, state());
    }
    {
      const std::lock_guard lock(answers_mutex_);
      for (const int other : chain.unanswered())
        if (works_[other])
          chain.answer(other, {true, *works_[other], {}});
        else if (answers_[other].inquiry >= number)
          chain.answer(other, answers_[other].state);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (over() || chain.excused()) return std::nullopt;
  return chain.verdict([](int other) { return fmt::format("rank {}", other); });
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
