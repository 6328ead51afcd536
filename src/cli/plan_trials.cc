#include "cli/plan_trials.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/cores.h"
#include "base/error.h"
#include "base/timing.h"
#include "cli/plan_search_command.h"
#include "cli/schema.h"
#include "plan/emit.h"
#include "plan/search_report.h"

namespace stoa::cli {
namespace {

constexpr double kStartSeconds = 60;  // until the first step of a trial

struct Ended {
  int status = 0;
  bool timed_out = false;
  std::string output, errors;
};

// Runs this program; its output goes to files in `directory`.
Ended run_self(const std::vector<std::string>& arguments, const fs::path& directory, double most_seconds,
               const std::stop_token& stop) {
  const fs::path self = fs::read_symlink("/proc/self/exe"), out = directory / "trial.out",
                 err = directory / "trial.err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kCreate, 0644);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kCreate, 0644);
  std::vector<std::string> words{self.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  // The child must not inherit the mask of signals that this process handles in a separate thread.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawn(&child, self.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  require<IoError>(error == 0, "{} cannot be started: {}", self.string(), std::strerror(error));
  Ended ended;
  const auto begin = std::chrono::steady_clock::now();
  while (::waitpid(child, &ended.status, WNOHANG) == 0) {
    if (stop.stop_requested() || seconds_since(begin) > most_seconds) {
      ended.timed_out = true;
      ::kill(child, SIGKILL);
      ::waitpid(child, &ended.status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ended.output = read_text(out);
  ended.errors = read_text(err);
  fs::remove(out);
  fs::remove(err);
  require<Interrupted>(!stop.stop_requested(),
                       "interrupted; trials that were done are kept in '{}' and not run again",
                       (directory / "trials.jsonl").string());
  return ended;
}

std::string last_line(const std::string& text) {
  std::string line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (end > begin) line = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return line;
}

void classify(Trial& trial, const Ended& ended, double most_seconds) {
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
      const Ended ended = run_self(command, request.directory, most, request.stop);
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
