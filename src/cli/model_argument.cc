#include "cli/model_argument.h"

#include "cli/number_checks.h"

namespace stoa::cli {

void ModelArguments::add_to(CLI::App& command) {
  command
      .add_option("MODEL", model,
                  "Hugging Face model directory, .gguf file, adapter, checkpoint, or run directory")
      ->required();
  command.add_option("--adapter", adapter, "Adapter of MODEL: a directory of PEFT, a checkpoint, or a run");
  ComputeArguments::add_to(command);
}

void WeightArguments::add_to(CLI::App& command) {
  form = infer::QuantisedWeights::kStored;
  const auto flag = [&](const char* name, infer::QuantisedWeights chosen, const char* help) {
    return command.add_flag_callback(
        name, [this, chosen, name] { form = chosen, given = name; }, help);
  };
  CLI::Option* const stored =
      flag("--stored-weights", infer::QuantisedWeights::kStored,
           "Multiply with the weights of a quantised GGUF file as the file holds them, by inputs rounded to "
           "12 bits (default)");
  flag(
      "--decoded-weights", infer::QuantisedWeights::kDecoded,
      "Decode the weights of a quantised GGUF file to --dtype when they are read: this takes more memory and "
      "more time for one text at a time, but less for many at once and for long prompts")
      ->excludes(stored);
}

void ComputeArguments::add_to(CLI::App& command) {
  command.add_option("--dtype", dtype, "fp32, bf16 or fp16 (default: as stored)");
  command.add_option(
      "--backend", machine.backend,
      "cpu, cuda, reference, check (cpu compared with reference) or check-cuda (cuda compared with cpu)");
  command.add_option("--cuda", machine.cuda, kCudaHelp);
  command.add_option("--threads", machine.threads, "Worker threads (default: one per core)")
      ->check(thread_count());
  command.add_option("--instruction-set", machine.instruction_set, "Force an instruction set");
}

std::optional<DType> ComputeArguments::type() const {
  if (dtype.empty()) return std::nullopt;
  const DType type = dtype_from_name(dtype);
  require<ConfigError>(is_float(type), "--dtype {}: expected fp32, bf16 or fp16", dtype);
  return type;
}

infer::OpenModel ModelArguments::open() const {
  return open([options = machine] { return make_machine(options); });
}

infer::OpenModel ModelArguments::open(infer::MakeMachine make) const {
  return {model, type(), std::move(make), adapter.empty() ? std::nullopt : std::optional<fs::path>(adapter),
          weights.form};
}

}  // namespace stoa::cli
