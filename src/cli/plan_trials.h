// Plans tried for real: the best of a search run a few steps each, one after the other, measured beside
// predicted.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/file.h"
#include "plan/search.h"
#include "train/run_config.h"

namespace stoa::cli {

enum class TrialEnd { kDone, kMemory, kDivergence, kLaunch, kTime };

struct Trial {
  std::string layout;  // plan::describe(): by which a search that was killed knows it again
  TrialEnd end = TrialEnd::kDone;
  double predicted_seconds = 0, predicted_bytes = 0;
  double seconds = 0, bytes = 0;  // measured; where it was done
  std::string reason;             // where it was not
};

struct TrialRequest {
  std::size_t count = 3;
  std::int64_t steps = 4;
  double most_minutes = 10;   // of one trial
  fs::path directory;         // of trials.jsonl and of the configurations tried
  std::stop_token stop = {};  // ends the trial under way; Interrupted
};

// Runs `stoa bench train` on this machine with one thread of this process' program per rank; trials that
// trials.jsonl already tells of are not run again. A trial whose step takes half as long again as the best
// measured one is given up after the time of its steps.
std::vector<Trial> run_trials(const std::vector<plan::Found>& best, const train::RunConfig& config,
                              const TrialRequest& request, Console& console);

// The factor by which measured times exceed predicted ones (geometric mean), and the order that follows:
// measured trials by their times, the others by predicted times that are scaled.
struct Reranked {
  double factor = 1;
  std::vector<std::size_t> order;
};
Reranked rerank(const std::vector<plan::Found>& best, const std::vector<Trial>& trials);

std::string to_text(const std::vector<Trial>& trials, const Reranked& reranked,
                    const std::vector<plan::Found>& best);
std::string name_of(TrialEnd end);

// A Slurm script that tries the configurations of `directory` in turn on a cluster.
std::string trials_script(const std::string& name, const plan::Workload& w, const plan::Cluster& cluster,
                          std::size_t count, std::int64_t steps);

}  // namespace stoa::cli
