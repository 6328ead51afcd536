#include "cli/model_argument.h"

#include <algorithm>

#include "ckpt/find_checkpoint.h"
#include "cli/load_rank.h"
#include "cli/number_checks.h"

namespace stoa::cli {

void ModelArguments::add_to(CLI::App& command) {
  command.add_option("MODEL", model, "Hugging Face model directory, checkpoint, or run directory")
      ->required();
  command.add_option("--dtype", dtype, "fp32, bf16 or fp16 (default: as stored)");
  command.add_option("--backend", machine.backend,
                     "cpu, cuda, reference, check (cpu beside reference) or check-cuda (cuda beside cpu)");
  command.add_option("--cuda", machine.cuda, kCudaHelp);
  command.add_option("--threads", machine.threads, "Worker threads (default: one per core)")
      ->check(thread_count());
  command.add_option("--instruction-set", machine.instruction_set, "Force an instruction set");
}

model::ModelKind kind_of(const ModelArguments& arguments) {
  const auto found = ckpt::find_checkpoint(arguments.model, ckpt::Verify::kModel);
  return infer::ModelFiles(found.model).model().config.kind;
}

LoadedModel load_model(const ModelArguments& arguments, const LoadOptions& options) {
  const auto found = ckpt::find_checkpoint(arguments.model, ckpt::Verify::kModel);
  const infer::ModelFiles files(found.model);
  LoadedModel loaded;
  loaded.directory = found.model;
  loaded.model = files.model();
  require<ConfigError>(
      loaded.model.config.kind != model::ModelKind::kT5,
      "{}: an encoder-decoder does not go on from a text: 'stoa generate' answers a prompt with it, "
      "'stoa score' rates pairs",
      found.model.string());
  require<ConfigError>(
      loaded.model.config.kind == model::ModelKind::kGpt,
      "{}: an encoder does not continue text; use 'stoa embed', 'stoa score', or 'stoa generate' with masks "
      "in the prompt",
      found.model.string());
  loaded.special = files.description().special;
  if (options.tokenizer) loaded.tokenizer = load_tokenizer(found.model, loaded.model);
  loaded.machine = std::make_unique<infer::Machine>(make_machine(arguments.machine));
  infer::InferenceOptions inference;
  inference.model = loaded.model;
  inference.precision = precision_of(arguments, files);
  const std::int64_t positions = infer::usable_positions(loaded.model.config);
  inference.decoder.context = options.cache ? std::min(positions, options.context.value_or(positions)) : 0;
  inference.decoder.text_tokens = std::min(positions, options.text_tokens.value_or(positions));
  inference.decoder.pass_tokens = options.text_tokens
                                      ? std::max(options.pass_tokens, inference.decoder.text_tokens)
                                      : std::min(positions, options.pass_tokens);
  loaded.rank = load_rank<infer::InferenceRank>(*loaded.machine, inference, files);
  return loaded;
}

}  // namespace stoa::cli
