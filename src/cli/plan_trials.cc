#include "cli/plan_trials.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/cores.h"
#include "base/error.h"
#include "base/timing.h"
#include "cli/plan_search_command.h"
#include "cli/run_self.h"
#include "cli/schema.h"
#include "plan/emit.h"
#include "plan/search_report.h"

namespace stoa::cli {
namespace {

constexpr double kStartSeconds = 60;  // until the first step of a trial

void classify(Trial& trial, const SelfRun& ended, double most_seconds) {
  if (ended.timed_out) {
    trial.end = TrialEnd::kTime;
    trial.reason = fmt::format("stopped after {:.0f} s", most_seconds);
    return;
  }
  if (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 0) {
    const auto json = nlohmann::json::parse(ended.output, nullptr, false);
    if (json.is_object() && json.contains("step_seconds")) {
      trial.seconds = json["step_seconds"];
      trial.bytes = json["arena_peak_bytes"];
      if (std::isfinite(trial.seconds) && trial.seconds > 0) return;
    }
    trial.end = TrialEnd::kLaunch;
    trial.reason = "its output could not be parsed";
    return;
  }
  trial.reason = last_line(ended.errors);
  const auto says = [&](const char* word) { return ended.errors.find(word) != std::string::npos; };
  const bool killed = WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGKILL;
  trial.end = killed || says("memory") || says("bad_alloc") ? TrialEnd::kMemory
              : says("NaN") || says("not finite")           ? TrialEnd::kDivergence
                                                            : TrialEnd::kLaunch;
  if (killed) trial.reason = "killed: the machine ran out of memory";
}

nlohmann::ordered_json json_of(const Trial& t) {
  return {{"layout", t.layout},
          {"end", name_of(t.end)},
          {"predicted_seconds", t.predicted_seconds},
          {"predicted_bytes", t.predicted_bytes},
          {"seconds", t.seconds},
          {"bytes", t.bytes},
          {"reason", t.reason}};
}

// The trials of an earlier search that was killed. An incomplete last line is skipped.
std::vector<Trial> earlier_trials(const fs::path& file) {
  std::vector<Trial> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("layout") || !json.contains("end")) continue;
    Trial t;
    t.layout = json["layout"];
    const std::string given = json["end"];
    for (const TrialEnd end :
         {TrialEnd::kDone, TrialEnd::kMemory, TrialEnd::kDivergence, TrialEnd::kLaunch, TrialEnd::kTime})
      if (name_of(end) == given) t.end = end;
    t.predicted_seconds = json.value("predicted_seconds", 0.0);
    t.predicted_bytes = json.value("predicted_bytes", 0.0);
    t.seconds = json.value("seconds", 0.0);
    t.bytes = json.value("bytes", 0.0);
    t.reason = json.value("reason", "");
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace

std::string name_of(TrialEnd end) {
  switch (end) {
    case TrialEnd::kDone:
      return "done";
    case TrialEnd::kMemory:
      return "memory";
    case TrialEnd::kDivergence:
      return "divergence";
    case TrialEnd::kLaunch:
      return "launch";
    case TrialEnd::kTime:
      return "time";
  }
  fail<InternalError>("unknown end of a trial");
}

std::vector<Trial> run_trials(const std::vector<plan::Found>& best, const train::RunConfig& config,
                              const TrialRequest& request, Console& console) {
  fs::create_directories(request.directory);
  const fs::path log = request.directory / "trials.jsonl";
  const std::vector<Trial> earlier = earlier_trials(log);
  std::vector<Trial> trials;
  double fastest = 0;
  for (std::size_t i = 0; i < std::min(request.count, best.size()); ++i) {
    const plan::Found& found = best[i];
    Trial trial;
    trial.layout = plan::describe(found);
    const auto known = std::find_if(earlier.begin(), earlier.end(),
                                    [&](const Trial& t) { return t.layout == trial.layout; });
    if (known != earlier.end()) {
      console.line(fmt::format("trial {}: {}: {} before", i + 1, trial.layout, name_of(known->end)));
      trial = *known;
    } else {
      trial.predicted_seconds = found.seconds;
      trial.predicted_bytes = static_cast<double>(found.memory.total);
      train::RunConfig tried = with_plan(config, found, found.workload.devices());
      tried.exp_manager.explicit_log_dir = std::nullopt;
      const fs::path file = request.directory / fmt::format("trial-{}.yaml", i + 1);
      write_text(file, show_run_config(tried));
      double most = request.most_minutes * 60;
      if (fastest > 0)
        most = std::min(most, kStartSeconds + 1.5 * fastest * static_cast<double>(request.steps + 1));
      console.line(fmt::format("trial {}: {}", i + 1, trial.layout));
      const auto ranks = found.workload.devices();
      std::vector<std::string> command{"bench",
                                       "train",
                                       file.string(),
                                       "--ranks",
                                       std::to_string(ranks),
                                       "--steps",
                                       std::to_string(request.steps),
                                       "--warmup",
                                       "1",
                                       "--json"};
      // As in the calibration: pinning keeps two ranks from sharing a core while another core is idle.
      if (ranks > 1 && ranks <= available_cores()) command.emplace_back("--bind-cores");
      const SelfRun ended = run_self(command, request.directory, most, request.stop);
      require<Interrupted>(!request.stop.stop_requested(),
                           "interrupted; trials that were done are kept in '{}' and not run again",
                           log.string());
      classify(trial, ended, most);
      std::ofstream(log, std::ios::app) << json_of(trial).dump() << "\n";
    }
    if (trial.end == TrialEnd::kDone && (fastest == 0 || trial.seconds < fastest)) fastest = trial.seconds;
    trials.push_back(std::move(trial));
  }
  return trials;
}

Reranked rerank(const std::vector<plan::Found>& best, const std::vector<Trial>& trials) {
  Reranked out;
  double sum = 0;
  int count = 0;
  for (const Trial& t : trials)
    if (t.end == TrialEnd::kDone && t.predicted_seconds > 0) {
      sum += std::log(t.seconds / t.predicted_seconds);
      ++count;
    }
  if (count > 0) out.factor = std::exp(sum / count);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (i >= trials.size())
      seconds.push_back(best[i].seconds * out.factor);
    else
      seconds.push_back(trials[i].end == TrialEnd::kDone ? trials[i].seconds : 1e30);
    out.order.push_back(i);
  }
  std::stable_sort(out.order.begin(), out.order.end(),
                   [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  return out;
}

std::string to_text(const std::vector<Trial>& trials, const Reranked& reranked,
                    const std::vector<plan::Found>& best) {
  std::string out =
      "\ntrials:\n  predicted s   measured s  predicted MB   measured MB   end         layout\n";
  for (const Trial& t : trials)
    out += fmt::format("  {:>11.4f}{:>13.4f}{:>14.2f}{:>14.2f}   {:<11} {}{}\n", t.predicted_seconds,
                       t.seconds, t.predicted_bytes / 1e6, t.bytes / 1e6, name_of(t.end), t.layout,
                       t.reason.empty() ? "" : ": " + t.reason);
  out += fmt::format("measured times are {:.3f} of the predicted ones; the best is now: {}\n",
                     reranked.factor, plan::describe(best[reranked.order.front()]));
  return out;
}

std::string trials_script(const std::string& name, const plan::Workload& w, const plan::Cluster& cluster,
                          std::size_t count, std::int64_t steps) {
  plan::JobScript job = plan::job_of(name + "-trials", w, cluster, true);
  for (std::size_t i = 1; i <= count; ++i)
    job.body += fmt::format(
        "\"${{run[@]}}\" stoa bench train trial-{}.yaml --steps {} --warmup 1 --json | tee -a measured.jsonl "
        "|| "
        "true\n",
        i, steps);
  return plan::sbatch_script(job);
}

}  // namespace stoa::cli
