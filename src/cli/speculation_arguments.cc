#include "cli/speculation_arguments.h"

#include "infer/engine/draft_model.h"
#include "infer/engine/prompt_lookup.h"

namespace stoa::cli {

void SpeculationArguments::add_to(CLI::App& command) {
  CLI::Option* lookup = command.add_flag(
      "--prompt-lookup", prompt_lookup,
      "Guess the next tokens from what followed the same words before, and check several in a "
      "pass: answers that copy come faster, and are the same");
  command
      .add_option(
          "--draft", draft,
          "A smaller model of the same vocabulary that guesses the next tokens: the same answers, faster "
          "where it is right often enough")
      ->excludes(lookup);
}

std::unique_ptr<infer::Drafter> SpeculationArguments::open(const ComputeArguments& compute,
                                                           infer::OpenModel& model,
                                                           const infer::PassLimits& limits) const {
  if (!any()) return nullptr;
  if (prompt_lookup) return std::make_unique<infer::PromptLookup>();
  MachineOptions machine = compute.machine;
  machine.rows_apart = true;
  return infer::load_draft_model(
      draft, compute.type(), [machine] { return make_machine(machine); }, model.tokenizer(), limits,
      model.weights());
}

}  // namespace stoa::cli
