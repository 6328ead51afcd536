// `stoa checkpoint inspect | verify | export | import`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/checksum.h"
#include "base/console.h"
#include "base/error.h"
#include "ckpt/export_model.h"
#include "ckpt/find_checkpoint.h"
#include "ckpt/model_checksums.h"
#include "ckpt/state_reader.h"
#include "ckpt/tensor_directory.h"
#include "ckpt/tensor_source.h"
#include "cli/checkpoint_quantize.h"
#include "cli/command.h"
#include "cli/inspect_gguf.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/writing_progress.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "formats/gguf/gguf_file.h"
#include "model/gguf/mixtures.h"
#include "run/export_as_family.h"
#include "run/export_gguf.h"
#include "run/export_megatron.h"
#include "run/import_checkpoint.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
using ckpt::FoundCheckpoint;

struct Arguments {
  std::string model;
  std::string dtype;
  std::string output;
  std::string family;  // empty: as it is
  std::string to = "huggingface";
  std::string format;             // of a GGUF file; empty: as stored
  std::string config, tokenizer;  // of an import
  std::int64_t vocabulary = 0;    // 0: what the checkpoint says
  std::int64_t expert_ranks = 1;  // of Megatron
  double max_shard_gigabytes = static_cast<double>(ckpt::kDefaultShardBytes) / 1e9;
  bool with_optimizer = false;  // of an import
  bool json = false;
};

FoundCheckpoint find(const std::string& model, ckpt::Verify verify, Context& context) {
  FoundCheckpoint found = ckpt::find_checkpoint(model, verify);
  for (const auto& line : found.skipped) context.console.warn("skipped " + line);
  return found;
}

std::string_view kind_name(FoundCheckpoint::Kind kind) {
  switch (kind) {
    case FoundCheckpoint::Kind::kHuggingFace:
      return "Hugging Face model";
    case FoundCheckpoint::Kind::kAdapter:
      return "adapter";
    case FoundCheckpoint::Kind::kCheckpoint:
      return "checkpoint";
    case FoundCheckpoint::Kind::kRun:
      return "newest checkpoint of a run";
    case FoundCheckpoint::Kind::kForeign:
      return "training checkpoint of another program";
  }
  return "?";
}

Json tensors_json(const ckpt::TensorSource& files) {
  Json list = Json::array();
  for (const auto* tensor : files.entries())
    list.push_back({{"name", tensor->name},
                    {"dtype", ckpt::name_of(tensor->type)},
                    {"shape", tensor->shape},
                    {"bytes", tensor->bytes()}});
  return list;
}

Json training_json(const ckpt::TrainingState& t) {
  return {{"step", t.step},
          {"samples", t.samples},
          {"tokens", t.tokens},
          {"data_cursor", t.data_cursor},
          {"seed", t.seed},
          {"layout", t.layout},
          {"config_hash", t.config_hash},
          {"tokenizer_fingerprint", t.tokenizer_fingerprint},
          {"metrics", t.metrics},
          {"counters", t.counters}};
}

std::string tensors_text(const std::string& title, const ckpt::TensorSource& files) {
  std::int64_t elements = 0;
  std::size_t width = 4;
  for (const auto* tensor : files.entries()) {
    elements += tensor->elements();
    width = std::max(width, tensor->name.size());
  }
  std::string out = fmt::format("\n{}: {} tensors, {} elements, {} in {} files\n", title,
                                files.entries().size(), format_count(static_cast<double>(elements)),
                                format_bytes(static_cast<double>(files.bytes())), files.file_count());
  for (const auto* tensor : files.entries())
    out += fmt::format("  {:<{}}  {:<7}  {:>18}  {:>10}\n", tensor->name, width, ckpt::name_of(tensor->type),
                       tensor->shape_text(), format_bytes(static_cast<double>(tensor->bytes())));
  return out;
}

std::string training_text(const ckpt::TrainingState& t) {
  std::string out = fmt::format("step {}, {} samples, {} tokens, data cursor {}, seed {}\n", t.step,
                                t.samples, t.tokens, t.data_cursor, t.seed);
  const auto line = [&](std::string_view label, const std::string& value) {
    if (!value.empty()) out += fmt::format("{}: {}\n", label, value);
  };
  line("layout", t.layout);
  line("configuration", t.config_hash);
  line("tokenizer", t.tokenizer_fingerprint);
  for (const auto& [name, value] : t.metrics) out += fmt::format("{}: {}\n", name, value);
  for (const auto& [name, value] : t.counters) out += fmt::format("{}: {}\n", name, value);
  return out;
}

FoundCheckpoint find_whole(const std::string& model, ckpt::Verify verify, Context& context) {
  FoundCheckpoint found = find(model, verify, context);
  require<ConfigError>(!found.adapter, "'{}' is an adapter, not a model: merge it (stoa checkpoint merge)",
                       found.root.string());
  return found;
}

// The tensors of an adapter, of a model, or the weights of another program's checkpoint.
std::unique_ptr<const ckpt::TensorSource> tensors_of(const FoundCheckpoint& found) {
  if (found.adapter) return ckpt::open_found(found);
  return foreign::open_tensors(found.model);
}

// Sizes are checked; checksums are shown as stored: `verify` recomputes them.
void inspect(const Arguments& arguments, Context& context) {
  const FoundCheckpoint found = find(arguments.model, ckpt::Verify::kSizes, context);
  if (gguf::is_gguf(found.model) && !found.adapter) return inspect_gguf(found.model, arguments.json);
  const auto model = tensors_of(found);
  std::unique_ptr<ckpt::StateReader> state;
  if (found.state) state = std::make_unique<ckpt::StateReader>(found);
  if (arguments.json) {
    Json answer{{"path", found.root.string()},
                {"kind", kind_name(found.kind)},
                {found.adapter ? "adapter" : "model", tensors_json(*model)}};
    if (found.adapter) answer["base"] = found.model.string();
    if (state) {
      answer["training"] = training_json(state->training());
      answer["state"] = tensors_json(state->tensors());
      Json files = Json::array();
      for (const auto& file : found.manifest->files)
        files.push_back({{"path", file.path},
                         {"bytes", file.bytes},
                         {file.crc ? "crc32" : "xxh3", file.checksum_text()}});
      answer["files"] = std::move(files);
    }
    return print_json(answer);
  }
  std::string out = fmt::format("{} ({})\n", found.root.string(), kind_name(found.kind));
  if (state) out += training_text(state->training());
  if (found.adapter) out += fmt::format("adapter of {}\n", found.model.string());
  out += tensors_text(found.adapter ? "adapter" : "model", *model);
  if (state) {
    out += tensors_text("training state", state->tensors());
    out += "\nfiles and checksums (16 digits: XXH3, 8: CRC-32), as written:\n";
    for (const auto& file : found.manifest->files)
      out += fmt::format("  {:<16}  {:>10}  {}\n", file.checksum_text(),
                         format_bytes(static_cast<double>(file.bytes)), file.path);
  }
  print(out);
}

// In a run, the checkpoint that `latest` names, else the newest one; never an older one instead of it,
// because damage must be reported.
fs::path checkpoint_to_verify(const fs::path& path) {
  const fs::path folder = fs::is_directory(path / "checkpoints") ? path / "checkpoints" : path;
  if (fs::is_directory(folder / "latest")) return folder / fs::read_symlink(folder / "latest");
  const auto listed = ckpt::list_checkpoints(folder);
  return listed.empty() ? path : listed.front().path;
}

void verify(const Arguments& arguments, Context&) {
  const fs::path path = checkpoint_to_verify(arguments.model);
  std::error_code ignored;
  if (!fs::exists(ckpt::manifest_path(path), ignored)) {
    // A bare model has checksums where this program exported it, and PyTorch's files hold some of their own;
    // all are compared with their own headers.
    const FoundCheckpoint found = ckpt::find_checkpoint(path, ckpt::Verify::kAll);
    const auto model = tensors_of(found);
    const bool own = model->check_sums(),
               checksums = own || fs::exists(model->directory() / ckpt::kModelChecksums, ignored);
    if (arguments.json)
      return print_json(Json{{"path", found.root.string()},
                             {"ok", true},
                             {"checksums", checksums},
                             {"files", model->file_count()}});
    return print(
        fmt::format("{}: {} tensors in {} files are well formed; {}\n", found.root.string(),
                    model->entries().size(), model->file_count(),
                    checksums ? "the weights match their checksums" : "a bare directory has no checksums"));
  }
  const auto report = ckpt::verify_checkpoint(path, ckpt::Verify::kAll);
  if (arguments.json) {
    Json problems = Json::array();
    for (const auto& p : report.problems) problems.push_back({{"path", p.path}, {"problem", p.problem}});
    print_json(Json{{"path", path.string()},
                    {"ok", report.ok()},
                    {"checksums", true},
                    {"files", report.files},
                    {"bytes", report.bytes},
                    {"problems", std::move(problems)},
                    {"unlisted", report.unlisted}});
  }
  require<DataError>(report.ok(), "checkpoint '{}' is damaged:\n{}", path.string(), report.text());
  if (arguments.json) return;
  std::string out = fmt::format("{}: {} files, {}: all match their checksums\n", path.string(), report.files,
                                format_bytes(static_cast<double>(report.bytes)));
  for (const auto& name : report.unlisted) out += fmt::format("  not part of the checkpoint: {}\n", name);
  print(out);
}

std::uint64_t shard_bytes(const Arguments& arguments) {
  return static_cast<std::uint64_t>(arguments.max_shard_gigabytes * 1e9);
}

void tell(const Arguments& arguments, const ckpt::ExportResult& result, DType dtype,
          const std::string& family) {
  if (arguments.json) {
    Json out{{"path", arguments.output},
             {"tensors", result.tensors},
             {"bytes", result.bytes},
             {"files", result.shards}};
    if (!family.empty()) out["family"] = family;
    return print_json(out);
  }
  print(fmt::format("{}: {}{} tensors as {}, {} in {} files\n", arguments.output,
                    family.empty() ? "" : family + ", ", result.tensors, stoa::name_of(dtype),
                    format_bytes(static_cast<double>(result.bytes)), result.shards));
}

void export_as_gguf(const Arguments& arguments, Context& context) {
  require<UsageError>(arguments.family.empty() && arguments.dtype.empty(),
                      "--to gguf takes --format, not --dtype or --family");
  const FoundCheckpoint found = find_whole(arguments.model, ckpt::Verify::kModel, context);
  require<UsageError>(!arguments.format.empty() || gguf::is_gguf(found.model),
                      "--to gguf needs --format, one of {}", fmt::join(model::gguf::mixture_names(), ", "));
  WritingProgress progress(context, "export", "nothing is exported");
  const run::GgufExport out =
      run::export_gguf(found, arguments.format, arguments.output, nullptr, progress.reporter());
  progress.finish();
  for (const auto& note : out.notes) context.console.warn(note);
  if (arguments.json)
    return print_json(Json{{"path", arguments.output},
                           {"architecture", out.architecture},
                           {"tensors", out.tensors},
                           {"bytes", out.bytes}});
  print(fmt::format("{}: {}, {} tensors, {}\n", arguments.output, out.architecture, out.tensors,
                    format_bytes(static_cast<double>(out.bytes))));
}

// `whose`: "Megatron-Core, torch_dist".
void tell_megatron(const Arguments& arguments, const foreign::MegatronExport& out, std::string_view whose,
                   bool optimizer) {
  if (arguments.json)
    return print_json(Json{{"path", arguments.output},
                           {"tensors", out.tensors},
                           {"bytes", out.bytes},
                           {"optimizer", optimizer}});
  print(fmt::format("{}: {}, {} tensors, {}{}\n", arguments.output, whose, out.tensors,
                    format_bytes(static_cast<double>(out.bytes)),
                    optimizer ? ", with the optimizer's state" : ""));
}

// For Megatron-Core, or for NeMo: 2 in a directory, 1 in an archive.
void export_as_megatron(const Arguments& arguments, Context& context) {
  require<UsageError>(arguments.family.empty(), "--to {} takes no --family", arguments.to);
  const FoundCheckpoint found = find(arguments.model, ckpt::Verify::kAll, context);
  const bool archive = arguments.to == "nemo" && fs::path(arguments.output).extension() == ".nemo",
             optimizer = found.state && !archive;
  require<UsageError>(
      optimizer || arguments.expert_ranks == 1,
      "--expert-model-parallel-size is for the optimizer's state, and '{}' holds weights alone",
      archive ? arguments.output : arguments.model);
  WritingProgress progress(context, "export", "nothing is exported");
  const ckpt::ExportProgress advance = progress.reporter();
  const foreign::MegatronForm form{.type = dtype_from_name(arguments.dtype),
                                   .max_file_bytes = shard_bytes(arguments),
                                   .expert_ranks = arguments.expert_ranks};
  if (archive) {
    const foreign::NemoArchive out = run::export_nemo1(found, form, arguments.output, advance);
    progress.finish();
    if (out.tokenizer_left)
      context.console.warn(
          "the archive has no tokenizer: NeMo 1 takes SentencePiece's tokenizer.model, or vocab.json and "
          "merges.txt, from it; name the tokenizer of '" +
          arguments.model + "' in NeMo's command");
    return tell_megatron(arguments, out.written, "NeMo 1, an archive", false);
  }
  const foreign::MegatronExport out = arguments.to == "nemo"
                                          ? run::export_nemo2(found, form, arguments.output, advance)
                                          : run::export_megatron(found, form, arguments.output, advance);
  progress.finish();
  tell_megatron(arguments, out, arguments.to == "nemo" ? "NeMo 2, torch_dist" : "Megatron-Core, torch_dist",
                optimizer);
}

void export_to(const Arguments& arguments, Context& context) {
  const bool sharded = arguments.to == "megatron" || arguments.to == "nemo";
  require<UsageError>(arguments.expert_ranks == 1 || sharded,
                      "--expert-model-parallel-size is for --to megatron or nemo");
  if (arguments.to == "gguf") return export_as_gguf(arguments, context);
  require<UsageError>(arguments.format.empty(),
                      "--format {} is for --to gguf; --to {} takes --dtype bf16, fp32 or fp16",
                      arguments.format, arguments.to);
  require<UsageError>(!arguments.dtype.empty(),
                      "--to {} needs --dtype: bf16, fp32 or fp16, in which the weights are written",
                      arguments.to);
  if (sharded) return export_as_megatron(arguments, context);
  const DType dtype = dtype_from_name(arguments.dtype);
  const FoundCheckpoint found = find_whole(arguments.model, ckpt::Verify::kModel, context);
  WritingProgress progress(context, "export", "nothing is exported");
  const ckpt::ExportProgress advance = progress.reporter();
  run::FamilyExport out;
  // The names of a GGUF file, or of another program's checkpoint, are those of no Hugging Face model.
  if (arguments.family.empty() && !gguf::is_gguf(found.model) &&
      found.kind != FoundCheckpoint::Kind::kForeign)
    out.result = ckpt::export_model(found, dtype, arguments.output, shard_bytes(arguments), advance);
  else
    out = run::export_as_family(found, arguments.family.empty() ? "auto" : arguments.family, dtype,
                                arguments.output, shard_bytes(arguments), advance);
  progress.finish();
  if (!out.why_not.empty()) context.console.warn("no family of transformers fits this model: " + out.why_not);
  tell(arguments, out.result, dtype, out.family);
}

void import_from(const Arguments& arguments, Context& context) {
  foreign::ForeignOptions options;
  if (!arguments.config.empty()) options.config = arguments.config;
  if (arguments.vocabulary > 0) options.vocabulary = arguments.vocabulary;
  const foreign::ForeignCheckpoint from = foreign::open_foreign(arguments.model, options);
  for (const auto& note : from.notes) context.console.warn(note);
  WritingProgress progress(context, "import", "nothing is imported");
  fs::path small_files = arguments.tokenizer;
  if (small_files.empty() && from.small_files) small_files = *from.small_files;
  const ckpt::ExportProgress advance = progress.reporter();
  if (arguments.with_optimizer) {
    const fs::path written =
        run::import_training(from, small_files, arguments.output, shard_bytes(arguments), advance);
    progress.finish();
    const ckpt::TrainingState state = ckpt::read_manifest(written).training;
    if (arguments.json)
      return print_json(Json{
          {"path", written.string()}, {"from", from.kind}, {"step", state.step}, {"samples", state.samples}});
    return print(fmt::format("{}: from {}, with the optimizer's state after {} steps and {} samples\n",
                             written.string(), from.kind, state.step, state.samples));
  }
  const auto result = run::import_model(from, small_files, arguments.output, shard_bytes(arguments), advance);
  progress.finish();
  if (arguments.json)
    return print_json(Json{{"path", arguments.output},
                           {"from", from.kind},
                           {"tensors", result.tensors},
                           {"bytes", result.bytes},
                           {"files", result.shards}});
  print(fmt::format("{}: from {}, {} tensors, {} in {} files\n", arguments.output, from.kind, result.tensors,
                    format_bytes(static_cast<double>(result.bytes)), result.shards));
}

void add_output(CLI::App* command, Arguments& arguments) {
  command
      ->add_option("--output", arguments.output,
                   "What to write: a new or empty directory, or a new .gguf or .nemo file")
      ->required();
  command->add_option("--max-shard-gb", arguments.max_shard_gigabytes, "Largest file, in 10^9 bytes")
      ->capture_default_str()
      ->check(between(1e-9, 1e6));
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("checkpoint", "Inspect, verify, export, quantize or import a model or checkpoint");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, const char* example,
                       void (*body)(const Arguments&, Context&)) {
    auto arguments = std::make_shared<Arguments>();
    auto* sub = command->add_subcommand(name, help);
    sub->footer(example);
    sub->add_option("MODEL", arguments->model,
                    "Hugging Face directory, .gguf file, checkpoint, or run (its newest complete checkpoint)")
        ->required();
    sub->add_flag("--json", arguments->json, "Answer as JSON");
    sub->callback([arguments, body, &context] { body(*arguments, context); });
    return std::pair(sub, arguments);
  };
  add("inspect", "Tensors, types, sizes, step, layout and checksums",
      "Example: stoa checkpoint inspect runs/shakespeare --json", inspect);
  add("verify", "Recompute all checksums; exit 1 and the names of the files when one differs",
      "Example: stoa checkpoint verify runs/shakespeare/checkpoints/step-0000100", verify);
  const auto [sub, arguments] = add(
      "export",
      "Write a bare Hugging Face directory, a GGUF file, or a checkpoint that Megatron-Core or NeMo loads",
      "Example: stoa checkpoint export runs/shakespeare --dtype bf16 --output shakespeare-bf16", export_to);
  sub->add_option("--to", arguments->to,
                  "Whose form; hf means huggingface; megatron: torch_dist, with the optimizer's state of a "
                  "checkpoint; nemo: the same in a directory of NeMo 2, or with --output NAME.nemo an "
                  "archive of NeMo 1")
      ->capture_default_str()
      ->check(CLI::IsMember({"huggingface", "hf", "gguf", "megatron", "nemo"}))
      ->transform(
          CLI::Transformer(std::map<std::string, std::string>{{"hf", "huggingface"}}).description(""));
  sub->add_option("--dtype", arguments->dtype, "Type of the weights, but of a GGUF file")
      ->check(CLI::IsMember({"bf16", "fp32", "fp16"}));
  sub->add_option(
         "--format", arguments->format,
         "Numbers of a GGUF file: f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m, q4_0 and others (default: as a "
         ".gguf MODEL has them)")
      ->check(CLI::IsMember(model::gguf::mixture_names()));
  sub->add_option(
         "--expert-model-parallel-size", arguments->expert_ranks,
         "That of the Megatron command that loads the optimizer's state of experts, which has one form "
         "for 1 and another for more")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  sub->add_option("--family", arguments->family,
                  "Write it as a model of this model_type, if it fits; auto: the family that Stoa writes "
                  "(default: names and keys unchanged)");
  add_output(sub, *arguments);

  add_checkpoint_quantize(*command, context);
  const auto imported = std::make_shared<Arguments>();
  auto* from = command->add_subcommand("import",
                                       "Write a Hugging Face directory, or a checkpoint to resume, of "
                                       "another program's checkpoint: Megatron, NeMo, "
                                       "torchtitan, PyTorch's .bin files");
  from->footer("Example: stoa checkpoint import checkpoints/llama --output llama-hf --tokenizer tok");
  from->add_option("CKPT", imported->model,
                   "Megatron's folder of checkpoints (its newest) or one of them, a .nemo archive or NeMo 2 "
                   "directory, a torchtitan checkpoint, or a Hugging Face directory")
      ->required();
  from->add_option("--config", imported->config,
                   "params.json or config.json of the model, where the checkpoint does not hold its shape "
                   "(torchtitan)")
      ->check(CLI::ExistingFile);
  from->add_option("--tokenizer", imported->tokenizer, "Directory whose tokenizer files are copied")
      ->check(CLI::ExistingDirectory);
  from->add_option("--vocab-size", imported->vocabulary,
                   "Entries of the vocabulary that are not padding (default: what the checkpoint says)")
      ->check(CLI::PositiveNumber);
  from->add_flag("--with-optimizer", imported->with_optimizer,
                 "Keep the optimizer's state, step and samples: DIR gets a checkpoint that 'stoa train "
                 "--restore DIR' resumes");
  from->add_flag("--json", imported->json, "Answer as JSON");
  add_output(from, *imported);
  from->callback([imported, &context] { import_from(*imported, context); });
  add_checkpoint_merge(*command, context);
  add_checkpoint_prune(*command, context);
}

}  // namespace stoa::cli
