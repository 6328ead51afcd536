#include "plan/predict_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "schedule/generators.h"

namespace stoa::plan {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string seconds_text(double seconds) {
  return seconds >= 0.1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", 1e3 * seconds);
}

}  // namespace

std::string to_text(const Prediction& p, const Workload& w, const Cluster& c, const std::string& title) {
  std::string out = fmt::format("{}\n{} devices: {}\n", title, w.devices(), w.text());
  out += fmt::format("step    {} (8 of 10 measurements expected within {} to {})\n", seconds_text(p.seconds),
                     seconds_text(p.low), seconds_text(p.high));
  out += fmt::format(
      "rate    {} tokens/s; {:.1f} model TFLOP/s per device ({} of peak), {:.1f} with recomputation\n",
      format_count(p.tokens_per_second), p.model_flops / 1e12, percent(p.share_of_peak),
      p.hardware_flops / 1e12);
  const double room = c.device.memory_gb * 1e9 - p.reserve;
  out += fmt::format(
      "memory  {:.1f} of {:.0f} GB on the fullest device{} ({}): {}\n", p.memory.sum() / 1e9, room / 1e9,
      p.reserve > 0 ? fmt::format(", {:.3g} GB of it reserved", p.reserve / 1e9) : std::string(),
      p.whose.empty() ? std::string(p.counted ? "counted" : "estimated") : p.whose,
      p.fits                   ? "fits"
      : p.memory.sum() <= room ? "but host memory is too small for the offloaded activations"
                               : fmt::format("does not fit by {:.1f} GB", (p.memory.sum() - room) / 1e9));
  out += "where the time goes:\n";
  for (const auto& [name, seconds] : p.time.parts())
    if (seconds > 0.0005 * p.seconds)
      out += fmt::format("  {:18}{:>12}{:>9}\n", name, seconds_text(seconds), percent(seconds / p.seconds));
  if (p.stages.size() > 1) {
    out += fmt::format("  {:>6}{:>8}{:>12}{:>12}{:>12}{:>9}{:>10}\n", "stage", "layers", "forward",
                       "input grad", "weight grad", "busy", "memory");
    for (std::size_t i = 0; i < p.stages.size(); ++i) {
      const StageTime& s = p.stages[i];
      out += fmt::format("  {:>6}{:>8}{:>12}{:>12}{:>12}{:>9}{:>8.1f}GB\n", i, s.layers,
                         seconds_text(s.forward), seconds_text(s.backward_input),
                         seconds_text(s.backward_weight), percent(s.busy / p.seconds), s.memory / 1e9);
    }
  }
  if (!p.nearest.empty()) out += "nearest published runs:\n";
  for (const auto& run : p.nearest) out += "  " + run + "\n";
  for (const auto& note : p.notes) out += "note: " + note + "\n";
  return out;
}

std::string to_text(const PaperActivations& a) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  return fmt::format(
      "2205.05198 counts on the first stage: {:.6g} GiB of activations of layers ({:.6g} MiB a layer and "
      "microbatch), {:.4g} GiB of embedding and head, {:.6g} GiB of parameters and optimizer\n",
      (a.total - a.extras) / kGiB, a.per_layer / (1024 * 1024), a.extras / kGiB, a.states / kGiB);
}

std::string to_json(const Prediction& p, const Workload& w, const Cluster& c,
                    const PaperActivations* accounting) {
  nlohmann::ordered_json split, stages = nlohmann::ordered_json::array();
  for (const auto& [name, seconds] : p.time.parts()) split[std::string(name)] = seconds;
  for (const StageTime& s : p.stages)
    stages.push_back({{"layers", s.layers},
                      {"forward_seconds", s.forward},
                      {"backward_input_seconds", s.backward_input},
                      {"backward_weight_seconds", s.backward_weight},
                      {"busy_seconds", s.busy},
                      {"memory_bytes", s.memory}});
  const MemorySplit& m = p.memory;
  nlohmann::ordered_json bytes{{"weights", m.weights},
                               {"gradients", m.gradients},
                               {"optimizer", m.optimizer},
                               {"activations", m.activations}};
  if (!p.counted) bytes["logits"] = m.logits;
  bytes.update({{"working", m.working},
                {"overhead", m.overhead},
                {"offloaded_to_host", m.offloaded},
                {"total", m.sum()}});
  nlohmann::ordered_json out{{"cluster", c.name},
                             {"devices", w.devices()},
                             {"layout", w.text()},
                             {"step_seconds", p.seconds},
                             {"low_seconds", p.low},
                             {"high_seconds", p.high},
                             {"tokens_per_second", p.tokens_per_second},
                             {"model_tflops", p.model_flops / 1e12},
                             {"hardware_tflops", p.hardware_flops / 1e12},
                             {"share_of_peak", p.share_of_peak},
                             {"fits", p.fits},
                             {"memory", p.counted ? "counted" : "estimated"},
                             {"whose_bytes", p.whose},
                             {"reserved_bytes", p.reserve},
                             {"limit_bytes", c.device.memory_gb * 1e9 - p.reserve},
                             {"memory_bytes", std::move(bytes)},
                             {"seconds", split},
                             {"stages", stages},
                             {"nearest_published", p.nearest},
                             {"notes", p.notes}};
  if (accounting)
    out["accounting"] = {{"layers_bytes", accounting->total - accounting->extras},
                         {"layer_bytes", accounting->per_layer},
                         {"ends_bytes", accounting->extras},
                         {"states_bytes", accounting->states}};
  return out.dump();
}

StepTimeline timeline_of(const Prediction& p, const Workload& w) {
  StepTimeline out;
  out.schedule = schedule::generate({.name = w.schedule_name(),
                                     .stages = static_cast<int>(w.pp),
                                     .chunks = static_cast<int>(w.vpp),
                                     .microbatches = static_cast<int>(w.microbatches())});
  const auto& placement = out.schedule.placement;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const int rank = placement.rank_of_chunk[static_cast<std::size_t>(chunk)];
    const StageTime& stage = p.stages[static_cast<std::size_t>(rank)];
    const double share = 1.0 / placement.chunks_on(rank);
    out.durations.chunks.push_back({stage.forward * share,
                                    (stage.backward_input + stage.backward_weight) * share,
                                    stage.backward_input * share, stage.backward_weight * share});
  }
  return out;
}

std::string to_chrome_trace(const StepTimeline& timeline) {
  auto events = nlohmann::ordered_json::array();
  const schedule::Timeline times = schedule::simulate(timeline.schedule, timeline.durations);
  for (std::size_t rank = 0; rank < times.ranks.size(); ++rank) {
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", rank},
                      {"args", {{"name", fmt::format("pipeline rank {}", rank)}}}});
    for (const auto& timed : times.ranks[rank])
      events.push_back({{"name", schedule::to_text(timed.action)},
                        {"ph", "X"},
                        {"pid", rank},
                        {"tid", 0},
                        {"ts", 1e6 * timed.start},
                        {"dur", 1e6 * (timed.end - timed.start)}});
  }
  return nlohmann::ordered_json{{"traceEvents", events}}.dump();
}

}  // namespace stoa::plan
