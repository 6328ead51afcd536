// The ranks of a run: threads of this process, or processes started by mpirun, srun or a launcher without MPI
// (RANK, WORLD_SIZE). The environment decides which.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/error.h"
#include "comm/nccl/nccl_api.h"
#include "grid/rank_grid.h"
#include "parallel/context_place.h"
#include "parallel/parallel_context.h"

namespace stoa::comm {
class ProcessWorld;
}

namespace stoa::train {

// How long processes wait for each other before run() sets its own limits.
struct LaunchPatience {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::stop_token stop = {};  // ends every wait before run() at once, and the last one after `grace`
  std::chrono::milliseconds grace = std::chrono::seconds(30);
};

struct LaunchOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of a wait for another rank
  bool check = false;                   // ranks compare their requests before any data moves
  bool bind_cores = false;              // pin ranks that are threads to a share of the cores each
  parallel::ContextPlace context = {};  // of any rank: determines the routes between ranks
  // Loads NCCL, for ranks that have a GPU each.
  std::function<comm::NcclApi()> nccl = comm::NcclApi::load;
};

// One rank's place in the run.
struct Seat {
  int rank = 0;
  int ranks_on_host = 1;  // which share its cores
  int place_on_host = 0;  // index among them: selects its GPU
  // Call once. ConfigError if within one process some ranks share a GPU and others do not, or if processes
  // share one.
  std::function<parallel::ParallelContext(Device&)> context;
  // Called before an error frees what the rank holds: ends the other ranks of this process, and aborts work
  // on the rank's GPU that waits for other ranks.
  std::function<void(const std::string& why)> on_failure = [](const std::string&) {};
  // Runs `body` without the other ranks while they may wait for this one, however long it takes: a rank that
  // asks gets `text` as the answer ("writes the checkpoint").
  std::function<void(const std::string& text, const std::function<void()>& body)> apart =
      [](const std::string&, const std::function<void()>& body) { body(); };
  // Where ranks are processes: once `own` is requested on one of the others, rank 0's `told` gets its name.
  // On rank 0's thread that communicates.
  std::function<void(std::stop_token own, std::function<void(const std::string& rank)> told)> share_stop =
      [](const std::stop_token&, const std::function<void(const std::string&)>&) {};
  std::string name = "rank 0";  // "rank 5@n02"
  bool first() const { return rank == 0; }
};

// The seat of a run with a single rank.
Seat only_seat();

// With what a process ends that failed with this error.
int exit_status(const std::exception& error);

// Ends a process whose error message another process prints.
class SilentEnd : public Error {
 public:
  explicit SilentEnd(int code) : Error(""), code_(code) {}
  int exit_code() const noexcept override { return code_; }

 private:
  int code_;
};

class Launch {
 public:
  // Joins the other processes if a launcher started several: by MPI or, without it, by TCP. `program` must be
  // the same for all: version and commit. ConfigError, CommError and Interrupted as process_launch() and
  // meet(). A wait for other processes that times out, here and in the functions below, ends the process
  // after a message that names the missing rank.
  explicit Launch(std::string_view program = {}, LaunchPatience patience = {});
  ~Launch();

  // "threads", "mpi" or "tcp".
  std::string_view kind() const { return kind_; }
  // How many ranks run, if the launcher or `asked` (--ranks) determines it. ConfigError if they disagree.
  std::optional<std::int64_t> agreed_ranks(std::optional<std::int64_t> asked) const;
  // ConfigError if LaunchOptions::bind_cores cannot apply: the ranks are processes.
  void require_bindable() const;
  bool first_process() const { return first_process_; }
  int threads_on_host(int ranks) const;  // ranks on this host, given the total

  // Runs `body` on every process before there are ranks, on the first process before the others: reading the
  // configuration, indexing the data. It may take any time. An error is reported once, and its exit status is
  // that of all processes. May be called several times.
  void prepare(const std::function<void()>& body);

  // What text() returns on the first process, on all. Like prepare(), but that the others do not call it.
  std::string told_by_first(const std::function<std::string()>& text);

  // Checks that all processes have the same text. `what`: "configuration", "data". Otherwise those that
  // differ from the majority, or from the first, are named with the first line that differs, in one message:
  // SilentEnd. Call only with several processes.
  void agree(std::string_view what, const std::function<std::string()>& text);
  // Checks that all processes see what the first one writes into `directory`, which is restored afterwards.
  // Otherwise one message names the rank that does not: SilentEnd.
  void require_shared(const std::filesystem::path& directory);

  // Runs body() on every rank. When one fails, all end within seconds, with its message and its name;
  // options.timeout limits waits for other ranks. Throws SilentEnd if another process prints the message.
  void run(const grid::RankGrid& grid, const LaunchOptions& options, const std::function<void(Seat&)>& body);

 private:
  void run_threads(const grid::RankGrid& grid, const LaunchOptions& options,
                   const std::function<void(Seat&)>& body);
  void run_process(const grid::RankGrid& grid, const LaunchOptions& options,
                   const std::function<void(Seat&)>& body);
  [[noreturn]] void end_together(int code);
  void together(const std::function<void()>& body);
  enum class Turns : std::uint8_t { kFirstBeforeOthers, kAllAtOnce };
  void prepare_all(const char* text, const std::function<void()>& body, Turns turns);

  std::string_view kind_ = "threads";
  bool first_process_ = true;
  LaunchPatience patience_;
  std::unique_ptr<comm::ProcessWorld> world_;
};

}  // namespace stoa::train
