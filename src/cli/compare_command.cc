// `stoa compare RUN_A RUN_B`.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "ckpt/tensor_dump.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/rerun.h"
#include "eval/compare_metrics.h"
#include "eval/compare_runs.h"
#include "eval/locate.h"

namespace stoa::cli {
namespace {

// The comparison is printed to standard output; this error only sets the exit status.
class RunsDiffer final : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 3; }
};

struct CompareArguments {
  std::string a, b;
  std::optional<double> tolerance;
  bool json = false, locate = false;
};

// The tensor dump in `given`, which is a run directory or the dump itself; none if there is no dump.
std::optional<fs::path> dump_of(const fs::path& given) {
  for (const auto& path : {given, given / ckpt::kDumpFolder})
    if (ckpt::DumpReader::exists(path)) return path;
  require<IoError>(fs::exists(given), "'{}' does not exist", given.string());
  return std::nullopt;
}

// The first logged step whose loss or gradient norm differ; the first in common where none does.
std::int64_t first_different_step(const fs::path& a, const fs::path& b) {
  eval::Comparison curves;
  eval::compare_metrics(a, b, 0, curves);
  std::optional<std::int64_t> first;
  for (const auto& curve : curves.curves)
    if (curve.first_step && (curve.metric == "loss" || curve.metric == "grad_norm") &&
        (!first || *curve.first_step < *first))
      first = curve.first_step;
  return first.value_or(1);
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((fs::temp_directory_path() / "stoa-locate-XXXXXX").string()) {
    require<IoError>(::mkdtemp(path_.data()) != nullptr, "cannot create a directory in '{}'",
                     fs::temp_directory_path().string());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

void locate(const CompareArguments& arguments, Context& context) {
  const TemporaryDirectory work;
  auto dump_a = dump_of(arguments.a), dump_b = dump_of(arguments.b);
  if (!dump_a || !dump_b) {
    std::vector<std::int64_t> steps;
    if (dump_a || dump_b)
      steps = ckpt::DumpReader(dump_a ? *dump_a : *dump_b).steps();
    else
      steps = {first_different_step(arguments.a, arguments.b)};
    const auto again = [&](const std::string& run, const char* name) {
      rerun_and_dump(run, steps, work.path() / name, context);
      return work.path() / name / ckpt::kDumpFolder;
    };
    if (!dump_a) dump_a = again(arguments.a, "a");
    if (!dump_b) dump_b = again(arguments.b, "b");
  }
  ckpt::DumpReader a(*dump_a), b(*dump_b);
  const auto result = eval::locate(a, b, {arguments.tolerance});
  print(arguments.json ? eval::to_json(result) + "\n" : eval::to_text(result));
  require<RunsDiffer>(result.same(), "'{}' and '{}' are not the same run", arguments.a, arguments.b);
}

void compare(const CompareArguments& arguments) {
  const auto comparison = eval::compare_runs(arguments.a, arguments.b, {arguments.tolerance.value_or(0)});
  print(arguments.json ? eval::to_json(comparison) + "\n" : eval::to_text(comparison));
  require<RunsDiffer>(comparison.same, "'{}' and '{}' are not the same run", arguments.a, arguments.b);
}

}  // namespace

void add_compare_command(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare",
                                         "Are two runs the same run? Losses, gradient norms, weights and "
                                         "optimizer state; exit 0 same, 3 different. --locate names the "
                                         "first tensor that differs. Example: stoa "
                                         "compare runs/a runs/b --tolerance 1e-5");
  command
      ->add_option("RUN_A", arguments->a,
                   "Run directory (also a checkpoint or a model: tensors only; with --locate a tensor dump)")
      ->required();
  command->add_option("RUN_B", arguments->b, "The other one")->required();
  command
      ->add_option(
          "--tolerance", arguments->tolerance,
          "Largest relative difference; 0: equal to the last bit (default: 0; with --locate derived from "
          "types, depth and norms)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--locate", arguments->locate,
                    "The first step, microbatch, layer and tensor that differ, from the dumps of both "
                    "(`stoa train --dump-tensors`); for a run without a dump one step is repeated");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->callback(
      [arguments, &context] { arguments->locate ? locate(*arguments, context) : compare(*arguments); });
}

}  // namespace stoa::cli
