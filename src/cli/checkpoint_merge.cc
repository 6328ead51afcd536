// `stoa checkpoint merge | extract-lora`: an adapter and its model as one model, and back.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "ckpt/find_checkpoint.h"
#include "cli/command.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/writing_progress.h"
#include "infer/extract_adapter.h"
#include "infer/merge_adapter.h"
#include "infer/open_base.h"

namespace stoa::cli {
namespace {

struct MergeArguments {
  std::string model, adapter, dtype, output;
  double max_shard_gigabytes = static_cast<double>(ckpt::kDefaultShardBytes) / 1e9;
  bool json = false;
};

ckpt::FoundCheckpoint find_both(const MergeArguments& arguments, Context& context) {
  ckpt::FoundCheckpoint found = ckpt::find_checkpoint(arguments.model, ckpt::Verify::kModel);
  for (const auto& line : found.skipped) context.console.warn("skipped " + line);
  if (!arguments.adapter.empty()) {
    require<ConfigError>(!found.adapter, "'{}' is an adapter, and --adapter names another: give one of them",
                         arguments.model);
    found.adapter = ckpt::find_adapter(arguments.adapter, found.model);
  }
  require<ConfigError>(found.adapter.has_value(),
                       "'{}' is a whole model: give an adapter, or the one of this model with --adapter",
                       arguments.model);
  return found;
}

int all_cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

void merge(const MergeArguments& arguments, Context& context) {
  const ckpt::FoundCheckpoint found = find_both(arguments, context);
  const infer::ModelFiles base = infer::open_base(found.model, found.adapter);
  const infer::AdapterFiles adapter(*found.adapter, base.model(), base.description().family->type);
  const DType type = arguments.dtype.empty() ? base.stored_type() : dtype_from_name(arguments.dtype);
  WorkerPool pool(all_cores());
  WritingProgress progress(context, "merge", "nothing is merged");
  const infer::MergeReport report = infer::merge_adapter(
      base, adapter, type, arguments.output, static_cast<std::uint64_t>(arguments.max_shard_gigabytes * 1e9),
      pool, progress.reporter());
  progress.finish();
  if (arguments.json)
    return print_json(nlohmann::ordered_json{{"path", arguments.output},
                                             {"base", found.model.string()},
                                             {"adapter", found.adapter->string()},
                                             {"dtype", stoa::name_of(type)},
                                             {"changed_tensors", report.changed},
                                             {"added", report.added},
                                             {"rounding_error", report.lost},
                                             {"worst_tensor", report.worst},
                                             {"worst_rounding_error", report.worst_lost},
                                             {"unchanged_by_rounding", report.vanished},
                                             {"quantized", report.quantized},
                                             {"tensors", report.files.tensors},
                                             {"bytes", report.files.bytes},
                                             {"files", report.files.shards}});
  std::string out = fmt::format(
      "{}: {} with {}, {} tensors as {}, {} in {} files\n{} tensors changed, by {:.3g} of their "
      "size\nrounding to "
      "{} loses {:.3g} of the change (most in {}: {:.3g})\n",
      arguments.output, found.model.string(), found.adapter->string(), report.files.tensors,
      stoa::name_of(type), format_bytes(static_cast<double>(report.files.bytes)), report.files.shards,
      report.changed, report.added, stoa::name_of(type), report.lost, report.worst, report.worst_lost);
  print(out);
  if (report.quantized != "none")
    context.console.warn(fmt::format(
        "the adapter was trained on this model in {0}: it is merged into the values of {0}, for which "
        "it was trained; quantising the result again loses some of it",
        report.quantized));
  if (report.from_quantised_files)
    context.console.warn(fmt::format(
        "{} holds its weights in fewer bits: the merged model has the values that they stand for, as {}; "
        "quantising it again loses some of what was trained",
        found.model.string(), stoa::name_of(type)));
  if (report.lost > 0.1)
    context.console.warn(
        fmt::format("the adapter changes the weights by little more than {} can tell: merge with --dtype "
                    "fp32, or use the "
                    "model with --adapter",
                    stoa::name_of(type)));
}

struct ExtractArguments {
  std::string model, base, output;
  std::int64_t rank = 16;
  bool json = false;
};

infer::ModelFiles whole_model(const std::string& path) {
  const ckpt::FoundCheckpoint found = ckpt::find_checkpoint(path, ckpt::Verify::kModel);
  require<ConfigError>(!found.adapter, "'{}' is an adapter: give two whole models", path);
  return infer::ModelFiles(found.model);
}

void extract(const ExtractArguments& arguments, Context& context) {
  const infer::ModelFiles tuned = whole_model(arguments.model), base = whole_model(arguments.base);
  WorkerPool pool(all_cores());
  const infer::ExtractReport report =
      infer::extract_adapter(tuned, base, arguments.rank, arguments.output, pool);
  if (arguments.json)
    print_json(nlohmann::ordered_json{{"path", arguments.output},
                                      {"rank", arguments.rank},
                                      {"modules", report.modules},
                                      {"kept", report.kept},
                                      {"worst_module", report.worst},
                                      {"worst_kept", report.worst_kept},
                                      {"other_differences", report.others}});
  else
    print(fmt::format("{}: rank {}, {} modules, {:.3g} of the difference (least of {}: {:.3g})\n",
                      arguments.output, arguments.rank, report.modules, report.kept, report.worst,
                      report.worst_kept));
  if (!report.others.empty())
    context.console.warn(
        fmt::format("{} tensors outside of linear layers differ, too, and are not in the adapter: "
                    "{}{}",
                    report.others.size(), report.others.front(), report.others.size() > 1 ? " …" : ""));
}

}  // namespace

void add_checkpoint_merge(CLI::App& checkpoint, Context& context) {
  const auto arguments = std::make_shared<MergeArguments>();
  auto* command = checkpoint.add_subcommand(
      "merge", "Write a model with an adapter's weights added to its own, computed in fp32 and rounded once");
  command->footer("Example: stoa checkpoint merge runs/mine --output mine-merged");
  command
      ->add_option("MODEL", arguments->model, "Adapter, checkpoint or run of one; or the model of --adapter")
      ->required();
  command->add_option("--adapter", arguments->adapter,
                      "Adapter of MODEL: a directory, a checkpoint, or a run");
  command->add_option("--dtype", arguments->dtype, "Type of the weights (default: that of the model)")
      ->check(CLI::IsMember({"bf16", "fp32", "fp16"}));
  command->add_option("--output", arguments->output, "Directory to write; new or empty")->required();
  command->add_option("--max-shard-gb", arguments->max_shard_gigabytes, "Largest file, in 10^9 bytes")
      ->capture_default_str()
      ->check(between(1e-9, 1e6));
  command->add_flag("--json", arguments->json, "Answer as JSON");
  command->callback([arguments, &context] { merge(*arguments, context); });

  const auto parts = std::make_shared<ExtractArguments>();
  auto* from = checkpoint.add_subcommand(
      "extract-lora", "Write the low-rank adapter that comes nearest to the difference of two models");
  from->footer("Example: stoa checkpoint extract-lora tuned --base model --rank 16 --output adapter");
  from->add_option("MODEL", parts->model, "The tuned model: Hugging Face directory, checkpoint, or run")
      ->required();
  from->add_option("--base", parts->base, "The model that it was tuned from")->required();
  from->add_option("--rank", parts->rank, "Rank of the adapter")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{65536}));
  from->add_option("--output", parts->output, "Directory to write; new or empty")->required();
  from->add_flag("--json", parts->json, "Answer as JSON");
  from->callback([parts, &context] { extract(*parts, context); });
}

}  // namespace stoa::cli
