#include "cli/plan_predict_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cli/command.h"
#include "cli/config_source.h"
#include "cli/machine_factory.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/plan_config.h"
#include "cli/plan_subject.h"
#include "cli/print.h"
#include "cli/schema.h"
#include "plan/accuracy.h"
#include "plan/money.h"
#include "plan/nearest_rows.h"
#include "plan/page.h"
#include "plan/predict_text.h"
#include "plan/rows.h"
#include "plan/search.h"
#include "schedule/draw.h"
#include "train/layout_plan.h"
#include "train/tokenizer_choice.h"
#include "watch/chart.h"

namespace stoa::cli {
namespace {

struct PlanPredictArguments {
  ConfigArguments config;
  std::string cluster, calibration, rows, output, timeline, precision, accounting, program, target = "stoa";
  std::optional<std::int64_t> ranks;
  bool json = false;
};

void write_timeline(const std::string& path, const plan::StepTimeline& timeline) {
  const std::string kind = fs::path(path).extension().string();
  if (kind == ".html") return write_text(path, schedule::to_html(timeline.schedule, timeline.durations));
  if (kind == ".svg") return write_text(path, schedule::to_svg(timeline.schedule, timeline.durations));
  if (kind == ".json") return write_text(path, plan::to_chrome_trace(timeline));
  fail<UsageError>("--timeline {}: expected a file that ends in .html, .svg or .json (a Chrome trace)", path);
}

// Nothing where Stoa cannot run the configuration: `why` gets the reason.
std::optional<plan::CountedMemory> counted_memory(train::RunConfig config, plan::SearchTarget target,
                                                  std::string& why) {
  if (target != plan::SearchTarget::kStoa) return {};
  try {
    const std::int64_t ids = tokenizer_ids(config);
    run::TrainingOptions options = plan_open_ended(config, ids).options;
    options.sample_context = 0;
    options.memory_limit.reset();
    infer::Machine machine = make_planning_machine(planning_options(config));
    plan::MemoryModel memory(machine, options);
    return plan::count_memory(
        memory, {options.layout, options.micro_batch, options.microbatches, options.model.config.recompute});
  } catch (const ConfigError& error) {
    why = error.what();
    return {};
  }
}

std::string prediction_page(const train::RunConfig& config, const plan::Prediction& p,
                            const plan::Workload& w, const plan::Cluster& cluster) {
  plan::Page page;
  page.title = fmt::format("Prediction: {} on {} x {}", config.name, w.devices(), cluster.device.name);
  page.tiles = {{"seconds per step", fmt::format("{:.3f}", p.seconds)},
                {"8 of 10 within", fmt::format("{:.3f} to {:.3f} s", p.low, p.high)},
                {"tokens per second", format_count(p.tokens_per_second)},
                {"of peak", fmt::format("{:.1f} %", 100 * p.share_of_peak)},
                {"memory per device", format_bytes(p.memory.sum())},
                {"fits", p.fits ? "yes" : "no"}};
  page.sections.emplace_back(
      "Model", plan::facts({{"name", config.name},
                            {"shape", fmt::format("{} layers, hidden {}, {} heads, {} tokens a sample",
                                                  config.model.num_layers, config.model.hidden_size,
                                                  config.model.num_attention_heads, w.model.sequence)},
                            {"batch", fmt::format("{} samples, {} tokens a step", w.global_batch,
                                                  format_count(w.tokens()))},
                            {"layout", w.text()}}));
  const double steps = static_cast<double>(config.trainer.max_steps.value_or(0));
  if (steps > 0) {
    const double state = 14 * w.model.parameters();
    std::vector<std::vector<std::string>> rows;
    for (const auto& [what, seconds] :
         {std::pair("the shortest of 8 in 10", p.low), std::pair("expected", p.seconds),
          std::pair("the longest of 8 in 10", p.high)}) {
      const plan::MoneyAnswer m = plan::money({seconds, steps, w.devices(), state, {}}, cluster);
      rows.push_back({what, fmt::format("{:.2f}", m.step_days), fmt::format("{:.2f}", m.days),
                      fmt::format("{:.1f}", m.failures), fmt::format("{:.0f}", m.device_hours),
                      m.total() ? fmt::format("{:.0f}", *m.total()) : ""});
      if (seconds != p.seconds) continue;
      page.tiles.emplace_back("days", fmt::format("{:.1f}", m.days));
      if (m.total()) page.tiles.emplace_back("cost", format_count(*m.total()));
    }
    page.sections.emplace_back(
        "The whole training",
        plan::table({"step time", "days of steps", "days with failures", "failures", "device-hours", "cost"},
                    rows));
  }
  std::vector<std::pair<std::string, double>> parts;
  for (const auto& [name, seconds] : p.time.parts()) parts.emplace_back(name, seconds);
  page.sections.emplace_back("Where the time goes", plan::bars(parts, p.seconds, "s"));
  page.sections.emplace_back("Where the memory goes",
                             plan::bars({{"weights", p.memory.weights / 1e9},
                                         {"gradients", p.memory.gradients / 1e9},
                                         {"optimizer", p.memory.optimizer / 1e9},
                                         {"activations", p.memory.activations / 1e9},
                                         {"logits", p.memory.logits / 1e9},
                                         {"working", p.memory.working / 1e9},
                                         {"reserve", (p.memory.overhead + p.reserve) / 1e9}},
                                        (p.memory.sum() + p.reserve) / 1e9, "GB"));
  if (p.stages.size() > 1) {
    watch::Chart chart;
    chart.title = "Busy time of the pipeline's ranks";
    chart.unit = "s per step";
    chart.x_axis = "pipeline rank";
    chart.from_zero = true;
    watch::ChartSeries busy{.name = "busy", .style = "c1", .points = {}, .dots = true};
    for (std::size_t i = 0; i < p.stages.size(); ++i)
      busy.points.push_back({static_cast<double>(i), p.stages[i].busy});
    chart.series.push_back(std::move(busy));
    page.sections.emplace_back("Stages", watch::draw_chart(chart));
  }
  page.assumptions = p.notes;
  if (steps > 0)
    page.assumptions.push_back(fmt::format("{:g} failures per device and year, {:g} minutes to start again",
                                           cluster.economy.failures_per_device_year,
                                           cluster.economy.restart_minutes));
  else
    page.assumptions.emplace_back("the length of the training is not given: trainer.max_steps");
  for (const auto& run : p.nearest) page.assumptions.push_back("measured near it: " + run);
  page.command = command_line();
  page.footer = cluster.source;
  return plan::to_html(page);
}

void predict_config(const PlanPredictArguments& arguments, Context& context) {
  require<UsageError>(!arguments.cluster.empty(),
                      "--cluster is missing: a cluster file, or the name of one in {}",
                      clusters_directory().string());
  train::RunConfig config = load_config(arguments.config, Purpose::kPlan, context.console, arguments.ranks);
  const plan::Cluster cluster = plan::load_cluster(arguments.cluster, clusters_directory());
  if (!arguments.precision.empty())
    set_format(config::Codec<plan::Format>::parse(config::Node::text(arguments.precision)), config);
  plan::Workload workload = workload_of(config);
  if (!arguments.program.empty()) {
    const auto stated = plan::SoftwareProfiles::load(software_profiles()).of(arguments.program, "");
    require<UsageError>(stated.known,
                        "--program {}: {} knows no such program; its entries begin with 'source:'",
                        arguments.program, software_profiles().string());
    workload.software = stated.software;
  }
  const plan::Calibration calibration = find_calibration(arguments.calibration);
  std::string why;
  auto target = choice<plan::SearchTarget>(arguments.target, "--target");
  if (!arguments.program.empty()) target = plan::SearchTarget::kMegatron;  // estimated
  const auto counted = counted_memory(config, target, why);
  plan::Prediction prediction =
      plan::predict(workload, cluster, calibration, counted ? &*counted : nullptr, reserved_bytes(cluster));
  if (!why.empty()) {
    prediction.notes.push_back("memory is estimated: Stoa cannot run this: " + why);
    target = plan::SearchTarget::kMegatron;
  }
  prediction.whose = arguments.program.empty() ? std::string(plan::whose_bytes(target))
                                               : "estimated for " + arguments.program;
  prediction.nearest = nearest_published(workload, cluster, calibration);
  if (!arguments.timeline.empty())
    write_timeline(arguments.timeline, plan::timeline_of(prediction, workload));
  if (!arguments.output.empty()) {
    write_text(arguments.output, prediction_page(config, prediction, workload, cluster));
    context.console.line(fmt::format("wrote {}", arguments.output));
  }
  const plan::PaperActivations paper = plan::paper_activations(workload);
  const bool accounted = !arguments.accounting.empty();
  if (arguments.json)
    return print(plan::to_json(prediction, workload, cluster, accounted ? &paper : nullptr) + "\n");
  print(plan::to_text(prediction, workload, cluster, config.name + " on " + cluster.name) +
        (accounted ? plan::to_text(paper) : ""));
}

std::string joined(const std::vector<std::string>& notes) {
  return fmt::format("{}", fmt::join(notes, "; "));
}

void predict_rows(const PlanPredictArguments& arguments) {
  require<UsageError>(!arguments.output.empty(), "--output is missing: the CSV file to write");
  plan::CsvTable table = plan::read_csv(arguments.rows);
  const auto clusters = plan::load_clusters(clusters_directory());
  const auto rows = plan::read_rows(table, clusters, plan::SoftwareProfiles::load(software_profiles()));
  const plan::Calibration calibration = find_calibration(arguments.calibration);
  std::vector<double> errors;
  int unpredicted = 0;
  for (const char* name : {"predicted_seconds", "predicted_memory_gb", "fits", "error_percent", "notes"})
    table.header.emplace_back(name);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const plan::Row& row = rows[i];
    auto& cells = table.rows[i];
    if (!row.problem.empty()) {
      cells.insert(cells.end(), {"", "", "", "", "not predicted: " + row.problem});
      ++unpredicted;
      continue;
    }
    const plan::Prediction prediction = plan::predict(row.workload, row.cluster, calibration);
    std::vector<std::string> notes = row.notes;
    notes.insert(notes.end(), prediction.notes.begin(), prediction.notes.end());
    std::string error;
    if (row.seconds) {
      error = fmt::format("{:.2f}", 100 * (prediction.seconds / *row.seconds - 1));
      errors.push_back(std::abs(prediction.seconds / *row.seconds - 1));
    }
    cells.insert(cells.end(), {fmt::format("{:.6g}", prediction.seconds),
                               fmt::format("{:.3f}", prediction.memory.sum() / 1e9),
                               prediction.fits ? "yes" : "no", error, joined(notes)});
  }
  write_text(arguments.output, plan::write_csv(table));
  std::string said = fmt::format("{} rows", rows.size());
  if (unpredicted) said += fmt::format(", {} not predicted (see their notes)", unpredicted);
  if (!errors.empty()) {
    const plan::ErrorSummary summary = plan::summarize(errors);
    said += fmt::format(
        "; absolute error of {} measured: median {:.1f} %, mean {:.1f} %, 90th percentile {:.1f} %",
        summary.rows, summary.median, summary.mean, summary.p90);
  }
  print(said + "\n");
}

}  // namespace

fs::path clusters_directory() { return shipped_file("clusters"); }
fs::path software_profiles() { return shipped_file("planner/software_profiles.yaml"); }

std::vector<std::string> nearest_published(const plan::Workload& w, const plan::Cluster& c,
                                           const plan::Calibration& calibration) {
  const auto rows = plan::read_rows(plan::read_csv(shipped_file("planner/published_rows.csv")),
                                    plan::load_clusters(clusters_directory()),
                                    plan::SoftwareProfiles::load(software_profiles()));
  return plan::nearest_rows(rows, w, c, calibration);
}

plan::Workload workload_of(const train::RunConfig& config) {
  const auto tokenizer = train::load_run_tokenizer(config).tokenizer;
  const std::int64_t vocabulary = config.model.vocab_size.value_or(
      tokenizer ? static_cast<std::int64_t>(tokenizer->vocab_size()) : model::kVocabWithoutTokenizer);
  plan::Workload w =
      plan::workload_of(config.model, train::plan_layout(config), vocabulary, config.batch.micro_batch_size,
                        config.batch.global(), format_of(config));
  plan::add_estimated(config.estimated, w);
  return w;
}

void add_plan_predict_command(CLI::App& plan, Context& context) {
  auto arguments = std::make_shared<PlanPredictArguments>();
  CLI::App* command = plan.add_subcommand("predict",
                                          "Seconds and bytes of a step on a cluster. Example: stoa plan "
                                          "predict gpt-175b --cluster dgx-h100 --ranks 1024");
  arguments->config.add_to(*command);
  command->add_option("--cluster", arguments->cluster,
                      "Cluster file, or the name of one in configs/clusters");
  command->add_option("--ranks,--gpus", arguments->ranks, "Number of ranks")->check(rank_count());
  command
      ->add_option("--precision", arguments->precision,
                   "fp32, bf16, fp16 or fp8 instead of trainer.precision and model.fp8")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "fp8"}));
  command->add_option("--calibration", arguments->calibration,
                      "Calibration file; 'none': datasheet only (default: the one in configs/planner)");
  command
      ->add_option("--accounting", arguments->accounting,
                   "2205.05198: also report the memory of the first stage by that paper's formulas")
      ->check(CLI::IsMember({"2205.05198"}));
  command->add_option("--target", arguments->target,
                      "Whose bytes: stoa (counted), megatron or torchtitan (estimated)");
  command->add_option("--program", arguments->program,
                      "A program of configs/planner/software_profiles.yaml, by its source: what it overlaps "
                      "and fuses; its memory is estimated");
  command->add_option("--timeline", arguments->timeline,
                      "Drawing of the step: .html, .svg, or .json (Chrome trace)");
  command->add_option("--rows", arguments->rows, "Predict the rows of a CSV file of measurements instead");
  command->add_option("--output", arguments->output,
                      "A page with the prediction and what it rests on (report.html); with --rows: the CSV "
                      "file with predictions");
  command->add_flag("--json", arguments->json, "One JSON object");
  counts_only_without(*command,
                      {"--cluster", "--ranks", "--precision", "--accounting", "--target", "--program",
                       "--timeline", "--json", "--from-megatron", "--ignore", "--list-ignored"},
                      "--rows");
  command->callback([arguments, &context] {
    require<UsageError>(arguments->rows.empty() == arguments->config.given(),
                        "give either CONFIG (or --from-megatron) or --rows ROWS.csv");
    if (arguments->rows.empty())
      predict_config(*arguments, context);
    else
      predict_rows(*arguments);
  });
}

}  // namespace stoa::cli
