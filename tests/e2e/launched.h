// Ranks that are processes, as a launcher without MPI starts them.
#pragma once

#include <string>

#include "program.h"

namespace stoa::e2e {

// Of this machine, where rank 0 may listen.
std::string free_port();
// The environment of a rank: "NAME=value".
Arguments variables_of(int rank, int size, const std::string& port);

}  // namespace stoa::e2e
