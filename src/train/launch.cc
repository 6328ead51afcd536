#include "train/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "base/cores.h"
#include "comm/mpi/mpi_link.h"
#include "comm/nccl/nccl_rank.h"
#include "comm/processes/process_launch.h"
#include "comm/processes/process_world.h"
#include "comm/tcp/tcp_link.h"
#include "comm/threads/thread_world.h"
#include "device/device_transfer.h"
#include "parallel/process_context.h"
#include "parallel/thread_contexts.h"
#include "parallel/thread_gpus.h"

namespace stoa::train {
namespace {

int code_of(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return own ? own->exit_code() : 1;
}

// The first lines of two texts that differ, without their indents.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream x(a), y(b);
  std::string one, other;
  do {
    one.clear();
    other.clear();
    std::getline(x, one);
    std::getline(y, other);
  } while (one == other && (x || y));
  const auto plain = [](const std::string& line) {
    return line.substr(std::min(line.find_first_not_of(' '), line.size()));
  };
  return {plain(one), plain(other)};
}

// A GPU for each process. The second of two that have the same one tells.
void require_own_device(comm::ProcessWorld& world, const std::string& identity) {
  const std::vector<std::string> all = world.gather(identity);
  for (int r = 0; r < world.rank(); ++r)
    require<ConfigError>(
        all[r] != identity || world.host(r) != world.host(world.rank()),
        "the GPU at {} is that of {} too: a process per GPU (LOCAL_RANK says which it takes, --cuda device=N "
        "otherwise). Ranks that share a GPU are threads: stoa train --ranks N without a launcher",
        identity, world.rank_name(r));
}

// An error with the rank's name, and the exit status that it had.
class RankError : public Error {
 public:
  RankError(const std::string& message, int code) : Error(message), code_(code) {}
  int exit_code() const noexcept override { return code_; }

 private:
  int code_;
};

}  // namespace

Seat only_seat() { return {.rank = 0, .ranks_on_host = 1, .context = parallel::ParallelContext::single}; }

Launch::Launch(std::string_view program) {
  const comm::ProcessLaunch launch = comm::process_launch();
  std::unique_ptr<comm::ProcessLink> link;
  if (launch.mpi_ranks > 1) {
    kind_ = "mpi";
    link = comm::open_mpi_link();
  } else if (launch.meeting) {
    kind_ = "tcp";
    link = comm::open_tcp_link(*launch.meeting, program);
  }
  // Until run(): the first process may index a lot of data while the others wait.
  if (link) world_ = std::make_unique<comm::ProcessWorld>(std::move(link), std::chrono::hours(24));
}

Launch::~Launch() = default;

std::optional<std::int64_t> Launch::agreed_ranks(std::optional<std::int64_t> asked) const {
  require<ConfigError>(!asked || (*asked >= 1 && *asked <= 65536),
                       "--ranks must be between 1 and 65536, got {}", asked.value_or(0));
  if (!world_) return asked;
  require<ConfigError>(!asked || *asked == world_->size(),
                       "--ranks {}, but the launcher started {} processes, a rank each", asked.value_or(0),
                       world_->size());
  return world_->size();
}

void Launch::require_bindable() const {
  require<ConfigError>(!world_,
                       "--bind-cores is for ranks that are threads; processes are bound by what starts them: "
                       "mpirun with --bind-to core");
}

bool Launch::first_process() const { return !world_ || world_->rank() == 0; }
int Launch::threads_on_host(int ranks) const { return world_ ? world_->ranks_on_this_host() : ranks; }

void Launch::end_together(int code) {
  world_->finish();
  world_.reset();
  throw SilentEnd(code);
}

void Launch::prepare(const std::function<void()>& body) {
  if (!world_) return body();
  for (const bool first_turn : {true, false}) {
    int code = 0;
    std::string problem;
    if (first_process() == first_turn) {
      try {
        body();
      } catch (const std::exception& error) {
        code = code_of(error);
        problem = error.what();
      }
    }
    const int failed = world_->first_of(code != 0);
    if (failed < 0) continue;
    if (failed == world_->rank())
      std::fprintf(stderr, "ERROR %s%s\n", failed == 0 ? "" : (world_->rank_name(failed) + ": ").c_str(),
                   problem.c_str());
    end_together(code ? code : 1);
  }
}

void Launch::agree(const std::function<std::string()>& configuration) {
  if (!world_) return;
  const std::string own = configuration(), first = world_->of_first_rank(own);
  prepare([&] {
    if (own == first) return;
    const auto [here, there] = first_difference(own, first);
    fail<ConfigError>("its configuration differs from that of {}: '{}' here, '{}' there",
                      world_->rank_name(0), here, there);
  });
}

void Launch::run(const grid::RankGrid& grid, const LaunchOptions& options,
                 const std::function<void(Seat&)>& body) {
  if (world_) {
    world_->set_timeout(options.timeout);
    run_process(grid, options, body);
  } else {
    run_threads(grid, options, body);
  }
}

void Launch::run_threads(const grid::RankGrid& grid, const LaunchOptions& options,
                         const std::function<void(Seat&)>& body) {
  if (grid.size() == 1) {
    Seat seat;
    seat.context = [](Device& device) { return parallel::ParallelContext::single(device); };
    return body(seat);
  }
  comm::ThreadWorld world(grid.size(), options.timeout);
  auto ends = parallel::make_ends(world, grid, options.check);
  parallel::ThreadGpus gpus(grid.size());
  try {
    world.run([&](int rank) {
      if (options.bind_cores) stay_on_share(rank, grid.size());
      std::unique_ptr<Stream> side;
      std::weak_ptr<comm::NcclRank> joined;
      Seat seat;
      seat.rank = seat.place_on_host = rank;
      seat.ranks_on_host = grid.size();
      seat.context = [&, rank](Device& device) {
        parallel::GroupEnds& own = ends[static_cast<std::size_t>(rank)];
        auto* const gpu = dynamic_cast<SharableDevice*>(&device);
        const auto everybody = static_cast<std::size_t>(parallel::Group::kWorld);
        if (!gpu || !gpus.own_each(gpu->identity(), *own.tensors[everybody])) {
          side = parallel::share_device(world, rank, device);
          return parallel::join(grid, rank, std::move(own));
        }
        const auto nccl = std::make_shared<comm::NcclRank>(options.nccl(), *gpu, options.timeout,
                                                           [&world] { return world.failure(); });
        joined = nccl;
        const parallel::OwnGpu one{nccl, options.context};
        return parallel::join(grid, rank, std::move(own), &one);
      };
      seat.on_failure = [&, rank](const std::string& why) {
        world.abort(rank, why);
        if (const auto nccl = joined.lock()) nccl->give_up(why);
      };
      body(seat);
    });
  } catch (const std::exception& error) {
    throw RankError(world.failure(), code_of(error));
  }
}

void Launch::run_process(const grid::RankGrid& grid, const LaunchOptions& options,
                         const std::function<void(Seat&)>& body) {
  std::weak_ptr<comm::NcclRank> joined;
  Seat seat;
  seat.rank = world_->rank();
  seat.ranks_on_host = world_->ranks_on_this_host();
  seat.place_on_host = world_->rank_on_this_host();
  seat.context = [&](Device& device) {
    auto* const gpu = dynamic_cast<SharableDevice*>(&device);
    if (!gpu || grid.size() == 1) return parallel::make_process_context(*world_, grid, options.check);
    require_own_device(*world_, gpu->identity());
    const auto nccl = std::make_shared<comm::NcclRank>(options.nccl(), *gpu, options.timeout);
    joined = nccl;
    const parallel::OwnGpu one{nccl, options.context};
    return parallel::make_process_context(*world_, grid, options.check, &one);
  };
  seat.on_failure = [&](const std::string& why) {
    if (const auto nccl = joined.lock()) nccl->give_up(why);
  };
  try {
    body(seat);
    world_->finish();
  } catch (const std::exception& error) {
    const bool mine = !world_->aborted();
    if (mine) world_->abort(error.what());
    if (mine) std::fprintf(stderr, "ERROR %s\n", world_->failure().c_str());
    std::fflush(nullptr);
    world_->end_job(code_of(error));
  }
  world_.reset();
}

}  // namespace stoa::train
