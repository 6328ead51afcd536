// What the environment says about a job of processes that this one belongs to.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace stoa::comm {

// A variable's value, nullptr where it is not set.
using Environment = std::function<const char*(const char*)>;
Environment process_environment();

// A rank's place in a job whose processes find each other at one address: what launchers without MPI say in
// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (those of torchrun and of Kubernetes' training
// operators).
struct MeetingPlace {
  int rank = 0, size = 1;
  std::optional<int> local_rank = {};  // on this host
  std::string address;                 // of rank 0
  int port = 0;          // MASTER_PORT; the next one where torchrun's agent listens at that itself
  std::string job = {};  // its name, where the launcher gives one
};

struct ProcessLaunch {
  int mpi_ranks = 1;                         // above 1: MPI is to be started
  std::optional<MeetingPlace> meeting = {};  // else
};

// mpirun and srun with MPI come before RANK and WORLD_SIZE; these, where MASTER_ADDR is set, may stand in
// Slurm's own variables (srun without MPI). ConfigError names the variable that is missing, wrong or
// contradicts another.
ProcessLaunch process_launch(const Environment& environment = process_environment());

}  // namespace stoa::comm
