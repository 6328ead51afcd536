#include "cli/compare_command.h"

#include <iostream>
#include <memory>
#include <string>

#include "base/error.h"
#include "eval/compare_runs.h"

namespace stoa::cli {
namespace {

// The answer is printed; the exit status says it to scripts.
class RunsDiffer final : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 3; }
};

struct CompareArguments {
  std::string a, b;
  eval::CompareOptions options;
  bool json = false;
};

void compare(const CompareArguments& arguments) {
  const auto comparison = eval::compare_runs(arguments.a, arguments.b, arguments.options);
  std::cout << (arguments.json ? eval::to_json(comparison) + "\n" : eval::to_text(comparison)) << std::flush;
  require<RunsDiffer>(comparison.same, "'{}' and '{}' are not the same run", arguments.a, arguments.b);
}

}  // namespace

void add_compare_command(CLI::App& app, Context&) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare",
                                         "Are two runs the same run? Losses, gradient norms, weights and "
                                         "optimizer state; exit 0 same, 3 different. Example: stoa "
                                         "compare runs/a runs/b --tolerance 1e-5");
  command->add_option("RUN_A", arguments->a, "Run directory (also a checkpoint or a model: tensors only)")
      ->required();
  command->add_option("RUN_B", arguments->b, "The other one")->required();
  command
      ->add_option("--tolerance", arguments->options.tolerance,
                   "Largest relative difference; 0: equal to the last bit")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "One JSON object");
  command->callback([arguments] { compare(*arguments); });
}

}  // namespace stoa::cli
