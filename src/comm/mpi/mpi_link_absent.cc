// Compiled where Open MPI was not found.
#include "base/error.h"
#include "comm/mpi/mpi_link.h"

namespace stoa::comm {

bool MpiLink::built() { return false; }

std::unique_ptr<MpiLink> MpiLink::open() {
  fail<ConfigError>(
      "built without MPI: install Open MPI (libopenmpi-dev) and build again, or run the ranks as threads of "
      "one "
      "process (--ranks N, without mpirun or srun)");
}

}  // namespace stoa::comm
