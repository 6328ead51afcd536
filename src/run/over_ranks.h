// Small values of the host that ranks put together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "run/training_rank.h"

namespace stoa::run {

// Texts of all ranks of a group, by rank, on rank 0 of the group; empty on the others.
std::vector<std::string> gather_texts(comm::Communicator& group, std::string own, Stream& stream);

// Each value becomes its sum over the ranks of the group.
void add_over_ranks(TrainingRank& rank, std::span<double> values, parallel::Group group);

}  // namespace stoa::run
