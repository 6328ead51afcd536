// Ranks that mpirun or srun started with MPI.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>

#include "comm/processes/process_link.h"

namespace stoa::comm {

bool built_with_mpi();
// Starts MPI; once per process. The calling thread is the only one that may use the link. ConfigError "built
// without MPI". MPI's own start and end return only when all ranks are there: after `timeout`, and after
// `stop`, they end the process with a message.
std::unique_ptr<ProcessLink> open_mpi_link(std::chrono::milliseconds timeout = std::chrono::minutes(10),
                                           std::stop_token stop = {});

}  // namespace stoa::comm
