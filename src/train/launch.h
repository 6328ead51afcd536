// The ranks of a run: threads of this process, or processes that mpirun, srun or a launcher without MPI
// (RANK, WORLD_SIZE) started. Which, the environment says.
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

// How long processes wait for each other until run() says otherwise.
struct LaunchPatience {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::stop_token stop = {};  // ends every wait before run() at once, and the last one after `grace`
  std::chrono::milliseconds grace = std::chrono::seconds(30);
};

struct LaunchOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of a wait for another rank
  bool check = false;                   // ranks compare what they ask for before any data moves
  bool bind_cores = false;              // of ranks that are threads, each to its share of this process's
  parallel::ContextPlace context = {};  // of any rank: which of them send each other tensors
  // What joins ranks that have a GPU each.
  std::function<comm::NcclApi()> nccl = comm::NcclApi::load;
};

// One rank's place in the run.
struct Seat {
  int rank = 0;
  int ranks_on_host = 1;  // that share the cores
  int place_on_host = 0;  // among them: which GPU this one takes
  // Once. ConfigError where of the ranks of one process some share a GPU and others do not, or where
  // processes share one.
  std::function<parallel::ParallelContext(Device&)> context;
  // Told before an error takes down what the rank holds: other ranks of this process end, and nothing on the
  // rank's GPU waits for others any more.
  std::function<void(const std::string& why)> on_failure = [](const std::string&) {};
  // What this rank does without the others while they may wait for it, however long it takes: whoever asks
  // learns that it `text` ("writes the checkpoint").
  std::function<void(const std::string& text, const std::function<void()>& body)> apart =
      [](const std::string&, const std::function<void()>& body) { body(); };
  bool first() const { return rank == 0; }
};

// Of a run of one rank.
Seat only_seat();

// The end of a process whose message another one tells.
class SilentEnd : public Error {
 public:
  explicit SilentEnd(int code) : Error(""), code_(code) {}
  int exit_code() const noexcept override { return code_; }

 private:
  int code_;
};

class Launch {
 public:
  // Joins the other processes where a launcher started several: by MPI or, without it, by TCP. `program`:
  // what all must run, version and commit. ConfigError, CommError and Interrupted as process_launch() and
  // meet(). Where processes wait for each other, here and in what follows, a wait that ends in vain ends the
  // process, after a message that names the rank that is missing.
  explicit Launch(std::string_view program = {}, LaunchPatience patience = {});
  ~Launch();

  // "threads", "mpi" or "tcp".
  std::string_view kind() const { return kind_; }
  // How many ranks run, where the launcher or `asked` (--ranks) says it. ConfigError when they do not agree.
  std::optional<std::int64_t> agreed_ranks(std::optional<std::int64_t> asked) const;
  // ConfigError where LaunchOptions::bind_cores has no meaning: the ranks are processes.
  void require_bindable() const;
  bool first_process() const { return first_process_; }
  int threads_on_host(int ranks) const;  // ranks of this host, of so many in all

  // What every process does before there are ranks, the first process first: reading the configuration,
  // indexing the data. It may take any time. An error is reported once, and its exit status is that of all.
  // Callable several times.
  void prepare(const std::function<void()>& body);

  // All processes see the same text, line by line. `what`: "configuration", "data". Otherwise those that
  // differ from most, or from the first, are named with the first line that differs: SilentEnd, told once.
  // Called where there are several processes.
  void agree(std::string_view what, const std::function<std::string()>& text);
  // All processes see what the first writes into `directory`, which is left as it was. Otherwise the rank
  // that does not is named: SilentEnd, told once.
  void require_shared(const std::filesystem::path& directory);

  // body() on every rank. When one fails, all end within seconds, with its message and its name. `timeout` of
  // a wait for another rank. Thrown here: on a process that is not to tell, SilentEnd.
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
