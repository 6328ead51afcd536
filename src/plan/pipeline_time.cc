#include "plan/pipeline_time.h"

#include <algorithm>
#include <numeric>

#include "plan/workload.h"
#include "schedule/generators.h"

namespace stoa::plan {
namespace {

struct Totals {
  double forward = 0, backward = 0, weight = 0, all = 0, longest = 0, send = 0;
  double turn = 0;  // longest forward pass and gradient of its input
};

Totals totals(std::span<const StageWork> stages) {
  Totals t;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    t.forward += stages[i].forward;
    t.backward += stages[i].backward_input;
    t.weight += stages[i].backward_weight;
    t.all += stages[i].all();
    t.longest = std::max(t.longest, stages[i].all());
    t.turn = std::max(t.turn, stages[i].forward + stages[i].backward_input);
    if (i + 1 < stages.size()) t.send += stages[i].send;
  }
  return t;
}

double simulated(const std::string& schedule, std::span<const StageWork> stages, std::int64_t microbatches,
                 std::int64_t chunks) {
  const auto lists = schedule::generate({.name = schedule,
                                         .stages = static_cast<int>(stages.size()),
                                         .chunks = static_cast<int>(chunks > 1 ? chunks : 0),
                                         .microbatches = static_cast<int>(microbatches)});
  schedule::Durations durations;
  double send = 0;
  for (const auto& stage : stages) send = std::max(send, stage.send);
  durations.communication = send;
  for (int chunk = 0; chunk < lists.placement.chunks(); ++chunk) {
    const int rank = lists.placement.rank_of_chunk[static_cast<std::size_t>(chunk)];
    const StageWork& work = stages[static_cast<std::size_t>(rank)];
    const double share = 1.0 / lists.placement.chunks_on(rank);
    durations.chunks.push_back({work.forward * share, (work.backward_input + work.backward_weight) * share,
                                work.backward_input * share, work.backward_weight * share});
  }
  return schedule::simulate(lists, durations).makespan;
}

// A list of more microbatches repeats what its middle does: its time grows evenly.
double simulated_few(const std::string& schedule, std::span<const StageWork> stages,
                     std::int64_t microbatches, std::int64_t chunks) {
  const auto p = static_cast<std::int64_t>(stages.size());
  const std::int64_t rest = microbatches % p;  // interleaved schedules take whole groups only
  const std::int64_t few = 8 * p + rest, more = few + 2 * p;
  if (microbatches <= more || schedule == "bfs") return simulated(schedule, stages, microbatches, chunks);
  const double begun = simulated(schedule, stages, few, chunks),
               longer = simulated(schedule, stages, more, chunks);
  return longer +
         (longer - begun) * static_cast<double>(microbatches - more) / static_cast<double>(more - few);
}

}  // namespace

bool has_closed_form(const std::string& schedule) {
  return schedule == "1f1b" || schedule == "gpipe" || schedule == "interleaved" || schedule == "zb-h1" ||
         schedule == "zb-h2";
}

bool splits_backward(const std::string& schedule) {
  return schedule != "1f1b" && schedule != "gpipe" && schedule != "interleaved" && schedule != "bfs";
}

double least_pipeline_seconds(const std::string& schedule, std::span<const StageWork> stages,
                              std::int64_t microbatches, std::int64_t chunks) {
  if (has_closed_form(schedule)) return pipeline_seconds(schedule, stages, microbatches, chunks);
  double least = 0, reached = 0;
  for (const StageWork& stage : stages) {
    least = std::max(least, reached + static_cast<double>(microbatches) * stage.all());
    reached += stage.forward / static_cast<double>(is_v(schedule) ? 2 : chunks);
  }
  return least;
}

double pipeline_seconds(const std::string& schedule, std::span<const StageWork> stages,
                        std::int64_t microbatches, std::int64_t chunks) {
  const auto m = static_cast<double>(microbatches);
  const auto p = static_cast<double>(stages.size());
  const Totals t = totals(stages);
  if (stages.size() == 1) return m * t.all;
  const StageWork& last = stages.back();
  // The first forward reaches the last stage, which then works through all microbatches or waits for the
  // slowest; the last gradient returns.
  if (schedule == "1f1b" || schedule == "gpipe") return (m - 1) * t.longest + t.all + 2 * t.send;
  if (schedule == "interleaved") {
    const auto v = static_cast<double>(chunks);
    return m * t.longest + (t.all - t.longest) / v + 2 * t.send;
  }
  if (schedule == "zb-h1") {
    // Weight gradients fill the way back of the last gradient (2401.10241 section 2).
    const double back = t.backward - last.backward_input + t.send;
    const double filled = (p - 1) * last.backward_weight;
    return t.forward - last.forward + t.send + m * t.longest + std::max(0.0, back - filled);
  }
  if (schedule == "zb-h2") {
    // Ranks take the optimizer step on their own: what counts is the longest rank from its own start.
    // With few microbatches the first stage waits for the first gradient; the others follow as quickly as
    // stages alternate forward and backward passes, or as the first one works through them.
    const StageWork& first = stages.front();
    const double turn = std::max(t.turn, first.backward_input + first.backward_weight);
    const double chain = t.forward + t.backward + 2 * t.send + (m - 1) * turn + first.backward_weight;
    const double back = (p - 1) * (last.forward + last.backward_input - 2 * last.backward_weight);
    return std::max(m * t.longest + std::max(0.0, back), chain);
  }
  return simulated_few(schedule, stages, microbatches, chunks);
}

double microbatches_in_flight(const std::string& schedule, std::int64_t stages, std::int64_t stage,
                              std::int64_t microbatches, std::int64_t chunks) {
  const auto m = static_cast<double>(microbatches);
  const auto p = static_cast<double>(stages), r = static_cast<double>(stage), v = static_cast<double>(chunks);
  if (stages == 1) return 1;
  if (schedule == "gpipe") return m;
  if (schedule == "interleaved" && chunks > 1)  // warm-up of 2 (p - r - 1) + (v - 1) p chunks, and one
    return std::min(m, ((v - 1) * p + 2 * (p - r - 1) + 1) / v);
  if (schedule == "zb-h2") return std::min(m, 2 * p - 1);
  if (schedule == "zb-h1" || schedule == "zb-v") return std::min(m, p);
  if (schedule == "dualpipev") return std::min(m, p + 0.5);
  return std::min(m, p - r);
}

}  // namespace stoa::plan
