#include "comm/processes/process_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/checksum.h"
#include "base/error.h"
#include "comm/processes/process_communicator.h"
#include "device/host/inline_stream.h"

namespace stoa::comm {
namespace {

constexpr int kNoticeTag = 0;
constexpr std::size_t kNoticeBytes = 4096;
constexpr int kFirstTag = 1;
constexpr int kKinds = 2;  // collectives, transfers
constexpr int kEveryone = ProcessWorld::kGroups;
constexpr int kProbes = 4000;  // looks before a waiting rank gives its core away, when every rank has one
constexpr auto kPatience = std::chrono::milliseconds(20);  // of giving away before it sleeps in between
constexpr auto kGrace = std::chrono::seconds(5);

}  // namespace

ProcessWorld::ProcessWorld(std::unique_ptr<ProcessLink> link, std::chrono::milliseconds timeout)
    : link_(std::move(link)), timeout_(timeout), notice_(kNoticeBytes) {
  if (ranks_on_this_host() <= static_cast<int>(std::thread::hardware_concurrency())) spins_ = kProbes;
  hosts_.resize(static_cast<std::size_t>(size()));
  listen();
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  everyone_ = join(kEveryone, "everyone", ranks);
  char name[64] = {};
  ::gethostname(name, sizeof name - 1);
  hosts_ = gather(name);
  for (std::string& host : hosts_) host = host.substr(0, host.find('.'));
}

ProcessWorld::~ProcessWorld() {
  if (!finished_) end_job(1);
}

std::vector<std::string> ProcessWorld::gather(const std::string& text) {
  constexpr std::int64_t kLength = 64;
  std::string mine = text, all(static_cast<std::size_t>(kLength * size()), '\0');
  mine.resize(kLength - 1);
  mine.resize(kLength);
  InlineStream stream;
  everyone_
      ->all_gather(TensorView(mine.data(), DType::kU8, {kLength}),
                   TensorView(all.data(), DType::kU8, {kLength * size()}), stream)
      ->wait();
  std::vector<std::string> texts;
  for (int r = 0; r < size(); ++r) texts.emplace_back(all.data() + r * kLength);
  return texts;
}

std::string ProcessWorld::rank_name(int rank) const {
  const std::string& host = hosts_[static_cast<std::size_t>(rank)];
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {}@{}", rank, host);
}

int ProcessWorld::tag(int group, int kind, std::uint64_t number) const {
  // Collectives carry their number, so that two under way cannot meet; transfers are told apart by their
  // order.
  const int each = std::min(1 << 15, (link_->largest_tag() - kFirstTag + 1) / ((kGroups + 1) * kKinds));
  return kFirstTag + (group * kKinds + kind) * each +
         static_cast<int>(number % static_cast<std::uint64_t>(each));
}

std::unique_ptr<Communicator> ProcessWorld::create(int number, const std::string& label,
                                                   std::span<const int> ranks) {
  require<InternalError>(number >= 0 && number < kGroups, "the {} group has number {}: from 0 to {}", label,
                         number, kGroups - 1);
  return join(number, label, ranks);
}

std::unique_ptr<Communicator> ProcessWorld::join(int number, const std::string& label,
                                                 std::span<const int> ranks) {
  const std::vector<int> members(ranks.begin(), ranks.end());
  const auto me = std::find(members.begin(), members.end(), rank());
  require<ConfigError>(me != members.end(), "the {} group (ranks {}) is made on rank {}, which is no member",
                       label, fmt::join(members, ", "), rank());
  for (const int other : members)
    require<ConfigError>(
        other >= 0 && other < size() && std::count(members.begin(), members.end(), other) == 1,
        "the {} group (ranks {}) does not fit a world of {} ranks", label, fmt::join(members, ", "), size());
  const int place = static_cast<int>(me - members.begin());
  auto group = std::make_unique<ProcessCommunicator>(*this, label, members, place, number);
  const auto count = static_cast<std::int64_t>(members.size());
  std::int64_t mine = static_cast<std::int64_t>(
      checksum(std::string_view(fmt::format("{} {}", label, fmt::join(members, ",")))));
  std::vector<std::int64_t> all(members.size());
  InlineStream stream;
  group->all_gather(TensorView(&mine, DType::kI64, {1}), TensorView(all.data(), DType::kI64, {count}), stream)
      ->wait();
  for (std::int64_t m = 0; m < count; ++m)
    require<CommError>(all[m] == mine, "{} does not make the {} group (ranks {}) as {} does",
                       rank_name(members[m]), label, fmt::join(members, ", "), rank_name(rank()));
  return group;
}

int ProcessWorld::first_of(bool yes) {
  // The largest of what is left to the end.
  std::int64_t left = yes ? size() - rank() : 0;
  InlineStream stream;
  everyone_->all_reduce(TensorView(&left, DType::kI64, {1}), ReduceOp::kMax, stream)->wait();
  return left == 0 ? -1 : size() - static_cast<int>(left);
}

std::string ProcessWorld::of_first_rank(const std::string& text) {
  InlineStream stream;
  auto length = static_cast<std::int64_t>(text.size());
  everyone_->broadcast(TensorView(&length, DType::kI64, {1}), 0, stream)->wait();
  std::string out = text;
  out.resize(static_cast<std::size_t>(length));
  if (length > 0) everyone_->broadcast(TensorView(out.data(), DType::kU8, {length}), 0, stream)->wait();
  return out;
}

void ProcessWorld::listen() {
  notice_handle_ = link_->receive(notice_.data(), notice_.size(), -1, kNoticeTag);
}

void ProcessWorld::abort(const std::string& message) {
  if (aborted_) return;
  aborted_ = true;
  failure_ = fmt::format("{} failed: {}", rank_name(rank()), message);
  if (failure_.size() > kNoticeBytes) failure_.resize(kNoticeBytes);
  std::vector<ProcessLink::Handle> notices;
  for (int r = 0; r < size(); ++r)
    if (r != rank()) notices.push_back(link_->send(failure_.data(), failure_.size(), r, kNoticeTag));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!notices.empty() && std::chrono::steady_clock::now() < deadline) {
    std::erase_if(notices, [&](ProcessLink::Handle notice) {
      try {
        return link_->test(notice).has_value();
      } catch (const CommError&) {
        return true;  // a rank that is gone needs no notice
      }
    });
    ::sched_yield();
  }
}

void ProcessWorld::throw_if_aborted() const {
  if (aborted_) throw CommError(failure_);
}

void ProcessWorld::finish() {
  throw_if_aborted();
  timeout_ = std::chrono::hours(24);  // another rank may still be writing a checkpoint
  everyone_->barrier();
  everyone_.reset();
  link_->cancel(notice_handle_);
  finished_ = true;
  active_.clear();
  link_.reset();
}

void ProcessWorld::end_job(int status) {
  for (const auto& operation : active_) operation->withdraw();
  link_->end_job(status, kGrace);
  std::abort();  // GCC 12 does not see that a virtual call does not return
}

void ProcessWorld::start(std::shared_ptr<ProcessOperation> operation) {
  throw_if_aborted();
  active_.push_back(std::move(operation));
  progress();
}

void ProcessWorld::progress() {
  if (!aborted_ && notice_handle_) {
    std::optional<ProcessLink::Done> done;
    try {
      done = link_->test(notice_handle_);
    } catch (const CommError& error) {  // a rank is gone
      notice_handle_ = nullptr;
      fail<CommError>("{}{}", active_.empty() ? "" : active_.front()->text() + ": ", error.what());
    }
    if (done) {
      notice_handle_ = nullptr;
      aborted_ = true;
      failure_.assign(notice_.data(), done->bytes);
      listen();
    }
  }
  throw_if_aborted();
  for (std::size_t i = 0; i < active_.size();) {
    const std::shared_ptr<ProcessOperation> operation = active_[i];
    if (operation->advance())
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
}

bool ProcessWorld::poll(const ProcessOperation& operation) {
  if (operation.done()) return true;
  progress();
  return operation.done();
}

void ProcessWorld::wait(const ProcessOperation& operation) {
  for (int i = 0; i <= spins_; ++i)
    if (poll(operation)) return;
  const auto begin = std::chrono::steady_clock::now();
  while (!poll(operation)) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > timeout_) {
      std::vector<std::string> names;
      for (const int peer : operation.awaited()) names.push_back(rank_name(peer));
      const std::string message =
          fmt::format("{} waited {:.1f} s; nothing came from {}", operation.text(),
                      std::chrono::duration<double>(timeout_).count(), fmt::join(names, ", "));
      abort(message);
      throw CommError(message);
    }
    if (waited > kPatience)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    else
      ::sched_yield();
  }
}

std::shared_ptr<std::byte[]> ProcessWorld::staging(std::size_t bytes) {
  auto best = spare_.end();
  for (auto it = spare_.begin(); it != spare_.end(); ++it)
    if (it->bytes >= bytes && (best == spare_.end() || it->bytes < best->bytes)) best = it;
  Spare taken{bytes, nullptr};
  if (best != spare_.end()) {
    taken = std::move(*best);
    spare_.erase(best);
  } else {
    taken.memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  }
  std::byte* const memory = taken.memory.release();
  return {memory, [this, size = taken.bytes](std::byte* p) {
            spare_.push_back({size, std::unique_ptr<std::byte[]>(p)});
          }};
}

}  // namespace stoa::comm
