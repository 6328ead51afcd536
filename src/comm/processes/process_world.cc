#include "comm/processes/process_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <numeric>
#include <set>
#include <thread>

#include "base/checksum.h"
#include "base/error.h"
#include "base/timing.h"
#include "comm/processes/process_communicator.h"
#include "device/host/inline_stream.h"

namespace stoa::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFirstTag = 1;  // 0: of notices
constexpr int kKinds = 2;     // collectives, transfers
constexpr int kEveryone = ProcessWorld::kGroups;
constexpr int kProbes = 4000;  // polls before a waiting rank yields its core, if every rank has one
constexpr auto kPatience = std::chrono::milliseconds(20);  // of yielding before it sleeps between polls
constexpr auto kLong =
    std::chrono::seconds(1);  // of waiting before polls become rare: nothing is urgent then
constexpr auto kGrace = std::chrono::seconds(5);
constexpr auto kGoing = std::chrono::seconds(1);  // for sending a failure's notices
constexpr auto kTurn = std::chrono::milliseconds(30), kLastTurn = std::chrono::milliseconds(3000);
constexpr auto kPollInterval =
    std::chrono::milliseconds(2);  // between polls for questions while a rank works

}  // namespace

ProcessWorld::ProcessWorld(std::unique_ptr<ProcessLink> link, std::chrono::milliseconds timeout,
                           std::stop_token stop)
    : link_(std::move(link)), timeout_(timeout), stop_(std::move(stop)) {
  if (ranks_on_this_host() <= static_cast<int>(std::thread::hardware_concurrency())) spins_ = kProbes;
  hosts_.resize(static_cast<std::size_t>(size()));
  notices_ = std::make_unique<Notices>(*link_);
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  char name[64] = {};
  ::gethostname(name, sizeof name - 1);
  try {
    everyone_ = join(kEveryone, "everyone", ranks);
    hosts_ = gather(name);
  } catch (const std::exception& error) {
    end_job(error);
  }
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
  // Tags of collectives contain their number, so that two in flight differ; transfers on one tag are matched
  // by their order.
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

ProcessWorld::Failed ProcessWorld::first_failed(int code) {
  // Largest for the lowest failed rank: the number of ranks from it to the end, and its code.
  constexpr std::int64_t kCodes = 256;
  std::int64_t left = code != 0 ? (size() - rank()) * kCodes + code % kCodes : 0;
  InlineStream stream;
  everyone_->all_reduce(TensorView(&left, DType::kI64, {1}), ReduceOp::kMax, stream)->wait();
  if (left == 0) return {};
  return {size() - static_cast<int>(left / kCodes), static_cast<int>(left % kCodes)};
}

std::string ProcessWorld::text_of(int rank, const std::string& text) {
  InlineStream stream;
  auto length = static_cast<std::int64_t>(text.size());
  everyone_->broadcast(TensorView(&length, DType::kI64, {1}), rank, stream)->wait();
  std::string out = text;
  out.resize(static_cast<std::size_t>(length));
  if (length > 0) everyone_->broadcast(TensorView(out.data(), DType::kU8, {length}), rank, stream)->wait();
  return out;
}

void ProcessWorld::obey(std::stop_token stop, std::chrono::milliseconds grace) {
  stop_ = std::move(stop);
  stop_grace_ = grace;
  stop_seen_.reset();
}

void ProcessWorld::tell_first(std::stop_token stop) {
  if (rank() > 0) to_tell_ = std::move(stop);
}

void ProcessWorld::look_for_stop(const std::string& what) {
  if (!stop_.stop_requested()) return;
  const auto now = Clock::now();
  if (!stop_seen_) stop_seen_ = now;
  if (now >= *stop_seen_ + stop_grace_)
    throw Interrupted(fmt::format("{} was interrupted: {}", rank_name(rank()), what));
}

void ProcessWorld::fail_job(std::string failure, int code) {
  if (!aborted_) {
    aborted_ = own_failure_ = true;
    failure_ = std::move(failure);
    code_ = code;
    Notice notice{Notice::Kind::kFailure, -1, code};
    notice.state.text = failure_;
    for (int r = 0; r < size(); ++r)
      if (r != rank()) notices_->send(r, notice);
    const auto deadline = Clock::now() + kGoing;
    while (!notices_->all_sent() && Clock::now() < deadline) ::sched_yield();
  }
  throw CommError(failure_);
}

void ProcessWorld::abort(const std::string& message, int code) {
  try {
    fail_job(fmt::format("{} failed: {}", rank_name(rank()), message), code);
  } catch (const CommError&) {
    // The caller knows.
  }
}

void ProcessWorld::throw_if_aborted() const {
  if (aborted_) throw CommError(failure_);
}

void ProcessWorld::finish() {
  throw_if_aborted();
  everyone_->barrier();
  everyone_.reset();
  notices_.reset();
  finished_ = true;
  active_.clear();
  link_.reset();
}

void ProcessWorld::end_job(int status) {
  for (const auto& operation : active_) operation->withdraw();
  notices_.reset();
  link_->end_job(status, kGrace);
  std::abort();  // GCC 12 does not see that a virtual call does not return
}

void ProcessWorld::end_job(const std::exception& error) {
  const auto* const own = dynamic_cast<const Error*>(&error);
  try {
    if (!aborted_ && dynamic_cast<const Interrupted*>(&error))
      fail_job(error.what(), own->exit_code());
    else if (!aborted_)
      abort(error.what(), own ? own->exit_code() : 1);
  } catch (const CommError&) {
  }
  const bool interrupted = code_ == Interrupted("").exit_code();
  if (interrupted ? rank() == 0 : own_failure_) std::fprintf(stderr, "ERROR %s\n", failure_.c_str());
  std::fflush(nullptr);
  end_job(code_);
}

void ProcessWorld::start(std::shared_ptr<ProcessOperation> operation) {
  throw_if_aborted();
  active_.push_back(std::move(operation));
  progress();
}

void ProcessWorld::hear() {
  try {
    while (const auto notice = notices_->take()) {
      if (notice->kind == Notice::Kind::kQuestion) {
        questions_.push_back(*notice);
      } else if (notice->kind == Notice::Kind::kAnswer) {
        if (inquiry_ && notice->number == inquiries_) inquiry_->answer(notice->from, notice->state);
      } else if (notice->kind == Notice::Kind::kStop) {
        if (told_) told_(notice->from);
      } else if (!aborted_) {
        aborted_ = true;
        failure_ = notice->state.text;
        code_ = notice->code;
      }
    }
  } catch (const CommError& error) {  // a rank is gone
    fail<CommError>("{}{}", active_.empty() ? "" : active_.front()->text() + ": ", error.what());
  }
}

void ProcessWorld::answer() {
  for (const Notice& question : questions_)
    notices_->send(question.from, {Notice::Kind::kAnswer, -1, 0, question.number, state_()});
  questions_.clear();
}

void ProcessWorld::progress() {
  if (to_tell_ && to_tell_->stop_requested()) {
    to_tell_.reset();
    notices_->send(0, {Notice::Kind::kStop});
  }
  if (!aborted_) hear();
  throw_if_aborted();
  for (std::size_t i = 0; i < active_.size();) {
    const std::shared_ptr<ProcessOperation> operation = active_[i];
    bool done = false;
    try {
      done = operation->advance();
    } catch (const CommError&) {
      // The connection may have ended after a failure notice that arrived with the end: the notice says why.
      hear();
      throw_if_aborted();
      throw;
    }
    if (done)
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
}

bool ProcessWorld::poll(const ProcessOperation& operation) {
  if (operation.done()) return true;
  progress();
  if (operation.done()) return true;
  if (!questions_.empty()) {
    state_ = [&] { return WaitState{false, operation.text(), operation.awaited()}; };
    answer();
  }
  return false;
}

void ProcessWorld::wait(const ProcessOperation& operation) {
  for (int i = 0; i <= spins_; ++i)
    if (poll(operation)) return;
  const auto begin = Clock::now();
  auto tired = begin + timeout_;
  while (!poll(operation)) {
    look_for_stop(operation.text());
    const auto now = Clock::now();
    if (now >= tired) {
      hold_inquiry(operation, begin);
      tired = Clock::now() + timeout_;
    }
    if (now > begin + kPatience)
      std::this_thread::sleep_for(std::chrono::microseconds(now > begin + kLong ? 500 : 50));
    else
      ::sched_yield();
  }
}

// Returns where the wait is worth continuing.
void ProcessWorld::hold_inquiry(const ProcessOperation& operation, Clock::time_point begin) {
  WaitChain chain(rank(), operation.awaited());
  struct Hearing {
    WaitChain*& inquiry;
    ~Hearing() { inquiry = nullptr; }
  } hearing{inquiry_};
  inquiry_ = &chain;
  Notice question{Notice::Kind::kQuestion};
  question.number = ++inquiries_;
  std::set<int> asked;
  const auto deadline = Clock::now() + answer_time(timeout_);
  while (!poll(operation) && !chain.unanswered().empty() && Clock::now() < deadline) {
    for (const int other : chain.unanswered())
      if (asked.insert(other).second) notices_->send(other, question);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (operation.done() || chain.excused()) return;
  // Several ranks may find this at the same time: they take turns, and only the first reports it.
  const auto turn = Clock::now() + std::min(kTurn * rank(), kLastTurn);
  while (Clock::now() < turn) {
    if (poll(operation)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fail_job(fmt::format("{} waits {:.1f} s: {}; {}", rank_name(rank()), seconds_since(begin), operation.text(),
                       chain.verdict([&](int other) { return rank_name(other); })),
           1);
}

void ProcessWorld::apart(const std::string& text, const std::function<void()>& body) {
  auto work = std::async(std::launch::async, body);
  state_ = [&] { return WaitState{true, text, {}}; };
  while (work.wait_for(kPollInterval) != std::future_status::ready) {
    try {
      progress();
      answer();
      look_for_stop(text);
    } catch (const std::exception& error) {
      end_job(error);  // the body cannot be stopped
    }
  }
  work.get();
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
