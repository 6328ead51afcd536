#include "train/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

#include "base/checksum.h"
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
#include "train/shared_directory.h"

namespace stoa::train {
namespace {

#ifdef NDEBUG
constexpr const char* kBuild = "compiled by " __VERSION__;
#else
constexpr const char* kBuild = "compiled by " __VERSION__ " for debugging";
#endif

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

// A GPU for each process. If two have the same one, the second reports it.
void require_own_device(comm::ProcessWorld& world, const std::string& identity) {
  const std::vector<std::string> all = world.gather(identity);
  for (int r = 0; r < world.rank(); ++r)
    require<ConfigError>(
        all[r] != identity || world.host(r) != world.host(world.rank()),
        "the GPU at {} is that of {} too: each process needs its own GPU (LOCAL_RANK, or --cuda device=N, "
        "selects it). Ranks that share a GPU must be threads: stoa train --ranks N without a launcher",
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

int exit_status(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return own ? own->exit_code() : 1;
}

Seat only_seat() { return {.rank = 0, .ranks_on_host = 1, .context = parallel::ParallelContext::single}; }

Launch::Launch(std::string_view program, LaunchPatience patience) : patience_(std::move(patience)) {
  const comm::ProcessLaunch launch = comm::process_launch();
  std::unique_ptr<comm::ProcessLink> link;
  if (launch.mpi_ranks > 1) {
    kind_ = "mpi";
    link = comm::open_mpi_link(patience_.timeout, patience_.stop);
  } else if (launch.meeting) {
    kind_ = "tcp";
    link = comm::open_tcp_link(*launch.meeting, program, {patience_.timeout, patience_.stop});
  }
  if (!link) return;
  world_ = std::make_unique<comm::ProcessWorld>(std::move(link), patience_.timeout, patience_.stop);
  first_process_ = world_->rank() == 0;
  agree("program", [&] { return fmt::format("{}\n{}", program, kBuild); });
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
                       "--bind-cores is for ranks that are threads; processes are bound by their launcher: "
                       "mpirun with --bind-to core");
}

int Launch::threads_on_host(int ranks) const { return world_ ? world_->ranks_on_this_host() : ranks; }

void Launch::end_together(int code) {
  world_->finish();
  world_.reset();
  throw SilentEnd(code);
}

// An error ends this process, and with it the job.
void Launch::together(const std::function<void()>& body) {
  try {
    body();
  } catch (const SilentEnd&) {
    throw;
  } catch (const std::exception& error) {
    world_->end_job(error);
  }
}

void Launch::prepare(const std::function<void()>& body) {
  prepare_all("prepares the configuration and data", body, Turns::kFirstBeforeOthers);
}

void Launch::prepare_all(const char* text, const std::function<void()>& body, Turns turns) {
  if (!world_) return body();
  const bool in_turn = turns == Turns::kFirstBeforeOthers;
  together([&] {
    for (const bool first_turn : {true, false}) {
      if (!in_turn && !first_turn) break;
      int code = 0;
      std::string problem;
      if (!in_turn || first_process() == first_turn) {
        try {
          world_->apart(text, body);
        } catch (const std::exception& error) {
          code = exit_status(error);
          problem = error.what();
        }
      }
      const auto failed = world_->first_failed(code);
      if (failed.rank < 0) continue;
      const bool plain = in_turn && failed.rank == 0;  // a mistake of all
      if (failed.rank == world_->rank())
        std::fprintf(stderr, "ERROR %s%s\n", plain ? "" : (world_->rank_name(failed.rank) + ": ").c_str(),
                     problem.c_str());
      end_together(failed.code);
    }
  });
}

std::string Launch::told_by_first(const std::function<std::string()>& text) {
  std::string told;
  prepare([&] {
    if (first_process()) told = text();
  });
  if (world_) together([&] { told = world_->text_of(0, told); });
  return told;
}

void Launch::agree(std::string_view what, const std::function<std::string()>& text) {
  if (!world_) return;
  std::string own;
  prepare_all(
      "compares what the ranks see", [&] { own = text(); }, Turns::kAllAtOnce);
  together([&] {
    const std::vector<std::string> seen = world_->gather(checksum_text(checksum(own)));
    // What most see, or the first.
    std::map<std::string, int> counts;
    for (const std::string& one : seen) ++counts[one];
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::string& right = 2 * most->second > world_->size() ? most->first : seen.front();
    const auto witness = static_cast<int>(std::find(seen.begin(), seen.end(), right) - seen.begin());
    const int others = counts[right] - 1;
    if (counts.size() == 1) return;
    const std::string theirs = world_->text_of(witness, own);
    prepare_all(
        "",
        [&] {
          if (own == theirs) return;
          const auto [here, there] = first_difference(own, theirs);
          fail<ConfigError>("its {} differs from that of {}{}: '{}' here, '{}' there", what,
                            world_->rank_name(witness), others > 0 ? fmt::format(" and {} more", others) : "",
                            here, there);
        },
        Turns::kAllAtOnce);
  });
}

void Launch::require_shared(const std::filesystem::path& directory) {
  if (!world_) return;
  constexpr auto kMost = std::chrono::seconds(60);  // as long as a client of NFS may keep what it has seen
  const auto bound = std::min<std::chrono::milliseconds>(kMost, patience_.timeout);
  SharedDirectoryProof proof(directory);
  std::string token;
  together([&] {
    prepare_all(
        "writes into the run directory",
        [&] {
          if (first_process()) token = proof.write();
        },
        Turns::kAllAtOnce);
    token = world_->text_of(0, token);
    prepare_all(
        "waits for the run directory",
        [&] {
          require<ConfigError>(
              first_process() || proof.seen(token, bound),
              "files that {} writes into the run directory '{}' are not visible here within {:.0f} s: "
              "it must be on a file system that all ranks share",
              world_->rank_name(0), directory.string(), std::chrono::duration<double>(bound).count());
        },
        Turns::kAllAtOnce);
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
      seat.name = fmt::format("rank {}", rank);
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
      seat.apart = [&, rank](const std::string& text, const std::function<void()>& work) {
        world.apart(rank, text, work);
      };
      seat.on_failure = [&, rank](const std::string& why) {
        world.abort(rank, why);
        if (const auto nccl = joined.lock()) nccl->give_up(why);
      };
      body(seat);
    });
  } catch (const std::exception& error) {
    throw RankError(world.failure(), exit_status(error));
  }
}

void Launch::run_process(const grid::RankGrid& grid, const LaunchOptions& options,
                         const std::function<void(Seat&)>& body) {
  std::weak_ptr<comm::NcclRank> joined;
  Seat seat;
  seat.rank = world_->rank();
  seat.name = world_->rank_name(seat.rank);
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
  seat.apart = [&](const std::string& text, const std::function<void()>& work) { world_->apart(text, work); };
  seat.share_stop = [&](std::stop_token own, std::function<void(const std::string&)> told) {
    world_->tell_first(std::move(own));
    world_->when_told(
        [&world = *world_, told = std::move(told)](int other) { told(world.rank_name(other)); });
  };
  together([&] {
    world_->obey({});  // the body does, between its steps
    body(seat);
    // A stop requested before this point has already had its effect.
    if (!patience_.stop.stop_requested()) world_->obey(patience_.stop, patience_.grace);
    world_->finish();
  });
  world_.reset();
}

}  // namespace stoa::train
