// distrib_optim.pt: the state of Megatron's distributed optimizer in the older format, in a file of its own
// next to the model_optim_rng.pt of each rank. For every chunk of the model that the rank has, one flat
// tensor of master weights and one of each moment hold its parameters from the last to the first.
#pragma once

#include <string>
#include <vector>

#include "foreign/checkpoint/rank_files.h"

namespace stoa::foreign {

// Adds the state in `files` (RankFile::states) to `out`. `tied`: the head is the embedding. Empty: done;
// otherwise why it cannot be told which parameter lies where, and `out` is of no use. Whether the places are
// right is for the caller to find out by comparing the master weights with those of the model.
std::string add_distributed_states(MegatronSources& out, const std::vector<RankFile>& files, bool tied);

}  // namespace stoa::foreign
