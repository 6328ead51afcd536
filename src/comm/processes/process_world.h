// A job whose ranks are processes. Only the thread that made the world calls it; messages make progress only
// while it posts, polls or waits.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/processes/notices.h"
#include "comm/processes/process_link.h"
#include "comm/processes/process_operation.h"

namespace stoa::comm {

class ProcessWorld {
 public:
  // A wait longer than `timeout` fails the job and names the rank at fault: the ranks that are waited for are
  // asked what they wait for, then those, and a rank that has not answered some seconds later is at fault.
  // The constructor is collective; if it fails, the process ends. `stop`: as in obey().
  explicit ProcessWorld(std::unique_ptr<ProcessLink> link,
                        std::chrono::milliseconds timeout = std::chrono::minutes(10),
                        std::stop_token stop = {});
  ~ProcessWorld();  // without finish(): ends the job as failed
  ProcessWorld(const ProcessWorld&) = delete;
  ProcessWorld& operator=(const ProcessWorld&) = delete;

  int rank() const { return link_->rank(); }
  int size() const { return link_->size(); }
  int ranks_on_this_host() const { return link_->ranks_on_this_host(); }
  int rank_on_this_host() const { return link_->rank_on_this_host(); }
  const std::string& host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  std::string rank_name(int rank) const;  // "rank 5@n02"

  // This rank's communicator for a group that it is a member of. `number`, from 0 to kGroups - 1, identifies
  // the kind of group, the same on all members. Groups of one number are disjoint, so that two ranks and a
  // number identify a group, whatever groups a rank made before. Collective over the members: CommError if
  // their arguments differ.
  std::unique_ptr<Communicator> create(int number, const std::string& label, std::span<const int> ranks);
  static constexpr int kGroups = 31;

  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  // From now on a wait ends with Interrupted `grace` after a stop was asked for.
  void obey(std::stop_token stop, std::chrono::milliseconds grace = {});

  // A stop that is requested here is reported to rank 0, which calls `told` while it waits or works.
  void tell_first(std::stop_token stop);
  void when_told(std::function<void(int rank)> told) { told_ = std::move(told); }

  // The lowest rank whose exit status `code` is not 0, and its code; rank -1 where there is none. Collective.
  struct Failed {
    int rank = -1, code = 0;
  };
  Failed first_failed(int code);
  // The text of rank `rank`, on all ranks. Collective.
  std::string text_of(int rank, const std::string& text);

  // The texts of all ranks, of at most 63 characters each. Collective.
  std::vector<std::string> gather(const std::string& text);
  // Runs `body`, which must not communicate, on a thread of its own while other ranks wait for this one: when
  // they ask, the rank answers with `text` ("indexes the data"), so that they keep waiting. If the job fails
  // or is stopped meanwhile, the process ends.
  void apart(const std::string& text, const std::function<void()>& body);

  // Tells every rank that this one fails. Whoever waits or calls from then on throws CommError with the first
  // failure's message. `code`: the exit status of all.
  void abort(const std::string& message, int code = 1);
  bool aborted() const { return aborted_; }
  const std::string& failure() const { return failure_; }
  void throw_if_aborted() const;

  // Ends a successful job, on all ranks. Nothing may be called afterwards.
  void finish();
  // Ends a failed job on all ranks, after a short grace period for pending failure notices.
  [[noreturn]] void end_job(int status);
  // The same after `error`. Standard error gets its message from the rank where it arose; an interruption is
  // reported by rank 0.
  [[noreturn]] void end_job(const std::exception& error);

  // For communicators.
  ProcessLink& link() { return *link_; }
  int tag(int group, int kind, std::uint64_t number) const;
  void start(std::shared_ptr<ProcessOperation> operation);
  bool poll(const ProcessOperation& operation);  // progress on all operations; CommError if the job failed
  void wait(const ProcessOperation& operation);
  // A staging buffer of at least `bytes`; when released, it is kept for later operations.
  std::shared_ptr<std::byte[]> staging(std::size_t bytes);

 private:
  struct Spare {
    std::size_t bytes;
    std::unique_ptr<std::byte[]> memory;
  };

  std::unique_ptr<Communicator> join(int number, const std::string& label, std::span<const int> ranks);
  void progress();
  void hear();
  void answer();
  void look_for_stop(const std::string& what);
  void hold_inquiry(const ProcessOperation& operation, std::chrono::steady_clock::time_point begin);
  [[noreturn]] void fail_job(std::string failure, int code);

  std::unique_ptr<ProcessLink> link_;
  std::chrono::milliseconds timeout_;
  int spins_ = 0;
  std::unique_ptr<Communicator> everyone_;
  std::vector<std::string> hosts_;
  std::vector<Spare> spare_;
  std::vector<std::shared_ptr<ProcessOperation>> active_;
  std::unique_ptr<Notices> notices_;
  // What this rank answers while it waits or works, and the questions that are still to be answered.
  std::function<WaitState()> state_;
  std::vector<Notice> questions_;
  WaitChain* inquiry_ = nullptr;  // of this rank, numbered
  std::uint32_t inquiries_ = 0;
  std::stop_token stop_;
  std::chrono::milliseconds stop_grace_{0};
  std::optional<std::chrono::steady_clock::time_point> stop_seen_;
  std::optional<std::stop_token> to_tell_;  // until rank 0 knows
  std::function<void(int rank)> told_;
  std::string failure_;
  int code_ = 1;
  bool aborted_ = false, own_failure_ = false, finished_ = false;
};

}  // namespace stoa::comm
