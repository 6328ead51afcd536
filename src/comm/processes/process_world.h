// The ranks of a job that are processes. One thread per process, the one that made the world, calls it:
// messages move while it posts, asks or waits.
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
  // A wait longer than `timeout` fails the job by name of who is missing: the ranks that are waited for are
  // asked, and those that they wait for, and some seconds later whoever has not answered is it. All ranks
  // make their world together; where that fails the process ends. `stop`: as in obey().
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

  // This rank's end of a group that it is a member of. `number`, from 0 to kGroups - 1, is that of the kind
  // of group, the same on all members. Groups of one number have no common member, so that two ranks and a
  // number name one group: messages find it whatever groups a rank made before. The members meet here:
  // CommError when they disagree.
  std::unique_ptr<Communicator> create(int number, const std::string& label, std::span<const int> ranks);
  static constexpr int kGroups = 31;

  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  // From now on a wait ends with Interrupted `grace` after a stop was asked for.
  void obey(std::stop_token stop, std::chrono::milliseconds grace = {});

  // The lowest rank whose exit status `code` is not 0, and its code; rank -1 where there is none. Collective.
  struct Failed {
    int rank = -1, code = 0;
  };
  Failed first_failed(int code);
  // The text of rank `rank`, on all ranks. Collective.
  std::string text_of(int rank, const std::string& text);

  // The texts of all ranks, of at most 63 characters each. Collective.
  std::vector<std::string> gather(const std::string& text);
  // What this rank does while others wait for it, on a thread of its own that does not communicate: asked by
  // those who wait, the rank answers that it `text` ("indexes the data"), so that they wait on. Where the job
  // fails or is stopped meanwhile, the process ends.
  void apart(const std::string& text, const std::function<void()>& body);

  // Tells every rank that this one fails. Whoever waits or calls from then on throws CommError with the first
  // failure's message. `code`: the exit status of all.
  void abort(const std::string& message, int code = 1);
  bool aborted() const { return aborted_; }
  const std::string& failure() const { return failure_; }
  void throw_if_aborted() const;

  // The good end, on all ranks. Afterwards nothing may be called.
  void finish();
  // The bad end: of all ranks. Waits a little for the others to tell what they have to tell.
  [[noreturn]] void end_job(int status);
  // The same because of an error, which is told on standard error by the rank where it arose; an interruption
  // by rank 0.
  [[noreturn]] void end_job(const std::exception& error);

  // For communicators.
  ProcessLink& link() { return *link_; }
  int tag(int group, int kind, std::uint64_t number) const;
  void start(std::shared_ptr<ProcessOperation> operation);
  bool poll(const ProcessOperation& operation);  // moves all operations on; CommError when the job failed
  void wait(const ProcessOperation& operation);
  // Memory that returns to the world for the next operation.
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
  // What this rank answers while it waits or works, and who has asked since it last did.
  std::function<WaitState()> state_;
  std::vector<Notice> questions_;
  WaitChain* inquiry_ = nullptr;  // of this rank, numbered
  std::uint32_t inquiries_ = 0;
  std::stop_token stop_;
  std::chrono::milliseconds stop_grace_{0};
  std::optional<std::chrono::steady_clock::time_point> stop_seen_;
  std::string failure_;
  int code_ = 1;
  bool aborted_ = false, own_failure_ = false, finished_ = false;
};

}  // namespace stoa::comm
