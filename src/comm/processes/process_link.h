// How the processes of a job reach each other: messages between two of them, and a common end. One thread of
// each process uses it.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace stoa::comm {

class ProcessLink {
 public:
  virtual ~ProcessLink() = default;  // all ranks together, all transfers done

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int ranks_on_this_host() const = 0;
  virtual int rank_on_this_host() const = 0;
  virtual int largest_tag() const = 0;

  // Transfers that are under way, by handle. Messages of one (source, tag) arrive in the order of their
  // sending. `peer` -1: from anyone.
  using Handle = void*;
  virtual Handle send(const void* data, std::size_t bytes, int peer, int tag) = 0;
  virtual Handle receive(void* data, std::size_t bytes, int peer, int tag) = 0;
  struct Done {
    std::size_t bytes = 0;  // received
    int peer = -1;
  };
  // Nothing: not yet. Otherwise, after an error too, the handle is gone. CommError when a message does not
  // fit or the peer (of -1: any that has nothing more for us) is gone.
  virtual std::optional<Done> test(Handle handle) = 0;
  virtual void cancel(Handle handle) noexcept = 0;

  // Ends the whole job with this status, once all other ranks have called it too or `grace` is over.
  [[noreturn]] virtual void end_job(int status, std::chrono::milliseconds grace) noexcept = 0;
};

}  // namespace stoa::comm
