// The few calls of MPI that Stoa makes, so that mpi.h stays in one file and a build without MPI has another.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace stoa::comm {

class MpiLink {
 public:
  // Starts MPI; once per process. The calling thread is the only one that may use the link. ConfigError
  // "built without MPI".
  static std::unique_ptr<MpiLink> open();
  static bool built();

  virtual ~MpiLink() = default;  // all ranks together, all transfers done: ends MPI
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int ranks_on_this_host() const = 0;
  virtual int largest_tag() const = 0;

  // Transfers that are under way, by handle. Messages of one (source, tag) arrive in the order of their
  // sending. `peer` -1: from anyone.
  using Handle = void*;
  virtual Handle send(const void* data, std::size_t bytes, int peer, int tag) = 0;
  virtual Handle receive(void* data, std::size_t bytes, int peer, int tag) = 0;
  // Nothing: not yet. Then the handle is gone. CommError when a message does not fit.
  struct Done {
    std::size_t bytes = 0;  // received
    int peer = -1;
  };
  virtual std::optional<Done> test(Handle handle) = 0;
  virtual void cancel(Handle handle) noexcept = 0;

  // Ends the whole job with this status, after the other ranks came here too or `grace` is over.
  [[noreturn]] virtual void end_job(int status, std::chrono::milliseconds grace) noexcept = 0;
};

}  // namespace stoa::comm
