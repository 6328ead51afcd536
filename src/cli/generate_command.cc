// `stoa generate MODEL --prompt TEXT`, `--prompts FILE`.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "cli/answer_list.h"
#include "cli/answer_output.h"
#include "cli/answer_prompts.h"
#include "cli/answer_sources.h"
#include "cli/cache_arguments.h"
#include "cli/command.h"
#include "cli/constraint_arguments.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/sampling_arguments.h"
#include "cli/speculation_arguments.h"
#include "cli/team_arguments.h"
#include "infer/cache_type.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/write_text.h"
#include "infer/fill_masks.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct GenerateArguments {
  ModelArguments model;
  CacheArguments cache;
  SamplingArguments sampling;
  ConstraintArguments constraint;
  SpeculationArguments speculation;
  TeamArguments team;
  std::string prompt, prompts, output;  // a text; files of prompts and answers, a line each
  Json given = Json::object();          // options of the command line
  bool echo = false, json = false;
  std::int64_t best = 5, beams = 1;
  double length_penalty = 1;
  std::optional<double> cache_gigabytes;
};

// What answers depend on: options that do not change them are not among it, nor are those of which
// origin_of() says what they come to.
Json given_options(const CLI::App& command) {
  static const std::set<std::string> kLeftOut{
      "MODEL",          "--adapter",        "--prompts",         "--output", "--threads",
      "--kv-memory-gb", "--json",           "--prompt-lookup",   "--draft",  "--dtype",
      "--kv-dtype",     "--stored-weights", "--decoded-weights", "--tp",     "--ep",
      "--pp",           "--exact-sum"};
  Json out = Json::object();
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_single_name().starts_with("-") || option->get_positional()
                                 ? option->get_single_name()
                                 : "--" + option->get_single_name();
    if (option->count() == 0 || kLeftOut.contains(name)) continue;
    out[name] = option->results();
    for (const std::string& file : option->results())  // of a schema, a grammar
      if (fs::is_regular_file(file)) out["checksum of " + file] = checksum_text(checksum_file(file));
  }
  return out;
}

Json origin_of(const GenerateArguments& arguments, infer::OpenModel& model,
               const SamplingArguments::Merged& merged) {
  Json origin{{"model", fs::absolute(model.directory()).lexically_normal().string()},
              {"checksum of the model's files", checksum_text(checksum_of_states(model.directory()))}};
  if (const auto& adapter = model.adapter_directory()) {
    origin["adapter"] = fs::absolute(*adapter).lexically_normal().string();
    origin["checksum of the adapter's files"] = checksum_text(checksum_of_states(*adapter));
  }
  origin["checksum of the prompts"] = checksum_text(checksum_file(arguments.prompts));
  origin.update(arguments.given);
  // Stages change no bit, nor do other ranks whose sums are in the order of one.
  const infer::TeamShape& ranks = arguments.team.shape;
  if (!ranks.exact_sum && ranks.tensor > 1) origin["--tp"] = ranks.tensor;
  if (!ranks.exact_sum && ranks.expert > 1) origin["--ep"] = ranks.expert;
  origin["--dtype"] = name_of(model.precision().compute);
  if (model.kind() != model::ModelKind::kBert) {
    origin["--kv-dtype"] = infer::cache_type_name(infer::cache_type(model, arguments.cache.type()));
    if (model.stored_types() != nullptr) origin["weights"] = "as stored";
  }
  origin["generation_config.json"] = merged.taken;
  return origin;
}

AnswerList list_of(const GenerateArguments& arguments, infer::OpenModel& model,
                   const SamplingArguments::Merged& merged, Context& context) {
  return {{arguments.output, arguments.json},
          arguments.output.empty() ? Json() : origin_of(arguments, model, merged),
          context};
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

void generate(const GenerateArguments& arguments, Context& context, infer::RankTeam* team) {
  infer::validate(arguments.sampling.options.sampling);
  require<ConfigError>(arguments.sampling.options.max_tokens >= 1, "--max-tokens must be at least 1, got {}",
                       arguments.sampling.options.max_tokens);
  require<ConfigError>(
      arguments.prompts.empty() || arguments.output.empty() || !is_read_once(arguments.prompts),
      "--prompts {0}: an interrupted command cannot read {1} again; --output needs a file of prompts",
      arguments.prompts, arguments.prompts == "-" ? "standard input" : "'" + arguments.prompts + "'");
  infer::OpenModel model = arguments.model.open();
  const model::ModelKind kind = model.kind();
  require<ConfigError>(kind != model::ModelKind::kBert || team == nullptr,
                       "--tp, --ep and --pp are for models that write texts");
  require<ConfigError>(kind != model::ModelKind::kBert || arguments.constraint.given().empty(),
                       "{} is for models that write texts", arguments.constraint.given());
  arguments.cache.require_use(model);
  const bool many = !arguments.prompts.empty();
  if (kind == model::ModelKind::kT5) {
    require<ConfigError>(!arguments.echo, "--echo is for models that continue a text");
    require<ConfigError>(!arguments.speculation.any(),
                         "--prompt-lookup and --draft are for models that continue a text");
    require<ConfigError>(arguments.beams == 1 || arguments.constraint.given().empty(),
                         "{} is for answers without --beams", arguments.constraint.given());
    AnswerOptions options{{}, arguments.beams, arguments.length_penalty, arguments.json};
    options.sampling = merged_for_sources(model, arguments.sampling, options);
    options.sampling.options.constraint = arguments.constraint.compile(model);
    options.use.cache = arguments.cache.type();
    if (arguments.cache_gigabytes) options.use.cache_bytes = *arguments.cache_gigabytes * 1e9;
    if (!many) options.use.sequences = options.use.scored = 1;
    if (!arguments.json) options.sampling.say(context.console);
    if (!many) return answer_source(model, arguments.prompt, options, context, team);
    AnswerList answers = list_of(arguments, model, options.sampling, context);
    return answer_source_file(model, arguments.prompts, options, answers, team);
  }
  require<ConfigError>(kind == model::ModelKind::kGpt || !arguments.speculation.any(),
                       "--prompt-lookup and --draft are for models that continue a text");
  require<ConfigError>(arguments.beams == 1, "--beams is for encoder-decoders (t5, mt5)");
  if (kind == model::ModelKind::kBert) {
    require<ConfigError>(
        !many, "--prompts is for models that write texts: an encoder fills in the masks of a --prompt");
    return fill_masks(model, arguments);
  }
  if (many) {
    auto merged = arguments.sampling.merged(model.generation_directory(), model.special());
    merged.options.constraint = arguments.constraint.compile(model);
    if (!arguments.json) merged.say(context.console);
    AnswerList answers = list_of(arguments, model, merged, context);
    infer::EngineUse use;
    use.cache = arguments.cache.type();
    if (arguments.cache_gigabytes) use.cache_bytes = *arguments.cache_gigabytes * 1e9;
    const auto decoder = infer::load_passes(model, use, {}, team);
    // Else answers would end where the memory does, and depend on it.
    require<ConfigError>(
        decoder->limits().longest() == decoder->limits().context,
        "--kv-memory-gb {:g} holds {} tokens of keys and values, less than one context of {}",
        arguments.cache_gigabytes.value_or(0), decoder->limits().longest(), decoder->limits().context);
    infer::Engine engine(*decoder, arguments.speculation.open(arguments.model, model, decoder->limits()));
    return answer_prompts(engine, model.tokenizer(), arguments.prompts, merged.options, answers);
  }
  const auto decoder = infer::load_passes(
      model, {.sequences = 1, .scored = arguments.speculation.scored(1), .cache = arguments.cache.type()}, {},
      team);
  auto merged = arguments.sampling.merged(model.generation_directory(), model.special());
  merged.options.constraint = arguments.constraint.compile(model);
  AnswerOutput output(arguments.json);
  if (!arguments.json) merged.say(context.console);
  if (arguments.echo && !arguments.json) print(arguments.prompt);
  infer::Engine engine(*decoder, arguments.speculation.open(arguments.model, model, decoder->limits()));
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
  arguments->model.weights.add_to(*command);
  arguments->cache.add_to(*command);
  const CLI::Option* prompt = command->add_option("--prompt", arguments->prompt, "The text to continue");
  const CLI::Option* prompts =
      command
          ->add_option(
              "--prompts", arguments->prompts,
              "Instead: a file with a prompt per line, answered together; texts, or in a .jsonl, .json or "
              ".parquet file objects with prompt or messages and options of their own; -: texts of standard "
              "input")
          ->excludes("--prompt");
  command->add_option("--output", arguments->output,
                      "With --prompts: a file for the answers, JSON lines in the order of the prompts; an "
                      "interrupted command, given again, continues");
  command
      ->add_option(
          "--kv-memory-gb", arguments->cache_gigabytes,
          "With --prompts: memory for the keys and values of all answers under way (default: 1, or of "
          "one context if that is more)")
      ->check(between(1e-6, 1e6));
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
  arguments->speculation.add_to(*command);
  arguments->team.add_to(*command);
  command->add_option("--best", arguments->best, "Encoders with --json: number of tokens per mask")
      ->capture_default_str()
      ->check(between(1, 1e6));
  command->add_flag("--echo", arguments->echo, "Print the prompt before the answer");
  command->add_flag("--json", arguments->json, "One JSON object with text, ids and speed")
      ->excludes("--output");
  command->get_option("--echo")->excludes("--prompts");
  counts_only_with(*command, {"--output", "--kv-memory-gb"}, "--prompts");
  counts_only_with(*command, {"--length-penalty"}, "--beams");
  counts_only_with(*command, {"--best"}, "--json");
  command->callback([arguments, command, prompt, prompts, &context] {
    if (prompt->empty() && prompts->empty()) throw CLI::RequiredError("--prompt");
    arguments->given = given_options(*command);
    arguments->model.machine.rows_apart = true;  // an answer does not depend on what else is answered
    arguments->team.run(arguments->model.machine, context, [&](const TeamArguments::Run& run) {
      arguments->model.machine = run.machine;
      generate(*arguments, context, run.team);
    });
  });
}

}  // namespace stoa::cli
