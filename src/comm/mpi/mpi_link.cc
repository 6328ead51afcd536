// Compiled where Open MPI was found. The only file that includes mpi.h.
#include "comm/mpi/mpi_link.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "comm/processes/process_launch.h"

namespace stoa::comm {
namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

void check(int code, const char* call) {
  require<CommError>(code == MPI_SUCCESS, "{}: {}", call, text_of(code));
}

// While it lives: ends the process after a time, or on a stop.
class Watch {
 public:
  Watch(const char* call, std::chrono::milliseconds timeout, std::stop_token stop)
      : thread_([call, timeout, stop = std::move(stop)](const std::stop_token& done) {
          const auto end = std::chrono::steady_clock::now() + timeout;
          std::mutex mutex;
          std::condition_variable_any ended;
          std::unique_lock lock(mutex);
          while (!done.stop_requested()) {
            const bool stopped = stop.stop_requested();
            if (stopped || std::chrono::steady_clock::now() >= end) {
              const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
              const char* const slurm = std::getenv("SLURM_PROCID");
              const std::string name = fmt::format("rank {}", rank ? rank : slurm ? slurm : "?");
              if (stopped)
                std::fprintf(stderr, "ERROR %s was interrupted in %s\n", name.c_str(), call);
              else
                std::fprintf(
                    stderr,
                    "ERROR %s waits %.1f s: %s, which returns when all ranks of the job have called it\n",
                    name.c_str(), std::chrono::duration<double>(timeout).count(), call);
              std::fflush(stderr);
              std::_Exit(stopped ? Interrupted("").exit_code() : 1);
            }
            ended.wait_for(lock, done, std::chrono::milliseconds(20), [] { return false; });
          }
        }) {}

 private:
  std::jthread thread_;
};

class OpenMpiLink final : public ProcessLink {
 public:
  OpenMpiLink(std::chrono::milliseconds timeout, std::stop_token stop)
      : owner_(std::this_thread::get_id()), timeout_(timeout) {
    const Watch watch("MPI_Init", timeout, std::move(stop));
    int running = 0;
    MPI_Initialized(&running);
    require<InternalError>(!running, "MPI is started once per process");
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    require<ConfigError>(provided >= MPI_THREAD_FUNNELED, "this MPI supports single-threaded programs only");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world_, &rank_);
    MPI_Comm_size(world_, &size_);
    MPI_Comm host = MPI_COMM_NULL;
    check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    MPI_Comm_size(host, &on_this_host_);
    MPI_Comm_rank(host, &rank_on_this_host_);
    MPI_Comm_free(&host);
    int* bound = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
    if (found) largest_tag_ = *bound;
  }
  ~OpenMpiLink() override {
    const Watch watch("MPI_Finalize", timeout_, {});
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int ranks_on_this_host() const override { return on_this_host_; }
  int rank_on_this_host() const override { return rank_on_this_host_; }
  int largest_tag() const override { return largest_tag_; }

  Handle send(const void* data, std::size_t bytes, int peer, int tag) override {
    auto request = own();
    check(MPI_Isend(data, count(bytes), MPI_BYTE, peer, tag, world_, request.get()), "MPI_Isend");
    return request.release();
  }
  Handle receive(void* data, std::size_t bytes, int peer, int tag) override {
    auto request = own();
    check(
        MPI_Irecv(data, count(bytes), MPI_BYTE, peer < 0 ? MPI_ANY_SOURCE : peer, tag, world_, request.get()),
        "MPI_Irecv");
    return request.release();
  }
  std::optional<Done> test(Handle handle) override {
    auto* const request = static_cast<MPI_Request*>(handle);
    int done = 0, received = 0;
    MPI_Status status{};
    const int code = MPI_Test(request, &done, &status);
    if (code == MPI_SUCCESS && !done) return std::nullopt;
    delete request;
    require<CommError>(code == MPI_SUCCESS, "a message of rank {} does not fit: {}", status.MPI_SOURCE,
                       text_of(code));
    MPI_Get_count(&status, MPI_BYTE, &received);
    return Done{static_cast<std::size_t>(std::max(received, 0)), status.MPI_SOURCE};
  }
  void cancel(Handle handle) noexcept override {
    auto* const request = static_cast<MPI_Request*>(handle);
    MPI_Cancel(request);
    MPI_Request_free(request);
    delete request;
  }

  [[noreturn]] void end_job(int status, std::chrono::milliseconds grace) noexcept override {
    MPI_Request together = MPI_REQUEST_NULL;
    const auto deadline = std::chrono::steady_clock::now() + grace;
    if (MPI_Ibarrier(world_, &together) == MPI_SUCCESS) {
      int done = 0;
      while (!done && std::chrono::steady_clock::now() < deadline) {
        if (MPI_Test(&together, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

 private:
  std::unique_ptr<MPI_Request> own() const {
    require<InternalError>(std::this_thread::get_id() == owner_,
                           "MPI is called by the thread that started it");
    return std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
  }
  static int count(std::size_t bytes) {
    require<InternalError>(bytes <= INT_MAX, "a message of {} bytes", bytes);
    return static_cast<int>(bytes);
  }

  const std::thread::id owner_;
  const std::chrono::milliseconds timeout_;
  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, on_this_host_ = 1, rank_on_this_host_ = 0;
  int largest_tag_ = 32767;  // what the standard promises
};

}  // namespace

bool built_with_mpi() { return true; }
std::unique_ptr<ProcessLink> open_mpi_link(std::chrono::milliseconds timeout, std::stop_token stop) {
  auto link = std::make_unique<OpenMpiLink>(timeout, std::move(stop));
  const int launched = process_launch().mpi_ranks;
  require<ConfigError>(
      link->size() > 1 || launched <= 1,
      "the launcher started {} processes, but MPI sees one: under Slurm use srun --mpi=pmix, "
      "or set MASTER_ADDR and MASTER_PORT for ranks that connect without MPI",
      launched);
  return link;
}

}  // namespace stoa::comm
