#pragma once

namespace stoa::foreign {

// What is done with a configuration. A run is only of what Stoa trains as it is meant, and needs data, a
// tokenizer, a beginning and an end; a benchmark the first alone. A plan and a display say what is left open
// or different; a display has all that a run would have.
enum class Purpose { kPlan, kBench, kShow, kTrain };

}  // namespace stoa::foreign
