// `stoa checkpoint prune`: a smaller model made of the parts of another that matter most.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "ckpt/find_checkpoint.h"
#include "cli/calibration_tokens.h"
#include "cli/command.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/text_files.h"
#include "cli/writing_progress.h"
#include "run/prune.h"

namespace stoa::cli {
namespace {

struct PruneArguments {
  ComputeArguments compute;
  TextArguments form;
  run::PrunedSizes sizes;
  std::string model, text, output;
  std::int64_t tokens = 8192;
  bool json = false;
};

run::Calibration calibration_of(const PruneArguments& a) {
  require<UsageError>(
      !a.text.empty(),
      "--text is missing: --layers, --ffn, --heads and --hidden keep what matters most on a text");
  return measured_on(a.model, a.compute.machine, a.form.file(a.text), a.tokens);
}

void prune(const PruneArguments& a, Context& context) {
  require<UsageError>(a.sizes.measured() || !a.sizes.kept_layers.empty(),
                      "nothing is pruned: give --layers, --keep-layers, --ffn, --heads or --hidden");
  const ckpt::FoundCheckpoint found = ckpt::find_checkpoint(a.model, ckpt::Verify::kModel);
  require<ConfigError>(!found.adapter, "'{}' with an adapter: merge it first (stoa checkpoint merge)",
                       a.model);
  const infer::ModelFiles files(found.model);
  const run::KeptParts parts =
      run::choose_parts(files.model(), a.sizes, a.sizes.measured() ? calibration_of(a) : run::Calibration{});
  const DType type = a.compute.type().value_or(files.stored_type());
  WritingProgress progress(context, "prune", "nothing is written");
  const ckpt::ExportResult result = run::write_pruned(files, parts, type, a.output, progress.reporter());
  progress.finish();
  const auto before = model::parameter_count(files.model());
  const auto after = model::parameter_count(infer::ModelFiles(a.output).model());
  if (a.json)
    return print_json(nlohmann::ordered_json{{"path", a.output},
                                             {"parameters_before", before},
                                             {"parameters", after},
                                             {"kept_layers", parts.layers},
                                             {"kept_hidden", parts.hidden},
                                             {"kept_ffn", parts.ffn},
                                             {"kept_groups", parts.groups},
                                             {"bytes", result.bytes}});
  print(fmt::format(
      "{}: {} of {} parameters; layers {} of {}, {} neurons, {} of {} groups of heads, {} channels\n",
      a.output, after, before, fmt::join(parts.layers, " "), files.model().config.num_layers,
      parts.ffn.front().size(), parts.groups.front().size(), files.model().config.query_groups(),
      parts.hidden.size()));
}

}  // namespace

void add_checkpoint_prune(CLI::App& checkpoint, Context& context) {
  const auto a = std::make_shared<PruneArguments>();
  auto* command = checkpoint.add_subcommand(
      "prune", "Write a smaller model of the layers, neurons, heads and channels that matter most on a text");
  command->footer("Example: stoa checkpoint prune runs/base --layers 8 --text tales.txt --output smaller");
  command->add_option("MODEL", a->model, "Hugging Face model directory, checkpoint, or run directory")
      ->required();
  command->add_option("--layers", a->sizes.layers, "Layers to keep: those that change the stream most")
      ->check(between(1, 1 << 20));
  command->add_option("--keep-layers", a->sizes.kept_layers, "These layers, counted from 0, as in 0,1,2,5")
      ->delimiter(',')
      ->check(between(0, 1 << 20))
      ->excludes("--layers");
  command->add_option("--ffn", a->sizes.ffn, "Neurons of every feed-forward layer to keep")
      ->check(between(1, 1 << 24));
  command
      ->add_option("--heads", a->sizes.heads,
                   "Heads of queries to keep in every layer, with their keys and values")
      ->check(between(1, 1 << 20));
  command->add_option("--hidden", a->sizes.hidden, "Channels of the stream to keep")
      ->check(between(1, 1 << 24));
  command->add_option("--text", a->text, "Calibration text on which importance is measured");
  a->form.add_to(*command);
  command->add_option("--text-tokens", a->tokens, "How many of its tokens")
      ->capture_default_str()
      ->check(between(2, 1e9));
  command->add_option("--output", a->output, "Directory to write; new or empty")->required();
  a->compute.add_to(*command);
  command->add_flag("--json", a->json, "Answer as JSON, with all indices that are kept");
  command->callback([a, &context] { prune(*a, context); });
}

}  // namespace stoa::cli
