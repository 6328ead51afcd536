// `stoa bench serve`: a server under load.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "cli/api_key.h"
#include "cli/command.h"
#include "cli/input_lines.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "serve/load/load.h"
#include "serve/load/load_text.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchServeArguments {
  std::string url, model, prompts, api_key_file, body, limits = "ttft=1s,tpot=200ms";
  std::vector<int> clients;
  std::vector<double> rates;
  std::int64_t requests = 0, input = 128, shared = 0, output = 64;
  double seconds = 0, timeout = 600;
  std::uint64_t seed = 0;
  bool chat = false, json = false;
};

// What is asked, and of whom.
class Questions {
 public:
  Questions(const BenchServeArguments& a, serve::http::Client& client, const serve::http::Headers& headers)
      : a_(a), more_(Json::object()), model_(a.model) {
    if (!a.body.empty()) {
      more_ = Json::parse(a.body, nullptr, false);
      require<ConfigError>(more_.is_object(), "--body: expected a JSON object, got '{}'", a.body);
    }
    if (model_.empty()) model_ = first_model(client, headers);
    if (!a.prompts.empty()) {
      InputLines lines(a.prompts);
      for (std::string line; lines.next(line);)
        if (!line.empty()) texts_.push_back(line);
      require<DataError>(!texts_.empty(), "{} has no prompt", a.prompts);
      return;
    }
    // How many tokens a word takes is what the server says.
    const std::int64_t trial =
        std::clamp<std::int64_t>(a.input / 5, 4, 200);  // words, of fewer tokens than a prompt
    const Json answer =
        answer_of(client.post(path(), question(serve::load_text(a.seed, -1, trial), 1, false), headers));
    const std::int64_t tokens = answer.value("/usage/prompt_tokens"_json_pointer, std::int64_t{0});
    require<DataError>(tokens > 0,
                       "the server does not say how many tokens a prompt has (usage): --prompts is needed");
    words_per_token_ = static_cast<double>(trial) / static_cast<double>(tokens);
    shared_ = serve::load_text(a.seed, -2, words(a.shared));
  }

  const std::string& model() const { return model_; }
  std::string path() const { return a_.chat ? "/chat/completions" : "/completions"; }
  std::string body(std::int64_t number) const {
    if (!texts_.empty())
      return question(texts_[static_cast<std::size_t>(number) % texts_.size()], a_.output, true);
    const std::string own = serve::load_text(a_.seed, number, words(a_.input - a_.shared));
    return question(a_.shared > 0 ? shared_ + ". " + own : own, a_.output, true);
  }

 private:
  std::int64_t words(std::int64_t tokens) const {
    return static_cast<std::int64_t>(std::llround(words_per_token_ * static_cast<double>(tokens)));
  }
  std::string question(const std::string& text, std::int64_t tokens, bool stream) const {
    Json out{{"model", model_}};
    if (a_.chat)
      out["messages"] = Json::array({Json{{"role", "user"}, {"content", text}}});
    else
      out["prompt"] = text;
    out["max_tokens"] = tokens;
    out["temperature"] = 0;
    out["ignore_eos"] = true;
    if (stream) {
      out["stream"] = true;
      out["stream_options"] = {{"include_usage", true}};
    }
    for (const auto& [name, value] : more_.items()) {
      if (value.is_null())
        out.erase(name);
      else
        out[name] = value;
    }
    return out.dump();
  }
  Json answer_of(const serve::http::Reply& reply) const {
    require<IoError>(reply.status == 200, "{}: status {}: {}", a_.url, reply.status,
                     reply.body.substr(0, 500));
    Json out = Json::parse(reply.body, nullptr, false);
    require<DataError>(out.is_object(), "{}: the answer is not a JSON object: {}", a_.url,
                       reply.body.substr(0, 200));
    return out;
  }
  std::string first_model(serve::http::Client& client, const serve::http::Headers& headers) const {
    const Json list = answer_of(client.get("/models", headers));
    const std::string id = list.value("/data/0/id"_json_pointer, "");
    require<DataError>(!id.empty(), "{} names no model at /models: --model is needed", a_.url);
    return id;
  }

  const BenchServeArguments& a_;
  Json more_;
  std::string model_, shared_;
  std::vector<std::string> texts_;
  double words_per_token_ = 1;
};

Json json_of(const serve::Distribution& d) {
  return {{"count", d.count}, {"mean", d.mean}, {"p50", d.p50},
          {"p90", d.p90},     {"p99", d.p99},   {"max", d.most}};
}

Json json_of(const serve::LoadReport& report, const std::map<std::string, std::int64_t>& errors) {
  return {{"requests", report.sent},
          {"answered", report.answered},
          {"good", report.good},
          {"seconds", report.seconds},
          {"requests_per_second", report.per_second(report.answered)},
          {"goodput_requests_per_second", report.per_second(report.good)},
          {"prompt_tokens", report.prompt_tokens},
          {"tokens", report.tokens},
          {"tokens_per_second", report.per_second(report.tokens)},
          {"ttft_seconds", json_of(report.first_token)},
          {"tpot_seconds", json_of(report.per_token)},
          {"gap_seconds", json_of(report.gap)},
          {"latency_seconds", json_of(report.whole)},
          {"errors", errors}};
}

std::string times_of(const serve::Distribution& d) {
  return fmt::format("{:>6.0f} {:>6.0f} {:>6.0f}", 1e3 * d.p50, 1e3 * d.p90, 1e3 * d.p99);
}

void bench_serve(const BenchServeArguments& a, Context& context) {
  require<ConfigError>(a.shared < a.input, "--shared-prefix {} is not below --input {}", a.shared, a.input);
  const serve::LatencyLimits limits = serve::parse_limits(a.limits);
  serve::LoadTarget target{serve::http::parse_address(a.url), key_headers(a.api_key_file), "",
                           std::chrono::milliseconds(std::llround(1e3 * a.timeout))};
  if (!target.address.path.ends_with("/v1")) target.address.path += "/v1";
  serve::http::Client client(target.address, target.timeout);
  const Questions questions(a, client, target.headers);
  target.path = questions.path();

  std::vector<serve::Load> loads;
  for (const double rate : a.rates) loads.push_back({0, rate, a.requests, a.seconds, a.seed});
  for (const int clients : a.clients) loads.push_back({clients, 0, a.requests, a.seconds, a.seed});
  if (loads.empty()) loads.push_back({8, 0, a.requests, a.seconds, a.seed});
  Json results = Json::array();
  std::int64_t first = 0, answered = 0;
  std::string error;
  if (!a.json)
    print(fmt::format(
        "{:>14}  {:>8} {:>6}  {:>10} {:>10} {:>10}  {:^20}  {:^20}  {:^20}\n{:>65}  {:^20}  {:^20}  {:^20}\n",
        "load", "requests", "failed", "requests/s", "good/s", "tokens/s", "TTFT, ms", "TPOT, ms",
        "latency, ms", "", "p50    p90    p99", "p50    p90    p99", "p50    p90    p99"));
  for (serve::Load& load : loads) {
    const std::string name =
        load.clients > 0 ? fmt::format("{} clients", load.clients) : fmt::format("{:g}/s", load.rate);
    if (load.requests == 0) load.requests = load.seconds > 0 ? 1'000'000 : std::max(20, 8 * load.clients);
    Progress progress(context.console, name, static_cast<double>(load.requests), "requests");
    const serve::LoadResult result = serve::run_load(
        target, load, [&](std::int64_t i) { return questions.body(first + i); },
        [&](std::int64_t ended) { progress.update(static_cast<double>(ended)); });
    context.console.finish_live();
    first += static_cast<std::int64_t>(result.requests.size());
    const serve::LoadReport report = serve::report_of(result.requests, result.seconds, limits);
    std::map<std::string, std::int64_t> errors;
    for (const serve::SentRequest& request : result.requests)
      if (!request.answered()) {
        ++errors[request.status == 0 ? "no answer" : fmt::format("status {}", request.status)];
        if (error.empty()) error = request.error;
      }
    answered += report.answered;
    Json row{{"load", load.clients > 0 ? Json{{"clients", load.clients}} : Json{{"rate", load.rate}}}};
    row.update(json_of(report, errors));
    results.push_back(std::move(row));
    if (!a.json)
      print(fmt::format("{:>14}  {:>8} {:>6}  {:>10.2f} {:>10.2f} {:>10.1f}  {}  {}  {}\n", name, report.sent,
                        report.sent - report.answered, report.per_second(report.answered),
                        report.per_second(report.good), report.per_second(report.tokens),
                        times_of(report.first_token), times_of(report.per_token), times_of(report.whole)));
  }
  require<IoError>(answered > 0, "no request was answered; the first: {}", error);
  if (!error.empty()) context.console.warn(fmt::format("the first request that failed: {}", error));
  if (a.json)
    print_json_line(Json{{"url", a.url},
                         {"model", questions.model()},
                         {"endpoint", questions.path()},
                         {"limits", a.limits},
                         {"loads", results}});
}

}  // namespace

void add_bench_serve(CLI::App& bench, Context& context) {
  auto a = std::make_shared<BenchServeArguments>();
  CLI::App* c = bench.add_subcommand("serve",
                                     "Put a server of OpenAI's form (stoa serve, vLLM, llama-server …) under "
                                     "load: time to the first token (TTFT), time per further "
                                     "token (TPOT), throughput, and goodput, the requests per second that "
                                     "keep all limits. Example: stoa bench serve "
                                     "http://127.0.0.1:8000/v1 --clients 1,4,16");
  c->add_option("URL", a->url, "Where the server is, as http://HOST:PORT/v1 or https://HOST/v1")->required();
  c->add_option("--model", a->model, "Whose answers (default: the first that the server names)");
  auto* clients =
      c->add_option(
           "--clients", a->clients,
           "Numbers of clients that ask again when they were answered, one load for each (default: 8)")
          ->delimiter(',')
          ->check(between(1, 10000));
  c->add_option(
       "--rate", a->rates,
       "Instead: requests per second that arrive at random, whatever the server does, one load for each")
      ->delimiter(',')
      ->check(between(1e-3, 1e5))
      ->excludes(clients);
  c->add_option("--requests", a->requests,
                "Requests of a load (default: 8 per client, at least 20; with --seconds: any number)")
      ->check(between(1, 1e7));
  c->add_option("--seconds", a->seconds, "A load sends no request after this time")
      ->check(between(0.01, 1e6));
  auto* prompts = c->add_option("--prompts", a->prompts,
                                "File with a prompt per line, used in turn (default: random words)");
  c->add_option("--input", a->input,
                "Tokens of a prompt, about: a trial request tells how many tokens words have")
      ->capture_default_str()
      ->check(between(1, 1 << 24))
      ->excludes(prompts);
  c->add_option("--shared-prefix", a->shared,
                "How many of these tokens, at the beginning, are the same in all prompts")
      ->capture_default_str()
      ->check(between(0, 1 << 24))
      ->excludes(prompts);
  c->add_option("--output", a->output, "Tokens of an answer: max_tokens, with ignore_eos")
      ->capture_default_str()
      ->check(between(1, 1 << 24));
  c->add_flag("--chat", a->chat, "Ask /chat/completions instead of /completions");
  c->add_option("--body", a->body,
                "JSON object: further fields of the requests; null leaves one of them out, as in "
                "{\"ignore_eos\":null}");
  c->add_option("--slo", a->limits,
                "What a good request keeps: ttft=TIME, tpot=TIME, e2e=TIME, separated by commas")
      ->capture_default_str();
  c->add_option("--api-key-file", a->api_key_file, "File whose first line is the key");
  c->add_option("--timeout", a->timeout, "Seconds after which a request has failed")
      ->capture_default_str()
      ->check(between(0.1, 1e6));
  c->add_option("--seed", a->seed, "Seed of arrivals and words")->capture_default_str();
  c->add_flag("--json", a->json, "One JSON object");
  c->callback([a, &context] { bench_serve(*a, context); });
}

}  // namespace stoa::cli
