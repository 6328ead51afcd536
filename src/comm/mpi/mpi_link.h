// Ranks that mpirun or srun started with MPI.
#pragma once

#include <memory>

#include "comm/processes/process_link.h"

namespace stoa::comm {

bool built_with_mpi();
// Starts MPI; once per process. The calling thread is the only one that may use the link. ConfigError "built
// without MPI".
std::unique_ptr<ProcessLink> open_mpi_link();

}  // namespace stoa::comm
