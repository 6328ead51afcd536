// Texts of all ranks of a group, in one place.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace stoa::run {

// By rank, on rank 0 of the group; empty on the others.
std::vector<std::string> gather_texts(comm::Communicator& group, std::string own, Stream& stream);

}  // namespace stoa::run
