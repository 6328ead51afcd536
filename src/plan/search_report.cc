#include "plan/search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "plan/csv.h"
#include "plan/page.h"
#include "watch/chart.h"

namespace stoa::plan {
namespace {

constexpr double kGb = 1e9;

double devices_of(const Found& found) { return static_cast<double>(found.workload.devices()); }

double tflops_of(const Found& found) {
  return model_flops(found.workload) / found.seconds / devices_of(found) / 1e12;
}

// Days that `steps` steps take.
double days_of(const Found& found, std::int64_t steps) {
  return found.seconds * static_cast<double>(steps) / 86400;
}

double cost_per_token(const Found& found, const Cluster& cluster) {
  const double rate = cluster.economy.price_per_device_hour.value_or(1);
  return rate * devices_of(found) / 3600 / found.tokens_per_second();
}

std::string row(const Found& f, double memory) {
  return fmt::format("{:>9.3f} s{:>10}{:>8.0f}{:>9.1f} GB{:>8.1f}   {}\n", f.seconds,
                     format_count(f.tokens_per_second()), tflops_of(f),
                     static_cast<double>(f.memory.total) / kGb,
                     (memory - static_cast<double>(f.memory.total)) / kGb, describe(f));
}

const char* kHead = "     step   tokens/s  TFLOPs     memory    free   layout\n";

nlohmann::ordered_json json_of(const Found& f, double memory) {
  const Workload& w = f.workload;
  nlohmann::ordered_json time;
  for (const auto& [name, seconds] : f.time.parts()) time[std::string(name)] = seconds;
  nlohmann::ordered_json bytes;
  for (std::size_t c = 0; c < f.memory.categories.size(); ++c)
    bytes[std::string(name_of(static_cast<MemoryCategory>(c)))] = f.memory.categories[c];
  return {{"layout", describe(f)},
          {"devices", w.devices()},
          {"tp", w.tp},
          {"pp", w.pp},
          {"vpp", w.vpp},
          {"cp", w.cp},
          {"ep", w.ep},
          {"dp", w.dp},
          {"schedule", f.point.layout.schedule},
          {"layers", w.split()},
          {"micro_batch", w.micro_batch},
          {"global_batch", w.global_batch},
          {"sequence_parallel", w.sequence_parallel},
          {"zero_stage", w.zero_stage},
          {"recompute", recompute_text(f.point.recompute)},
          {"seconds", f.seconds},
          {"tokens_per_second", f.tokens_per_second()},
          {"model_tflops_per_device", tflops_of(f)},
          {"time", time},
          {"memory_bytes", f.memory.total},
          {"memory_categories", bytes},
          {"free_bytes", memory - static_cast<double>(f.memory.total)}};
}

}  // namespace

std::span<const config::EnumName<SearchReport::Objective>> enum_names(SearchReport::Objective) {
  using O = SearchReport::Objective;
  static constexpr std::array<config::EnumName<O>, 3> kNames{
      {{"step-time", O::kTime}, {"cost", O::kCost}, {"tokens-per-joule", O::kEnergy}}};
  return kNames;
}

std::string recompute_text(const model::RecomputeConfig& r) {
  std::string moved;
  if (r.offload.cpu_offloading) moved = "offload";
  if (r.offload.cpu_offloading && r.offload.cpu_offloading_num_layers)
    moved += fmt::format(" {}", *r.offload.cpu_offloading_num_layers);
  switch (r.granularity) {
    case model::RecomputeGranularity::kNone:
      return moved.empty() ? "none" : moved;
    case model::RecomputeGranularity::kSelective:
      return moved.empty() ? "selective" : "selective + " + moved;
    case model::RecomputeGranularity::kFull:
      break;
  }
  const std::int64_t layers = r.num_layers.value_or(1);
  if (r.method == model::RecomputeMethod::kBlock) return fmt::format("block {}", layers);
  return layers == 1 ? "full" : fmt::format("uniform {}", layers);
}

std::string describe(const Found& found) {
  const Workload& w = found.workload;
  std::string out = fmt::format("TP{}{} PP{}", w.tp, w.sequence_parallel && w.tp > 1 ? " SP" : "", w.pp);
  if (w.vpp > 1) out += fmt::format(" VPP{}", w.vpp);
  if (w.cp > 1) out += fmt::format(" CP{}", w.cp);
  if (w.ep > 1) out += fmt::format(" EP{}", w.ep);
  out += fmt::format(" DP{}", w.dp);
  if (w.zero_stage > 0) out += fmt::format(" ZeRO-{}", w.zero_stage);
  out += fmt::format(", microbatch {}", w.micro_batch);
  if (w.pp > 1) out += ", " + found.point.layout.schedule;
  const auto split = w.split();
  const auto [least, most] = std::minmax_element(split.begin(), split.end());
  if (*least != *most) out += fmt::format(", {}-{} layers a chunk", *least, *most);
  const model::RecomputeConfig& recompute = found.point.recompute;
  if (recompute.granularity != model::RecomputeGranularity::kNone)
    out += ", recompute " + recompute_text(recompute);
  else if (recompute.offload.cpu_offloading)
    out += ", " + recompute_text(recompute);
  return out;
}

const SearchRun* SearchReport::chosen(Objective objective) const {
  const SearchRun* best = nullptr;
  const auto value = [&](const SearchRun& run) {
    const Found& f = run.result.best.front();
    if (objective == Objective::kTime) return f.seconds / f.workload.tokens();
    return cost_per_token(f, cluster);  // energy is devices x time as well
  };
  for (const SearchRun& run : runs)
    if (!run.result.best.empty() && (!best || value(run) < value(*best))) best = &run;
  return best;
}

std::string to_text(const SearchReport& report, const SearchRun& run) {
  const SearchResult& r = run.result;
  const Found& best = r.best.front();
  std::string out = fmt::format("{}: {} parameters on {} x {}, {:.0f} GB of each for the plan\n",
                                report.model_name, format_count(report.parameters), run.devices,
                                report.cluster.device.name, report.memory / kGb);
  for (const auto& note : report.notes) out += "note: " + note + "\n";
  out += fmt::format("{} layouts; memory ({}) of {}, {} could not be better; {:.1f} s\n\n", r.layouts,
                     whose_bytes(report.bytes), r.looked_at, r.bounded, run.seconds);
  out += "best:\n";
  out += kHead;
  for (const Found& f : r.best) out += row(f, report.memory);
  if (r.front.size() > 1) {
    out += "\nfront (nothing is both faster and smaller):\n";
    out += kHead;
    for (const Found& f : r.front) out += row(f, report.memory);
  }
  if (report.runs.size() > 1) {
    out += "\nby number of devices:\n   devices      step   tokens/s   share   device-hours per 1e9 tokens\n";
    const SearchRun* least = nullptr;
    for (const SearchRun& other : report.runs)
      if (!other.result.best.empty() && !least) least = &other;
    for (const SearchRun& other : report.runs) {
      if (other.result.best.empty()) {
        out += fmt::format("{:>10}   nothing fits\n", other.devices);
        continue;
      }
      const Found &f = other.result.best.front(), &base = least->result.best.front();
      const double ideal = base.tokens_per_second() / devices_of(base);
      out += fmt::format("{:>10}{:>8.3f} s{:>11}{:>6.0f} %{:>12.2f}   {}\n", other.devices, f.seconds,
                         format_count(f.tokens_per_second()),
                         100 * f.tokens_per_second() / devices_of(f) / ideal,
                         devices_of(f) / 3600 / f.tokens_per_second() * 1e9, describe(f));
    }
  }
  out += fmt::format("\nwhere the time of the best goes ({}):\n", report.calibration);
  for (const auto& [name, seconds] : best.time.parts())
    if (seconds > 0.001 * best.seconds)
      out += fmt::format("  {:<20}{:>9.3f} s{:>7.1f} %\n", name, seconds, 100 * seconds / best.seconds);
  out += fmt::format("  8 of 10 measurements are expected between {:.3f} and {:.3f} s{}\n",
                     best.seconds * report.low, best.seconds * report.high,
                     report.band.empty() ? "" : ": " + report.band);
  if (report.steps > 0) {
    const double days = days_of(best, report.steps);
    out += fmt::format("  {} steps: {:.2f} days, {:.0f} device-hours", report.steps, days,
                       days * 24 * devices_of(best));
    if (report.cluster.economy.price_per_device_hour)
      out += fmt::format(", {:.0f} at {:g} per hour",
                         days * 24 * devices_of(best) * *report.cluster.economy.price_per_device_hour,
                         *report.cluster.economy.price_per_device_hour);
    out += " ('stoa plan advise' adds failures, checkpoints, power)\n";
  }
  if (!run.neighbours.empty()) {
    out += "\nwhy not its neighbours:\n";
    for (const Neighbour& n : run.neighbours) out += fmt::format("  {:<28} {}\n", n.change, n.verdict);
  }
  return out;
}

std::string to_json(const SearchReport& report, const SearchRun& chosen) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const SearchRun& run : report.runs) {
    nlohmann::ordered_json best = nlohmann::ordered_json::array(), front = nlohmann::ordered_json::array(),
                           neighbours = nlohmann::ordered_json::array();
    for (const Found& f : run.result.best) best.push_back(json_of(f, report.memory));
    for (const Found& f : run.result.front) front.push_back(json_of(f, report.memory));
    for (const Neighbour& n : run.neighbours)
      neighbours.push_back({{"change", n.change},
                            {"verdict", n.verdict},
                            {"seconds", n.seconds},
                            {"memory_bytes", n.bytes},
                            {"fits", n.fits}});
    nlohmann::ordered_json one{{"devices", run.devices},
                               {"layouts", run.result.layouts},
                               {"looked_at", run.result.looked_at},
                               {"bounded", run.result.bounded},
                               {"search_seconds", run.seconds},
                               {"best", best},
                               {"front", front},
                               {"neighbours", neighbours}};
    if (run.result.nearest) one["nearest"] = json_of(*run.result.nearest, report.memory);
    runs.push_back(std::move(one));
  }
  return nlohmann::ordered_json{{"model", report.model_name},
                                {"parameters", report.parameters},
                                {"device", report.cluster.device.name},
                                {"memory_limit_bytes", report.memory},
                                {"whose_bytes", whose_bytes(report.bytes)},
                                {"calibration", report.calibration},
                                {"target", report.target},
                                {"band", {report.low, report.high}},
                                {"band_reason", report.band},
                                {"notes", report.notes},
                                {"chosen_devices", chosen.devices},
                                {"runs", runs}}
      .dump();
}

std::string to_csv(const SearchReport& report) {
  CsvTable table;
  table.header = {"Model Name", "Model Size", "Seq Length", "TP", "PP", "CP", "EP", "MBS", "Act Ckpt Layers",
                  "Act Ckpt Micro Batches", "Act Ckpt Layers per Pipeline", "Num Layers", "Hidden Size",
                  "FFN Hidden Size", "GBS", "Nodes", "GPUs per Node", "Time per Step", "Samples per Second",
                  "Model TFLOPS / GPU", "Model TFLOPS Aggregate", "Config Name",
                  // Columns that the auto-configurator's table does not have.
                  "VPP", "DP", "Schedule", "ZeRO Stage", "Sequence Parallel", "Recompute", "Memory GB",
                  "Free GB"};
  for (const SearchRun& run : report.runs)
    for (const Found& f : run.result.best) {
      const Workload& w = f.workload;
      const ModelShape& m = w.model;
      const std::int64_t per_node = std::min(w.devices(), report.cluster.links.devices_per_node);
      const std::int64_t nodes = (w.devices() + per_node - 1) / per_node;
      const auto& recompute = f.point.recompute;
      const bool block = recompute.granularity == model::RecomputeGranularity::kFull;
      const double aggregate = model_flops(w) / f.seconds / 1e12;
      table.rows.push_back(
          {report.model_name,
           fmt::format("{:.4g}", report.parameters / 1e9),
           std::to_string(m.sequence),
           std::to_string(w.tp),
           std::to_string(w.pp),
           std::to_string(w.cp),
           std::to_string(w.ep),
           std::to_string(w.micro_batch),
           block ? std::to_string(recompute.num_layers.value_or(1)) : "0",
           "",
           "",
           std::to_string(m.layers),
           std::to_string(m.hidden),
           std::to_string(m.ffn),
           std::to_string(w.global_batch),
           std::to_string(nodes),
           std::to_string(per_node),
           fmt::format("{:.4f}", f.seconds),
           fmt::format("{:.4f}", static_cast<double>(w.global_batch) / f.seconds),
           fmt::format("{:.2f}", tflops_of(f)),
           fmt::format("{:.2f}", aggregate),
           fmt::format("{}_{}nodes_tp_{}_pp_{}_cp_{}_ep_{}_mbs_{}_vp_{}", report.model_name, nodes, w.tp,
                       w.pp, w.cp, w.ep, w.micro_batch, w.vpp),
           std::to_string(w.vpp),
           std::to_string(w.dp),
           f.point.layout.schedule,
           std::to_string(w.zero_stage),
           w.sequence_parallel ? "yes" : "no",
           recompute_text(recompute),
           fmt::format("{:.3f}", static_cast<double>(f.memory.total) / kGb),
           fmt::format("{:.3f}", (report.memory - static_cast<double>(f.memory.total)) / kGb)});
    }
  return write_csv(table);
}

std::string to_html(const SearchReport& report, const SearchRun& run) {
  const Found& best = run.result.best.front();
  Page page;
  page.title = fmt::format("Plan: {} on {} x {}", report.model_name, run.devices, report.cluster.device.name);
  page.tiles = {{"seconds per step", fmt::format("{:.3f}", best.seconds)},
                {"tokens per second", format_count(best.tokens_per_second())},
                {"model TFLOP/s per device", fmt::format("{:.0f}", tflops_of(best))},
                {"memory per device", format_bytes(static_cast<double>(best.memory.total))},
                {"layouts in the space", std::to_string(run.result.layouts)}};
  if (report.steps > 0) {
    const double days = days_of(best, report.steps);
    page.tiles.emplace_back("days of steps", fmt::format("{:.1f}", days));
    if (const auto& price = report.cluster.economy.price_per_device_hour)
      page.tiles.emplace_back("rent", format_count(days * 24 * devices_of(best) * *price));
  }
  std::vector<std::vector<std::string>> rows;
  for (const Found& f : run.result.best)
    rows.push_back({describe(f), fmt::format("{:.3f}", f.seconds), format_count(f.tokens_per_second()),
                    fmt::format("{:.0f}", tflops_of(f)),
                    fmt::format("{:.1f}", static_cast<double>(f.memory.total) / kGb),
                    fmt::format("{:.1f}", (report.memory - static_cast<double>(f.memory.total)) / kGb)});
  page.sections.emplace_back(
      "Best layouts",
      table({"layout", "step, s", "tokens/s", "TFLOP/s each", "memory, GB", "free, GB"}, rows));
  watch::Chart front;
  front.title = "Time and memory: nothing is both faster and smaller";
  front.unit = "s per step";
  front.x_axis = "memory per device, GB";
  watch::ChartSeries series{.name = "layouts of the front", .style = "c1", .points = {}, .dots = true};
  for (const Found& f : run.result.front)
    series.points.push_back({static_cast<double>(f.memory.total) / kGb, f.seconds});
  std::reverse(series.points.begin(), series.points.end());
  front.series.push_back(std::move(series));
  std::string charts = watch::draw_chart(front);
  if (report.runs.size() > 1) {
    watch::Chart scale;
    scale.title = "Tokens per second by number of devices";
    scale.unit = "tokens/s";
    scale.x_axis = "devices";
    watch::ChartSeries found{.name = "best layout", .style = "c1", .points = {}, .dots = true},
        ideal{.name = "in proportion", .style = "c2 faint", .points = {}, .dots = false};
    double rate = 0;
    for (const SearchRun& other : report.runs) {
      if (other.result.best.empty()) continue;
      const Found& f = other.result.best.front();
      if (rate == 0) rate = f.tokens_per_second() / devices_of(f);
      found.points.push_back({devices_of(f), f.tokens_per_second()});
      ideal.points.push_back({devices_of(f), rate * devices_of(f)});
    }
    scale.series = {std::move(found), std::move(ideal)};
    scale.from_zero = true;
    charts += watch::draw_chart(scale);
  }
  page.sections.emplace_back("Front", charts);
  std::vector<std::pair<std::string, double>> time, memory;
  for (const auto& [name, seconds] : best.time.parts()) time.emplace_back(name, seconds);
  for (std::size_t c = 0; c < best.memory.categories.size(); ++c)
    memory.emplace_back(name_of(static_cast<MemoryCategory>(c)),
                        static_cast<double>(best.memory.categories[c]) / kGb);
  page.sections.emplace_back("Where the time goes", bars(time, best.seconds, "s"));
  page.sections.emplace_back("Where the memory goes",
                             bars(memory, static_cast<double>(best.memory.total) / kGb, "GB"));
  std::vector<std::pair<std::string, std::string>> why;
  for (const Neighbour& n : run.neighbours) why.emplace_back(n.change, n.verdict);
  page.sections.emplace_back("Why not its neighbours", facts(why));
  page.assumptions = report.notes;
  page.assumptions.push_back(fmt::format(
      "times by {}; 8 of 10 measurements are expected within {:.2f} to {:.2f} of them{}", report.calibration,
      report.low, report.high, report.band.empty() ? "" : ": " + report.band));
  page.assumptions.emplace_back("bytes are those that Stoa allocates");
  page.command = report.command;
  page.footer = report.cluster.source;
  return to_html(page);
}

}  // namespace stoa::plan
