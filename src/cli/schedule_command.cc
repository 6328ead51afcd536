// `stoa schedule`: pipeline schedules, drawn and timed before a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "schedule/draw.h"
#include "schedule/generators.h"
#include "schedule/validate.h"

namespace stoa::cli {
namespace {

struct ScheduleArguments {
  schedule::ScheduleRequest request;
  schedule::Durations durations;
  std::optional<double> backward, input, weight;
  std::string format = "text";
};

void show(ScheduleArguments arguments) {
  const double half = arguments.backward.value_or(2) / 2;
  require<ConfigError>(half > 0, "--backward-time must be positive, got {}", 2 * half);
  arguments.durations.backward_input = arguments.input.value_or(half);
  arguments.durations.backward_weight = arguments.weight.value_or(half);
  if (arguments.backward) arguments.durations.backward = *arguments.backward;
  const auto schedule = schedule::generate(arguments.request);
  schedule::validate(schedule::lower(schedule, arguments.durations));
  const auto write = arguments.format == "json"   ? schedule::to_json
                     : arguments.format == "svg"  ? schedule::to_svg
                     : arguments.format == "html" ? schedule::to_html
                                                  : schedule::to_report;
  print(write(schedule, arguments.durations));
}

}  // namespace

void add_schedule_command(CLI::App& app, Context&) {
  CLI::App* schedules = app.add_subcommand("schedule", "Inspect pipeline schedules");
  schedules->require_subcommand(1);
  CLI::App* command =
      schedules->add_subcommand("show",
                                "Bubble, memory in flight and the actions of every rank. Example: stoa "
                                "schedule show zb-v --stages 4 --microbatches 8 "
                                "--format svg > zb-v.svg");
  auto arguments = std::make_shared<ScheduleArguments>();
  auto& request = arguments->request;
  auto& durations = arguments->durations;
  command
      ->add_option("NAME", request.name,
                   fmt::format("One of {}", fmt::join(schedule::schedule_names(), ", ")))
      ->required();
  command->add_option("--stages", request.stages, "Pipeline ranks")->required()->check(between(1, 4096));
  command
      ->add_option("--chunks", request.chunks,
                   "Chunks of layers per rank; default: what the schedule needs, else 2")
      ->check(between(1, 1024));
  command->add_option("--microbatches", request.microbatches, "Microbatches per step")
      ->required()
      ->check(between(1, 65536));
  command
      ->add_option("--group", request.group,
                   "Interleaved: microbatches per group; default: as many as stages")
      ->check(between(1, 65536));
  command->add_option("--format", arguments->format, "Output format")
      ->check(CLI::IsMember({"text", "json", "svg", "html"}))
      ->capture_default_str();
  command->add_option("--forward-time", durations.forward, "Time of one chunk, any unit")
      ->capture_default_str()
      ->check(between(1e-9, 1e9));
  command
      ->add_option("--backward-time", arguments->backward,
                   "Time of both gradients together; if split, each takes half unless given")
      ->check(between(1e-9, 1e9));
  command->add_option("--input-gradient-time", arguments->input, "Time of one chunk; default 1")
      ->check(between(1e-9, 1e9));
  command->add_option("--weight-gradient-time", arguments->weight, "Time of one chunk; default 1")
      ->check(between(1e-9, 1e9));
  command
      ->add_option("--chunk-times", durations.chunk_weight,
                   "Factors for the times of every chunk in model order, for uneven stages: 1.2,1,1,1.5")
      ->delimiter(',')
      ->check(between(1e-9, 1e9));
  command->add_option("--communication-time", durations.communication, "Time of one transfer")
      ->capture_default_str()
      ->check(between(0, 1e9));
  command->callback([arguments] { show(*arguments); });
}

}  // namespace stoa::cli
