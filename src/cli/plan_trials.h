// Trials: the best plans of a search run for a few steps each, one after the other, and measured times are
// compared with predicted ones.
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
  std::string layout;  // plan::describe(): identifies the trial when a killed search is repeated
  TrialEnd end = TrialEnd::kDone;
  double predicted_seconds = 0, predicted_bytes = 0;
  double seconds = 0, bytes = 0;  // measured, if it completed
  std::string reason;             // if it did not
};

struct TrialRequest {
  std::size_t count = 3;
  std::int64_t steps = 4;
  double most_minutes = 10;   // of one trial
  fs::path directory;         // for trials.jsonl and the configurations tried
  std::stop_token stop = {};  // ends the current trial; Interrupted
};

// Runs `stoa bench train` on this machine, one process per trial with its ranks as threads; trials listed in
// trials.jsonl are not repeated. A trial whose step takes half as long again as the best measured one is
// stopped after the time of its steps.
std::vector<Trial> run_trials(const std::vector<plan::Found>& best, const train::RunConfig& config,
                              const TrialRequest& request, Console& console);

// The factor by which measured times exceed predicted ones (geometric mean), and the resulting order:
// measured trials by their times, the others by their predicted times multiplied by the factor.
struct Reranked {
  double factor = 1;
  std::vector<std::size_t> order;
};
Reranked rerank(const std::vector<plan::Found>& best, const std::vector<Trial>& trials);

std::string to_text(const std::vector<Trial>& trials, const Reranked& reranked,
                    const std::vector<plan::Found>& best);
std::string name_of(TrialEnd end);

// A Slurm script that runs the configurations of `directory` in turn on a cluster.
std::string trials_script(const std::string& name, const plan::Workload& w, const plan::Cluster& cluster,
                          std::size_t count, std::int64_t steps);

}  // namespace stoa::cli
