// `stoa serve MODEL…`.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/app.h"
#include "cli/cache_arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/machine_factory.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/team_arguments.h"
#include "serve/serve.h"

namespace stoa::cli {
namespace {

struct ServeArguments {
  std::vector<std::string> models, adapters;
  ComputeArguments machine;
  WeightArguments weights;
  TeamArguments team;
  CacheArguments cache;
  std::string key_file, access_log, follow, draft;
  bool prompt_lookup = false;
  std::int64_t max_context = 0, body_megabytes = 32;
  double cache_gigabytes = 0, model_gigabytes = 0, unload_after = 0;
  bool ignore_generation_config = false;
  serve::ServeOptions options;
  double queue_seconds = 600;
};

// NAME and the rest of "NAME=PATH", or no name.
std::pair<std::string, std::string> named_path(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || fs::exists(text)) return {"", text};
  return {text.substr(0, at), text.substr(at + 1)};
}

// The last word of a path: "shakespeare" of "runs/shakespeare/".
std::string last_word(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

serve::ModelOptions model_options(const ServeArguments& a, const std::string& argument,
                                  infer::RankTeam* team) {
  const auto [name, path] = named_path(argument);
  serve::ModelOptions out;
  out.path = path;
  out.name = name.empty() ? last_word(path) : name;
  out.aliases = {path, fs::absolute(path).lexically_normal().string()};
  out.dtype = a.machine.type();
  out.weights = a.weights.form;
  out.weights_given = a.weights.given;
  out.only = a.models.size() + !a.follow.empty() == 1;
  if (a.max_context > 0) out.max_context = a.max_context;
  if (a.cache_gigabytes > 0) out.cache_gigabytes = a.cache_gigabytes;
  out.cache = a.cache.type();
  out.prompt_lookup = a.prompt_lookup;
  out.team = team;
  if (!a.draft.empty()) out.draft = a.draft;
  out.use_generation_config = !a.ignore_generation_config;
  out.queue_seconds = a.queue_seconds;
  return out;
}

void serve_models(const ServeArguments& a, Context& context, const TeamArguments::Run& run) {
  serve::ServeOptions options = a.options;
  options.app.version = std::string(version());
  options.set.queue_seconds = a.queue_seconds;
  if (a.model_gigabytes > 0) options.set.rules.memory = a.model_gigabytes * 1e9;
  if (a.unload_after > 0) options.set.rules.unload_after = a.unload_after;
  options.http.body_bytes = static_cast<std::size_t>(a.body_megabytes) << 20;
  if (!a.key_file.empty()) options.app.keys = serve::read_keys(a.key_file);
  if (!a.access_log.empty()) options.access_log = a.access_log;
  for (const auto& model : a.models) options.models.push_back(model_options(a, model, run.team));
  if (!a.follow.empty()) options.follow = model_options(a, a.follow, run.team);
  require<UsageError>(!options.models.empty() || options.follow, "give a MODEL, or --follow RUN");
  require<UsageError>(!options.models.empty() || a.adapters.empty(),
                      "--adapter is of the first MODEL: give one");
  for (const auto& adapter : a.adapters) {
    const auto [name, path] = named_path(adapter);
    require<UsageError>(!name.empty(), "--adapter {}: expected NAME=DIR", adapter);
    options.models.front().adapters.push_back({name, path});
  }
  for (const auto& origin : options.app.allowed_origins)
    require<UsageError>(origin == "*" || origin.find("://") != std::string::npos,
                        "--allowed-origin {}: expected an origin such as https://example.org", origin);
  serve::serve(
      options, [machine = run.machine] { return make_machine(machine); }, run.stop, context.console,
      [&](const std::string& url) {
        print("listening on " + url + "\n");
        context.interrupt.set({.grace = std::chrono::duration<double>(options.drain_seconds + 10),
                               .words = "answers under way are finished (again: exit immediately)",
                               .last_words = {}});
      });
}

}  // namespace

void add_serve_command(CLI::App& app, Context& context) {
  auto a = std::make_shared<ServeArguments>();
  CLI::App* c = app.add_subcommand(
      "serve",
      "Answer requests over HTTP, in OpenAI's form, and serve a chat page. The first line of "
      "standard output is 'listening on URL'. Example: stoa serve runs/shakespeare --port 8000");
  c->add_option("MODEL", a->models,
                "Model directories, .gguf files, checkpoints or runs; NAME=MODEL gives a name");
  a->machine.add_to(*c);
  a->weights.add_to(*c);
  c->add_option("--host", a->options.http.host, "Address to listen on; 0.0.0.0: all of this machine")
      ->capture_default_str();
  c->add_option("--port", a->options.http.port, "0: a free port")
      ->capture_default_str()
      ->check(between(0, 65535));
  CLI::Option* certificate = c->add_option("--ssl-certfile", a->options.http.certificate,
                                           "Connections are encrypted (TLS 1.2 or newer): PEM file of the "
                                           "certificate, those of its issuers behind it");
  certificate->needs(c->add_option("--ssl-keyfile", a->options.http.key, "PEM file of the certificate's key")
                         ->needs(certificate));
  c->add_option("--api-key-file", a->key_file,
                "Only requests with one of the keys in this file, one per line, are answered");
  c->add_option("--adapter", a->adapters,
                "NAME=DIR: an adapter of the first MODEL, served under NAME (may be given several times)");
  c->add_option(
      "--follow", a->follow,
      "A run, served too: its newest checkpoint, replaced by each newer one while requests are answered");
  c->add_flag("--load-on-demand", a->options.load_on_demand,
              "Load a MODEL when a request asks for it, not at the start; requests wait so long");
  c->add_option("--unload-after", a->unload_after,
                "Seconds without a request after which a MODEL is unloaded, until it is asked for again "
                "(default: never)")
      ->check(between(1e-3, 1e9));
  c->add_option(
       "--model-memory-gb", a->model_gigabytes,
       "Memory for all loaded models: weights, keys and values, buffers. Models are loaded as far as "
       "it allows; where another is asked for, the idle one that was used least recently leaves")
      ->check(between(1e-6, 1e6));
  c->add_option("--max-context", a->max_context,
                "Tokens of a prompt and its answer (default: the model's positions)")
      ->check(between(2, 1 << 24));
  c->add_option("--kv-memory-gb", a->cache_gigabytes,
                "Memory for the keys and values of all answers under way (default: 1, or of one context if "
                "that is more)")
      ->check(between(1e-6, 1e6));
  a->cache.add_to(*c);
  CLI::Option* lookup = c->add_flag(
      "--prompt-lookup", a->prompt_lookup,
      "Guess the next tokens from what followed the same words before, and check several in a pass: "
      "the same answers, faster where they copy");
  c->add_option(
       "--draft", a->draft,
       "A smaller model of the same vocabulary that guesses the next tokens of every MODEL: the same "
       "answers, faster where it is right often enough")
      ->excludes(lookup);
  c->add_option("--max-queue-seconds", a->queue_seconds,
                "Requests that would wait longer are refused with status 429 and Retry-After")
      ->capture_default_str()
      ->check(between(0, 1e9));
  c->add_option("--max-body-mb", a->body_megabytes, "Longest body of a request")
      ->capture_default_str()
      ->check(between(1, 1024));
  c->add_option("--drain-seconds", a->options.drain_seconds,
                "At SIGTERM: how long answers under way may take")
      ->capture_default_str()
      ->check(between(0, 86400));
  c->add_option("--allowed-host", a->options.app.allowed_hosts,
                "A name under which clients may reach the server, besides addresses, localhost and this "
                "machine's name; *: any");
  c->add_option(
      "--allowed-origin", a->options.app.allowed_origins,
      "Origin of web pages elsewhere that may use the server (CORS), such as https://example.org; *: any");
  c->add_option("--access-log", a->access_log,
                "File to which a JSON line per request is appended; -: standard error");
  c->add_flag("--ignore-unknown-fields", a->options.app.lenient,
              "Fields of requests that are not known do not refuse them");
  c->add_flag("--no-generation-config", a->ignore_generation_config,
              "Ignore the models' generation_config.json");
  a->team.add_to(*c);
  c->callback([a, &context] {
    MachineOptions machine = a->machine.machine;
    machine.rows_apart = true;  // an answer does not depend on what else is served
    a->team.run(machine, context, [&](const TeamArguments::Run& run) { serve_models(*a, context, run); });
  });
}

}  // namespace stoa::cli
