#include "comm/processes/process_launch.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace stoa::comm {
namespace {

constexpr int kMostRanks = 65536;

std::optional<std::string_view> text_in(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

std::optional<int> number_in(const Environment& environment, const char* variable, int least, int most) {
  const auto text = text_in(environment, variable);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  require<ConfigError>(
      error == std::errc() && end == text->data() + text->size() && value >= least && value <= most,
      "{}={}: expected a number between {} and {}", variable, *text, least, most);
  return value;
}

// Ranks that MPI will see; nothing where none of its launchers started this process.
std::optional<int> ranks_of_mpi(const Environment& environment) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const auto ranks = number_in(environment, variable, 1, kMostRanks)) return ranks;
  if (text_in(environment, "PMIX_RANK")) return number_in(environment, "SLURM_STEP_NUM_TASKS", 1, kMostRanks);
  return std::nullopt;
}

struct Names {
  const char *rank, *size, *local_rank;
};

MeetingPlace read_place(const Environment& environment, const Names& names) {
  MeetingPlace place;
  place.size = number_in(environment, names.size, 1, kMostRanks).value_or(1);
  const auto rank = number_in(environment, names.rank, 0, kMostRanks);
  require<ConfigError>(rank.has_value(),
                       "{}={}, but {} is not set: a process per rank needs RANK, WORLD_SIZE, MASTER_ADDR and "
                       "MASTER_PORT. Without such a launcher unset {}",
                       names.size, place.size, names.rank, names.size);
  require<ConfigError>(*rank < place.size, "{}={} in a job of {}={} ranks: ranks count from 0 to {}",
                       names.rank, *rank, names.size, place.size, place.size - 1);
  place.rank = *rank;
  place.local_rank = number_in(environment, names.local_rank, 0, kMostRanks);
  if (place.size == 1) return place;
  const auto address = text_in(environment, "MASTER_ADDR");
  require<ConfigError>(address.has_value(),
                       "{}={}, but MASTER_ADDR is not set: the host where rank 0 runs (name or address)",
                       names.size, place.size);
  place.address = *address;
  const auto port = number_in(environment, "MASTER_PORT", 1, 65535);
  require<ConfigError>(port.has_value(),
                       "{}={}, but MASTER_PORT is not set: a free port of {}, the same on all ranks",
                       names.size, place.size, place.address);
  // torchrun's agent listens at that port itself.
  place.port = *port + (text_in(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0);
  for (const char* variable : {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"})
    if (place.job.empty()) place.job = text_in(environment, variable).value_or("");
  return place;
}

}  // namespace

Environment process_environment() {
  return [](const char* variable) { return static_cast<const char*>(std::getenv(variable)); };
}

ProcessLaunch process_launch(const Environment& environment) {
  const auto has = [&](const char* variable) { return text_in(environment, variable).has_value(); };
  ProcessLaunch launch;
  if (const auto ranks = ranks_of_mpi(environment)) {
    launch.mpi_ranks = *ranks;
    const auto size = number_in(environment, "WORLD_SIZE", 1, kMostRanks);
    require<ConfigError>(!size || *size == *ranks,
                         "MPI's launcher started {} processes, but WORLD_SIZE={}: unset WORLD_SIZE and RANK, "
                         "or start without mpirun",
                         *ranks, *size);
    return launch;
  }
  if (has("WORLD_SIZE")) {
    launch.meeting = read_place(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK"});
  } else if (const auto tasks = number_in(environment, "SLURM_STEP_NUM_TASKS", 1, kMostRanks)) {
    if (has("MASTER_ADDR"))
      launch.meeting = read_place(environment, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"});
    else
      launch.mpi_ranks = *tasks;
  } else {
    require<ConfigError>(!has("RANK") || !has("MASTER_ADDR"),
                         "RANK={} and MASTER_ADDR={}, but WORLD_SIZE is not set: how many ranks there are",
                         text_in(environment, "RANK").value_or(""),
                         text_in(environment, "MASTER_ADDR").value_or(""));
  }
  if (launch.meeting && launch.meeting->size == 1) launch.meeting.reset();
  return launch;
}

}  // namespace stoa::comm
