// What every process of a job must see alike before it trains, as lines of text that are compared
// (Launch::agree). Large files are reported by their size and parts of their content: it takes well under a
// second.
#pragma once

#include <string>

#include "train/run_config.h"
#include "train/training_data.h"

namespace stoa::train {

// "tales.bin: 123456 bytes, content 00ff…", of every file of the data; then what samples of the data sets
// hold: their index counts.
std::string view_of_data(const RunConfig& config, const RunInputs& inputs);
std::string view_of_tokenizer(const RunInputs& inputs);
// Where the run begins: its newest checkpoints, or the weights that it starts from.
std::string view_of_start(const RunConfig& config, const StartingPoint& start);

}  // namespace stoa::train
