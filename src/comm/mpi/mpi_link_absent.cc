// Compiled where Open MPI was not found.
#include "base/error.h"
#include "comm/mpi/mpi_link.h"

namespace stoa::comm {

bool built_with_mpi() { return false; }

std::unique_ptr<ProcessLink> open_mpi_link(std::chrono::milliseconds, std::stop_token) {
  fail<ConfigError>(
      "built without MPI: install Open MPI (libopenmpi-dev) and build again, run the ranks as threads of one "
      "process (--ranks N, without mpirun or srun), or start them with RANK, WORLD_SIZE, MASTER_ADDR and "
      "MASTER_PORT");
}

}  // namespace stoa::comm
