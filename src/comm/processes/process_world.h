// The ranks of a job that are processes. One thread per process, the one that made the world, calls it:
// messages move while it posts, asks or waits.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/processes/process_link.h"
#include "comm/processes/process_operation.h"

namespace stoa::comm {

class ProcessWorld {
 public:
  // A wait longer than `timeout` fails the job by name of what is missing. All ranks make their world
  // together.
  explicit ProcessWorld(std::unique_ptr<ProcessLink> link,
                        std::chrono::milliseconds timeout = std::chrono::minutes(10));
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
  // The lowest rank that says yes, or -1. Collective.
  int first_of(bool yes);
  // Rank 0's text, on all ranks. Collective.
  std::string of_first_rank(const std::string& text);

  // The texts of all ranks, of at most 63 characters each. Collective.
  std::vector<std::string> gather(const std::string& text);
  // Tells every rank that this one fails. Whoever waits or calls from then on throws CommError with the first
  // failure's message.
  void abort(const std::string& message);
  bool aborted() const { return aborted_; }
  const std::string& failure() const { return failure_; }
  void throw_if_aborted() const;

  // The good end, on all ranks. Afterwards nothing may be called.
  void finish();
  // The bad end: of all ranks. Waits a little for the others to tell what they have to tell.
  [[noreturn]] void end_job(int status);

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
  void listen();

  std::unique_ptr<ProcessLink> link_;
  std::chrono::milliseconds timeout_;
  int spins_ = 0;
  std::unique_ptr<Communicator> everyone_;
  std::vector<std::string> hosts_;
  std::vector<Spare> spare_;
  std::vector<std::shared_ptr<ProcessOperation>> active_;
  std::vector<char> notice_;  // of another rank's failure
  ProcessLink::Handle notice_handle_ = nullptr;
  std::string failure_;
  bool aborted_ = false, finished_ = false;
};

}  // namespace stoa::comm
