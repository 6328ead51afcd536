// `stoa plan inference --measured`: batches of texts that come at once, through the engine's scheduler, with
// passes as long as they were measured.
#pragma once

#include "cli/serving_speed.h"
#include "plan/inference.h"

namespace stoa::cli {

// Uses the lengths, the batches and the latency of `request`. An answer's time to the first token is that of
// the last text of its batch. DataError: the file has no bytes; ConfigError: texts that the model does not
// read.
plan::InferenceResult answers_of_measured(const EngineSpeed& speed, const plan::InferenceRequest& request);

}  // namespace stoa::cli
