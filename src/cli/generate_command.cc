// `stoa generate MODEL --prompt TEXT`.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/answer_output.h"
#include "cli/answer_sources.h"
#include "cli/command.h"
#include "cli/constraint_arguments.h"
#include "cli/input_lines.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/sampling_arguments.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/write_text.h"
#include "infer/fill_masks.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct GenerateArguments {
  ModelArguments model;
  SamplingArguments sampling;
  ConstraintArguments constraint;
  std::string prompt, prompts;  // a text; a file of texts, a line each
  bool echo = false, json = false;
  std::int64_t best = 5, beams = 1;
  double length_penalty = 1;
};

std::vector<std::string> prompts_of(const GenerateArguments& arguments) {
  if (arguments.prompts.empty()) return {arguments.prompt};
  InputLines in(arguments.prompts);
  std::vector<std::string> out;
  for (std::string line; in.next(line);) out.push_back(line);
  require<DataError>(!out.empty(), "{} has no lines", arguments.prompts);
  return out;
}

// The prompt with its masks filled, or as JSON the most likely tokens of every mask with their probabilities.
void fill_masks(infer::OpenModel& model, const GenerateArguments& arguments) {
  const infer::FilledText filled = infer::fill_masks(model, arguments.prompt, arguments.best);
  if (!arguments.json) return print(filled.text + "\n");
  Json masks = Json::array();
  for (const auto& mask : filled.masks) {
    Json tokens = Json::array();
    for (const auto& [id, probability] : mask.tokens)
      tokens.push_back(
          {{"id", id}, {"token", model.tokenizer().id_to_token(id)}, {"probability", probability}});
    masks.push_back({{"position", mask.position}, {"tokens", tokens}});
  }
  print_json_line(Json{{"prompt", arguments.prompt}, {"text", filled.text}, {"masks", masks}});
}

void generate(const GenerateArguments& arguments, Context& context) {
  infer::validate(arguments.sampling.options.sampling);
  require<ConfigError>(arguments.sampling.options.max_tokens >= 1, "--max-tokens must be at least 1, got {}",
                       arguments.sampling.options.max_tokens);
  infer::OpenModel model = arguments.model.open();
  const model::ModelKind kind = model.kind();
  require<ConfigError>(kind != model::ModelKind::kT5 || !arguments.echo,
                       "--echo is for models that continue a text");
  require<ConfigError>(kind == model::ModelKind::kGpt || arguments.constraint.given().empty(),
                       "{} is for models that continue a text", arguments.constraint.given());
  if (kind == model::ModelKind::kT5)
    return answer_sources(model, prompts_of(arguments),
                          {arguments.sampling, arguments.beams, arguments.length_penalty, arguments.json},
                          context);
  require<ConfigError>(arguments.prompts.empty() && arguments.beams == 1,
                       "--prompts and --beams are for encoder-decoders (t5, mt5)");
  if (kind == model::ModelKind::kBert) return fill_masks(model, arguments);
  const auto decoder = infer::load_paged_decoder(model, {.sequences = 1, .scored = 1});
  auto merged = arguments.sampling.merged(model.generation_directory(), model.special());
  merged.options.constraint = arguments.constraint.compile(model);
  AnswerOutput output(arguments.json);
  if (!arguments.json) merged.say(context.console);
  if (arguments.echo && !arguments.json) print(arguments.prompt);
  infer::Engine engine(*decoder);
  const auto result = infer::write_text(engine, model.tokenizer(), arguments.prompt, merged.options,
                                        [&](std::string_view piece) { return output.write(piece), true; });
  output.finish(arguments.prompt, result.prompt, result, merged, context.console);
}

}  // namespace

void add_generate_command(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate",
                                         "Continue a text; with an encoder, fill in its masks; with an "
                                         "encoder-decoder, generate the target. Example: stoa "
                                         "generate runs/shakespeare --prompt 'To be, "
                                         "or' --max-tokens 100");
  arguments->model.add_to(*command);
  const CLI::Option* prompt = command->add_option("--prompt", arguments->prompt, "The text to continue");
  const CLI::Option* prompts =
      command
          ->add_option("--prompts", arguments->prompts,
                       "Instead, with encoder-decoders: a file with a text per line, processed as a batch")
          ->excludes("--prompt");
  command->add_option("--beams", arguments->beams, "Encoder-decoders: beam search with this many beams")
      ->capture_default_str()
      ->check(between(1, 1024));
  command
      ->add_option("--length-penalty", arguments->length_penalty,
                   "With --beams: log-probabilities are divided by length^this")
      ->capture_default_str()
      ->check(between(-100, 100));
  arguments->sampling.add_to(*command, SamplingArguments::Use::kText);
  arguments->constraint.add_to(*command);
  command->add_option("--best", arguments->best, "Encoders with --json: number of tokens per mask")
      ->capture_default_str()
      ->check(between(1, 1e6));
  command->add_flag("--echo", arguments->echo, "Print the prompt before the answer");
  command->add_flag("--json", arguments->json, "One JSON object with text, ids and speed");
  counts_only_with(*command, {"--length-penalty"}, "--beams");
  counts_only_with(*command, {"--best"}, "--json");
  command->callback([arguments, prompt, prompts, &context] {
    if (prompt->empty() && prompts->empty()) throw CLI::RequiredError("--prompt");
    generate(*arguments, context);
  });
}

}  // namespace stoa::cli
