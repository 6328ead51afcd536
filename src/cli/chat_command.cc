// `stoa chat MODEL`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "cli/cache_arguments.h"
#include "cli/command.h"
#include "cli/constraint_arguments.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/sampling_arguments.h"
#include "cli/speculation_arguments.h"
#include "cli/team_arguments.h"
#include "cli/terminal_input.h"
#include "infer/chat_session.h"
#include "infer/engine/paged_decoder.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ChatArguments {
  ModelArguments model;
  CacheArguments cache;
  SamplingArguments sampling;
  ConstraintArguments constraint;
  SpeculationArguments speculation;
  TeamArguments team;
  infer::ChatOptions options;
  std::string template_file;
  std::vector<std::string> variables;
  std::optional<std::int64_t> context;
  bool json = false;
};

// KEY=VALUE: a JSON value, or a text.
void read_variables(const std::vector<std::string>& items, Json& out) {
  for (const auto& item : items) {
    const std::size_t at = item.find('=');
    require<UsageError>(at != std::string::npos && at > 0, "--variable {}: expected KEY=VALUE", item);
    const std::string value = item.substr(at + 1);
    Json parsed = Json::parse(value, nullptr, false);
    out[item.substr(0, at)] = parsed.is_discarded() ? Json(value) : std::move(parsed);
  }
}

void report(const infer::ChatSession::Reply& reply, bool base, Context& context) {
  if (reply.forgotten > 0)
    context.console.line(
        base ? fmt::format("the context is full: the first {} tokens of the text were forgotten",
                           reply.forgotten)
             : fmt::format("the context is full: {} forgotten",
                           reply.forgotten == 1 ? "the oldest turn was"
                                                : fmt::format("the {} oldest turns were", reply.forgotten)));
  if (reply.result.reason == infer::EndReason::kContext)
    context.console.line("the answer ends here: the context is full");
  if (reply.result.reason == infer::EndReason::kLength)
    context.console.line("the answer ends here: --max-tokens");
}

Json to_json(const infer::ChatSession::Reply& reply) {
  const double rate =
      static_cast<double>(reply.result.answer.size()) / std::max(1e-9, reply.result.answer_seconds);
  return {{"text", reply.text},
          {"ids", reply.result.answer},
          {"end", infer::name_of(reply.result.reason)},
          {"prompt_tokens", reply.result.prompt.size()},
          {"reused_tokens", reply.result.reused},
          {"forgotten", reply.forgotten},
          {"tokens_per_second", rate}};
}

void chat(const ChatArguments& a, Context& context, infer::RankTeam* team) {
  infer::validate(a.sampling.options.sampling);
  require<ConfigError>(a.sampling.options.max_tokens >= 1, "--max-tokens must be at least 1, got {}",
                       a.sampling.options.max_tokens);
  require<ConfigError>(!a.context || *a.context >= 2, "--context must be at least 2, got {}",
                       a.context.value_or(0));
  infer::ChatOptions options = a.options;
  read_variables(a.variables, options.variables);
  context.interrupt.close();
  InterruptCounter interrupts;
  infer::OpenModel model = a.model.open();
  const auto decoder = infer::load_passes(
      model,
      {.context = a.context, .sequences = 1, .scored = a.speculation.scored(1), .cache = a.cache.type()}, {},
      team);
  infer::Engine engine(*decoder, a.speculation.open(a.model, model, decoder->limits()));
  const auto merged = a.sampling.merged(model.generation_directory(), model.special());
  merged.say(context.console);
  options.generate = merged.options;
  options.generate.constraint = a.constraint.compile(model);
  const std::string jinja =
      a.template_file.empty() ? model.tokenizer().chat_template() : read_text(a.template_file);
  std::optional<chat::ChatTemplate> chat_template;
  if (!jinja.empty()) chat_template.emplace(jinja);
  infer::ChatSession session(engine, model.tokenizer(), std::move(chat_template), options);
  context.console.line(
      session.has_template()
          ? "/reset begins a new conversation, /exit ends; Ctrl-C stops an answer"
          : "this model has no chat template: it was not tuned to answer, it continues your text. "
            "/reset begins a new text, /exit ends; Ctrl-C stops it");
  LineInput input(interrupts);
  const bool person = ::isatty(STDIN_FILENO) != 0;
  std::optional<LineEditor> editor;
  if (person && ::isatty(STDOUT_FILENO) != 0)
    editor.emplace(stdin, stdout, history_file(), [&] { return interrupts.requested(); });
  for (std::string line;;) {
    if (person && !editor) print("> ");
    const auto outcome = editor ? editor->next(line) : input.next(line);
    if (outcome == LineInput::Outcome::kInterrupted) {
      context.console.line("\n(Ctrl-C again ends)");
      // A second one within a second ends the process; later it counts as the first.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      interrupts.clear();
      continue;
    }
    if (outcome == LineInput::Outcome::kEnd || line == "/exit" || line == "/quit") break;
    if (line == "/reset") {
      session.reset();
      context.console.line("a new conversation");
      continue;
    }
    if (line.empty()) continue;
    if (line.starts_with('/') && line.find(' ') == std::string::npos && line.size() > 1 && person) {
      context.console.line(fmt::format("no command '{}': /reset, /exit", line));
      continue;
    }
    interrupts.clear();
    try {
      const auto reply = session.say(line, [&](std::string_view piece) {
        if (!a.json) print(piece);
        return !interrupts.requested();
      });
      require<NumericsError>(reply.result.reason != infer::EndReason::kNotANumber,
                             "the model's logits are not numbers: {}", infer::kBeyondRange);
      if (a.json)
        print_json_line(to_json(reply));
      else
        print("\n");
      report(reply, !session.has_template(), context);
    } catch (const DataError& error) {  // of this message alone: a person may try another
      if (!person) throw;
      context.console.line(fmt::format("ERROR {}", error.what()));
    }
    interrupts.clear();
  }
  if (person) print("\n");
}

}  // namespace

void add_chat_command(CLI::App& app, Context& context) {
  auto a = std::make_shared<ChatArguments>();
  a->sampling.options.max_tokens = 512;
  CLI::App* c = app.add_subcommand("chat",
                                   "Talk to a model in the terminal, with line editing and history (kept in "
                                   "~/.local/state/stoa/chat_history); from a pipe, each line is a turn. "
                                   "Example: stoa chat runs/shakespeare");
  a->model.add_to(*c);
  a->model.weights.add_to(*c);
  a->cache.add_to(*c);
  c->add_option("--system", a->options.system, "System message that begins every conversation");
  c->add_option("--chat-template", a->template_file, "Jinja file (default: the model's own)");
  c->add_option("--variable", a->variables,
                "KEY=VALUE for the template, for example enable_thinking=false (may be given several times)");
  c->add_option("--context", a->context, "Context length in tokens (default: the model's positions)")
      ->check(between(1, 1 << 24));
  a->sampling.add_to(*c, SamplingArguments::Use::kChat);
  a->constraint.add_to(*c);
  a->speculation.add_to(*c);
  a->team.add_to(*c);
  c->add_flag("--json", a->json, "One JSON line per answer");
  c->callback([a, &context] {
    a->model.machine.rows_apart = true;  // an answer does not depend on how many tokens are in a pass
    a->team.run(a->model.machine, context, [&](const TeamArguments::Run& run) {
      a->model.machine = run.machine;
      chat(*a, context, run.team);
    });
  });
}

}  // namespace stoa::cli
