// `stoa plan size` and `stoa plan base-config`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/print.h"
#include "plan/base_config.h"
#include "plan/page.h"
#include "plan/size.h"
#include "watch/chart.h"

namespace stoa::cli {
namespace {

plan::BaseFamily family_of(const std::string& text) { return choice<plan::BaseFamily>(text, "--model"); }

struct SizeArguments {
  std::string model = "gpt", params, tokens, gpus, days, recompute = "none";
  std::optional<double> tflops;
  std::string cluster, precision = "bf16";
  double utilization = 0.4;
  std::optional<std::int64_t> sequence, vocabulary;
  std::optional<double> price;
  std::string output;
  bool json = false;
};

// Sustained FLOP/s of a device, and where the figure comes from.
std::pair<double, std::string> sustained(const SizeArguments& a) {
  require<UsageError>(!(a.tflops && !a.cluster.empty()), "--tflops and --cluster are both given: give one");
  if (a.cluster.empty()) {
    const double tflops = a.tflops.value_or(140);
    return {tflops * 1e12,
            a.tflops
                ? fmt::format("{:g} TFLOP/s per GPU, as given", tflops)
                : fmt::format("{:g} TFLOP/s per GPU (A100 with GPT; change it with --tflops or --cluster)",
                              tflops)};
  }
  const plan::Cluster cluster = find_cluster(a.cluster);
  const double peak = cluster.peak(choice<plan::Format>(a.precision, "--precision"));
  return {peak * a.utilization,
          fmt::format(
              "{:.0f} TFLOP/s per GPU: {:.0f} % of the {} peak of {} ('stoa plan predict' is more accurate)",
              peak * a.utilization / 1e12, a.utilization * 100, a.precision, cluster.device.name)};
}

// "no recomputation", "full recomputation".
std::string recomputation_word(const SizeArguments& a) { return a.recompute == "none" ? "no" : a.recompute; }

// Everything that the answer says.
struct SizeFindings {
  plan::BudgetAnswer answer;
  plan::BaseConfig base;
  double device_flops = 0, per_token = 0, device_hours = 0, optimal = 0;
  std::string why;
};

std::string size_page(const SizeArguments& a, const SizeFindings& f) {
  const plan::BudgetAnswer& answer = f.answer;
  plan::Page page;
  page.title = fmt::format("Size: {} parameters on {} tokens", format_count(answer.parameters),
                           format_count(answer.tokens));
  page.tiles = {{"parameters", format_count(answer.parameters)},
                {"tokens", format_count(answer.tokens)},
                {"GPUs", fmt::format("{:.0f}", answer.devices)},
                {"days", fmt::format("{:.1f}", answer.days)},
                {"GPU-hours", format_count(f.device_hours)}};
  if (a.price) page.tiles.emplace_back("cost", format_count(f.device_hours * *a.price));
  page.sections.emplace_back(
      "Model", plan::facts({{"family", a.model},
                            {"nearest shape of the tables",
                             fmt::format("{} layers, hidden {}, {} heads: {} parameters",
                                         f.base.model.num_layers, f.base.model.hidden_size,
                                         f.base.model.num_attention_heads, format_count(f.base.parameters))},
                            {"compute-optimal for the same FLOPs",
                             fmt::format("{} parameters, {} tokens", format_count(f.optimal),
                                         format_count(plan::compute_optimal_tokens(f.optimal)))}}));
  watch::Chart chart;
  chart.title = "Days by number of GPUs, the same training";
  chart.unit = "days";
  chart.x_axis = "GPUs";
  chart.from_zero = true;
  watch::ChartSeries series{.name = "days", .style = "c1", .points = {}, .dots = true};
  std::vector<std::vector<std::string>> rows;
  for (const double times : {0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0}) {
    const double devices = std::max(1.0, std::round(times * answer.devices));
    const double days = answer.days * answer.devices / devices;
    series.points.push_back({devices, days});
    rows.push_back({fmt::format("{:.0f} GPUs", devices), fmt::format("{:.1f}", days),
                    fmt::format("{:.0f}", f.device_hours)});
    if (a.price) rows.back().push_back(fmt::format("{:.0f}", f.device_hours * *a.price));
  }
  chart.series.push_back(std::move(series));
  page.sections.emplace_back("Days", watch::draw_chart(chart));
  std::vector<std::string> head{"devices", "days", "GPU-hours"};
  if (a.price) head.emplace_back("cost");
  page.sections.emplace_back("If the number of GPUs affects only the time", plan::table(head, rows));
  page.assumptions = {
      fmt::format("sustained rate: {}", f.why),
      fmt::format(
          "{:.3g} FLOPs executed, {:.2f} per parameter and token ({} recomputation, attention counted)",
          answer.flops, f.per_token / answer.parameters, recomputation_word(a)),
      "the rate is an assumption: a fifth less makes the days a quarter more; 'stoa plan search' and "
      "'predict' "
      "compute it for a layout",
      "failures, restarts and checkpoints are not in these days: 'stoa plan advise' adds them"};
  if (answer.balanced)
    page.assumptions.emplace_back("20 tokens per parameter (Hoffmann et al. 2022, 2203.15556)");
  page.command = command_line();
  return plan::to_html(page);
}

void size(const SizeArguments& a, Context& context) {
  plan::BaseRequest request;
  request.family = family_of(a.model);
  request.sequence = a.sequence;
  request.vocabulary = a.vocabulary;
  const auto recompute = choice<plan::BaseRecompute>(a.recompute, "--recompute");
  plan::Budget budget;
  const auto read = [](std::optional<double>& to, const std::string& text, const char* option) {
    if (!text.empty()) to = plan::parse_count(text, option);
  };
  read(budget.parameters, a.params, "--params");
  read(budget.tokens, a.tokens, "--tokens");
  read(budget.devices, a.gpus, "--gpus");
  read(budget.days, a.days, "--days");
  const auto [flops, why] = sustained(a);
  const plan::FlopsPerToken per_token = [&](double n) {
    return plan::flops_per_token(request, n, recompute);
  };
  const plan::BudgetAnswer answer = plan::solve(budget, flops, per_token);
  request.parameters = answer.parameters;
  request.tokens = answer.tokens;
  const plan::BaseConfig base = plan::base_config(request);
  const double gpu_hours = answer.devices * answer.days * 24;
  const double optimal = plan::compute_optimal_parameters(answer.flops);
  if (!a.output.empty()) {
    write_text(a.output,
               size_page(a, {answer, base, flops, per_token(answer.parameters), gpu_hours, optimal, why}));
    context.console.line(fmt::format("wrote {}", a.output));
  }
  if (a.json) {
    nlohmann::ordered_json out{
        {"solved_for", answer.solved_for},
        {"compute_optimal", answer.balanced},
        {"parameters", answer.parameters},
        {"tokens", answer.tokens},
        {"gpus", answer.devices},
        {"days", answer.days},
        {"gpu_hours", gpu_hours},
        {"flops", answer.flops},
        {"flops_per_token", per_token(answer.parameters)},
        {"flops_per_parameter_and_token", per_token(answer.parameters) / answer.parameters},
        {"sustained_tflops_per_gpu", flops / 1e12},
        {"base_config",
         {{"layers", base.model.num_layers},
          {"hidden", base.model.hidden_size},
          {"heads", base.model.num_attention_heads},
          {"parameters", base.parameters}}},
        {"compute_optimal_parameters", optimal},
        {"compute_optimal_tokens", plan::compute_optimal_tokens(optimal)}};
    if (a.price) out["cost"] = gpu_hours * *a.price;
    return print_json_line(out);
  }
  const auto mark = [&](const char* what) {
    const bool follows = answer.balanced && ((std::string_view(what) == "tokens" && a.tokens.empty()) ||
                                             (std::string_view(what) == "parameters" && a.params.empty()));
    return follows                     ? "  <- computed, 20 tokens per parameter"
           : answer.solved_for == what ? "  <- computed"
                                       : "";
  };
  print(fmt::format("parameters   {:>10}{}\n", format_count(answer.parameters), mark("parameters")) +
        fmt::format("tokens       {:>10}{}\n", format_count(answer.tokens), mark("tokens")) +
        fmt::format("GPUs         {:>10.0f}{}\n", answer.devices, mark("devices")) +
        fmt::format("days         {:>10.2f}{}\n", answer.days, mark("days")) +
        fmt::format("GPU-hours    {:>10.0f}", gpu_hours) +
        (a.price ? fmt::format(", at {:g} per hour: {:.0f}", *a.price, gpu_hours * *a.price) : "") + "\n" +
        fmt::format("{:.3g} FLOPs executed: {:.2f} per parameter and token ({} recomputation, attention "
                    "counted), at {}\n",
                    answer.flops, per_token(answer.parameters) / answer.parameters, recomputation_word(a),
                    why) +
        fmt::format("nearest shape of the tables: {} layers, hidden {}, {} heads = {} parameters ('stoa plan "
                    "base-config --model {} --params {:.4g}B' writes it)\n",
                    base.model.num_layers, base.model.hidden_size, base.model.num_attention_heads,
                    format_count(base.parameters), a.model, answer.parameters / 1e9) +
        fmt::format("the compute-optimal choice for the same FLOPs is about {} parameters and {} tokens (20 "
                    "per parameter, "
                    "Hoffmann et al. 2022, 2203.15556)\n",
                    format_count(optimal), format_count(plan::compute_optimal_tokens(optimal))));
}

struct BaseArguments {
  std::string model = "gpt", params, tokens = "300B", output;
  std::optional<std::int64_t> sequence, vocabulary;
  std::int64_t gpu_memory = 80;
};

void base_config(const BaseArguments& a, Context& context) {
  plan::BaseRequest request;
  request.family = family_of(a.model);
  request.parameters = plan::parse_count(a.params, "--params");
  request.tokens = plan::parse_count(a.tokens, "--tokens");
  request.sequence = a.sequence;
  request.vocabulary = a.vocabulary;
  request.device_gb = a.gpu_memory;
  const std::string yaml = plan::to_yaml(plan::base_config(request));
  if (a.output.empty()) return print(yaml);
  write_text(a.output, yaml);
  context.console.line(fmt::format("wrote {}", a.output));
}

template <class Arguments>
void add_shape_options(CLI::App& command, Arguments& a) {
  command.add_option("--model", a.model, "gpt, bert, t5, llama or moe")->capture_default_str();
  command.add_option("--sequence", a.sequence, "Tokens per sample")->check(CLI::Range(16, 1 << 24));
  command.add_option("--vocab-size", a.vocabulary, "Rows of the embedding")->check(CLI::Range(16, 1 << 24));
}

}  // namespace

void add_plan_size_command(CLI::App& plan, Context& context) {
  auto a = std::make_shared<SizeArguments>();
  CLI::App* size_command = plan.add_subcommand("size",
                                               "Parameters, tokens, GPUs or days: give three, get the "
                                               "fourth; or GPUs or days and one more, for a compute-optimal "
                                               "model. Example: stoa plan size --gpus 1000 --days 30");
  size_command->add_option("--params", a->params, "Parameters of the model (175B)");
  size_command->add_option("--tokens", a->tokens, "Tokens to train on (300B)");
  size_command->add_option("--gpus,--ranks", a->gpus, "Devices");
  size_command->add_option("--days", a->days, "Days of training");
  add_shape_options(*size_command, *a);
  size_command
      ->add_option("--recompute", a->recompute,
                   "none, selective (recompute attention) or full (recompute layers)")
      ->capture_default_str();
  size_command->add_option("--tflops", a->tflops, "Executed TFLOP/s that a GPU sustains")
      ->check(between(1e-6, 1e6));
  size_command->add_option("--cluster", a->cluster, "Cluster file or name, for the peak of its devices");
  size_command->add_option("--precision", a->precision, "Precision of the peak: fp32, bf16, fp16, fp8")
      ->capture_default_str();
  size_command->add_option("--utilization", a->utilization, "Sustained share of the peak")
      ->capture_default_str()
      ->check(between(1e-6, 1));
  size_command->add_option("--price", a->price, "Price of a GPU-hour")->check(between(0, 1e9));
  size_command->add_option("--output", a->output,
                           "A page with the answer and what it rests on (report.html)");
  size_command->add_flag("--json", a->json, "One JSON object");
  counts_only_with(*size_command, {"--utilization", "--precision"}, "--cluster");
  size_command->callback([a, &context] { size(*a, context); });
}

void add_plan_base_config_command(CLI::App& plan, Context& context) {
  auto a = std::make_shared<BaseArguments>();
  CLI::App* base = plan.add_subcommand("base-config",
                                       "A configuration to start from, by published tables. Example: stoa "
                                       "plan base-config --model gpt --params 5B");
  base->add_option("--params", a->params, "Parameters of the model (5B)")->required();
  base->add_option("--tokens", a->tokens, "Tokens to train on")->capture_default_str();
  add_shape_options(*base, *a);
  base->add_option("--gpu-memory", a->gpu_memory, "GB of a device")
      ->capture_default_str()
      ->check(between(1, 1e6));
  base->add_option("--output", a->output, "File to write (default: standard output)");
  base->callback([a, &context] { base_config(*a, context); });
}

}  // namespace stoa::cli
