#include "serve/app.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/nearest.h"
#include "infer/cache_type.h"
#include "serve/fields.h"
#include "serve/model_path.h"
#include "serve/openapi.h"
#include "serve/page.h"

namespace stoa::serve {
namespace {

// "localhost" of "LocalHost:8000", "::1" of "[::1]:8000".
std::string host_of(std::string_view header) {
  if (header.starts_with('[')) {
    header.remove_prefix(1);
    header = header.substr(0, header.find(']'));
  } else {
    header = header.substr(0, header.rfind(':'));
  }
  std::string out(header);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Names made of digits and dots, or with colons, are addresses: nobody can bind them to another machine.
bool is_address(std::string_view host) {
  const bool v4 = !host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos;
  return v4 || host.find(':') != std::string_view::npos;
}

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

bool contains(const std::vector<std::string>& list, std::string_view value) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& item) { return item == "*" || item == value; });
}

std::string_view key_of(const http::Request& request) {
  std::string_view given = request.header("authorization");
  if (given.size() >= 6 && std::equal(given.begin(), given.begin() + 6, "bearer", [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == b;
      })) {
    given.remove_prefix(6);
    while (given.starts_with(' ')) given.remove_prefix(1);
    if (!given.empty()) return given;
  }
  for (const char* name : {"x-api-key", "api-key"})
    if (const auto key = request.header(name); !key.empty()) return key;
  return {};
}

// What `body` throws is the answer.
template <class Body>
void answer_errors(http::Answer& answer, Body body) {
  try {
    body();
  } catch (const ApiError& error) {
    answer.send(error.reply());
  } catch (const std::exception& error) {
    answer.send(ApiError(500, error.what()).reply());
  }
}

// A path without what clients put in by mistake: slashes that follow each other, or end it.
std::string plain_path(std::string_view path) {
  std::string out;
  for (const char c : path)
    if (c != '/' || !out.ends_with('/')) out += c;
  if (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out;
}

// What a page may send: its client library has headers of its own.
std::string allowed_headers(const http::Request& request) {
  const std::string_view asked = request.header("access-control-request-headers");
  return asked.empty() ? "Authorization, Content-Type, X-Api-Key, X-Request-Id" : std::string(asked);
}

void check_encoding(const http::Request& request) {
  const std::string_view encoding = request.header("content-encoding");
  if (!encoding.empty() && encoding != "identity")
    throw ApiError(415,
                   fmt::format("a body with Content-Encoding '{}' is not read: send it as it is",
                               encoding.substr(0, 60)),
                   {}, "unsupported_encoding");
}

http::Reply json_reply(const Json& value) { return {200, "application/json", json_text(value)}; }

}  // namespace

bool same_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(secret.empty() ? '\0' : secret[i % secret.size()]);
  return difference == 0;
}

App::App(ModelSet& models, AppOptions options)
    : models_(models), options_(std::move(options)), host_name_(this_host()) {
  add_routes();
}

void App::add_routes() {
  post("/v1/completions", complete_text, {"/completions"});
  post("/v1/chat/completions", complete_chat, {"/chat/completions"});
  post("/v1/embeddings", embed, {"/embeddings"});
  post("/v1/messages", answer_message);
  post("/v1/messages/count_tokens", count_message);
  post("/v1/responses", respond, {"/responses"});
  post("/completion", complete_as_llama);
  post("/infill", infill);
  post("/tokenize", tokenize, {"/v1/tokenize"});
  post("/detokenize", detokenize, {"/v1/detokenize"});
  post("/score", score_pairs, {"/v1/score"});
  post("/rerank", rerank, {"/v1/rerank", "/v2/rerank", "/reranking", "/v1/reranking"});
  post("/generate", generate_as_nemo, {}, "PUT");
  post("/api", generate_as_megatron, {}, "PUT");
  post("/v2/models/{model}/generate", generate_as_triton);
  post("/v2/models/{model}/generate_stream", stream_as_triton);
  for (const char* path : {"/v1/models", "/models"}) get(path, [this] { return models(); });
  get_named("/v1/models/{model}", [this](const std::string& name) { return model(name); });
  get_named("/v2/models/{model}", [this](const std::string& name) { return triton_model(name); });
  get_named("/v2/models/{model}/ready", [this](const std::string& name) {
    models_.find(name);
    return json_reply({{"name", name}, {"ready", true}});
  });
  for (const char* path : {"/health", "/ping", "/v2/health/ready"})
    get(
        path, [this] { return health(); }, true);
  get(
      "/v2/health/live",
      [] {
        return json_reply({{"live", true}});
      },
      true);
  get(
      "/v2",
      [this] {
        return json_reply({{"name", "stoa"}, {"version", options_.version}, {"extensions", {"generate"}}});
      },
      true);
  get(
      "/metrics", [this] { return metrics(); }, true);
  get(
      "/version",
      [this] {
        return json_reply({{"version", options_.version}});
      },
      true);
  get_of_model("/props", &App::properties);
  get("/slots", [this] { return slots(); });
  get_of_model("/tokenizer_info", &App::tokenizer_info);
  get(
      "/openapi.json", [this] { return interface(); }, true);
  get(
      "/",
      [] {
        return http::Reply{200, "text/html; charset=utf-8", std::string(chat_page()), page_headers()};
      },
      true);
}

void App::post(const std::string& path, void (*handler)(const Call&), std::vector<std::string> aliases,
               const char* method) {
  aliases.push_back(path);
  for (const std::string& name : aliases)
    routes_[name].push_back(
        {method,
         [this, path, handler](const http::Request& request, const std::shared_ptr<http::Answer>& answer,
                               const std::string& model) {
           check_encoding(request);
           RequestBody body(request.body, fields_of(path), options_.lenient);
           const std::string named = model.empty() ? body.text("model").value_or("") : model;
           with_model(named, answer,
                      [handler, call = Call{nullptr, std::move(body), std::string(key_of(request)),
                                            request.id, answer}](const ModelSet::Model& loaded) mutable {
                        call.model = loaded;
                        handler(call);
                      });
         }});
}

void App::get_of_model(const std::string& path, http::Reply (App::*handler)(const ServedModel&) const) {
  routes_[path].push_back(
      {"GET", [this, handler](const http::Request&, const std::shared_ptr<http::Answer>& answer,
                              const std::string&) {
         with_model("", answer, [this, handler, answer](const ModelSet::Model& loaded) {
           answer->send((this->*handler)(*loaded));
         });
       }});
}

void App::with_model(const std::string& name, const std::shared_ptr<http::Answer>& answer,
                     std::function<void(const ModelSet::Model&)> use) const {
  models_.with(
      name, *answer,
      [answer, use = std::move(use)](const ModelSet::Model& model) {
        answer_errors(*answer, [&] { use(model); });
      },
      [answer](const ApiError& error) { answer->send(error.reply()); });
}

void App::get(const std::string& path, std::function<http::Reply()> handler, bool open) {
  routes_[path].push_back(
      {"GET",
       [handler = std::move(handler)](const http::Request&, const std::shared_ptr<http::Answer>& answer,
                                      const std::string&) { answer->send(handler()); },
       open});
}

void App::get_named(const std::string& path, std::function<http::Reply(const std::string& model)> handler) {
  routes_[path].push_back({"GET", [handler = std::move(handler)](
                                      const http::Request&, const std::shared_ptr<http::Answer>& answer,
                                      const std::string& model) { answer->send(handler(model)); }});
}

void App::handle(const http::Request& request, const std::shared_ptr<http::Answer>& answer) const {
  answer_errors(*answer, [&] { route(request, answer); });
}

void App::check_host(const http::Request& request) const {
  const std::string host = host_of(request.header("host"));
  if (host.empty() || is_address(host) || host == "localhost" || host.ends_with(".localhost") ||
      host == host_name_ || contains(options_.allowed_hosts, host))
    return;
  throw ApiError(403,
                 fmt::format("the Host '{}' is not this server's: --allowed-host {} would allow it",
                             host.substr(0, 100), host.substr(0, 100)),
                 {}, "host_not_allowed");
}

void App::check_origin(const http::Request& request, http::Answer& answer) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return;
  const std::string_view host = request.header("host");
  const bool own = origin == fmt::format("http://{}", host) || origin == fmt::format("https://{}", host);
  if (own) return;
  if (!contains(options_.allowed_origins, origin))
    throw ApiError(403,
                   fmt::format("pages of {} may not use this server: --allowed-origin would allow it",
                               origin.substr(0, 100)),
                   {}, "origin_not_allowed");
  answer.add_header("Access-Control-Allow-Origin", std::string(origin));
  answer.add_header("Vary", "Origin");
}

std::string App::owner_of(const http::Request& request) const {
  const std::string_view given = key_of(request);
  if (options_.keys.empty()) return {};
  bool known = false;
  for (const std::string& key : options_.keys) known |= same_secret(given, key);
  if (known) return std::string(given);
  ApiError error(
      401, given.empty() ? "an API key is needed: Authorization: Bearer KEY" : "the API key is not known", {},
      "invalid_api_key");
  error.headers = {{"WWW-Authenticate", "Bearer"}};
  throw error;
}

void App::route(const http::Request& request, const std::shared_ptr<http::Answer>& answer) const {
  check_host(request);
  check_origin(request, *answer);
  const std::string asked = plain_path(request.path);
  const ModelPath path = model_path(asked);
  const auto found = routes_.find(path.route);
  if (found == routes_.end()) {
    std::vector<std::string> paths;
    for (const auto& [known, routes] : routes_) paths.push_back(known);
    const std::string given = asked.substr(0, 200);
    throw ApiError(404, fmt::format("no route {}{}", given, did_you_mean(given, paths)), {}, "not_found");
  }
  std::string allowed;
  for (const Route& route : found->second) allowed += (allowed.empty() ? "" : ", ") + route.method;
  if (request.method == "OPTIONS") {
    answer->send({204,
                  "",
                  "",
                  {{"Allow", allowed + ", OPTIONS"},
                   {"Access-Control-Allow-Methods", allowed},
                   {"Access-Control-Allow-Headers", allowed_headers(request)},
                   {"Access-Control-Max-Age", "600"}}});
    return;
  }
  const auto chosen = std::find_if(found->second.begin(), found->second.end(),
                                   [&](const Route& route) { return route.method == request.method; });
  if (chosen == found->second.end()) {
    ApiError error(405, fmt::format("{} takes {}, not {}", asked, allowed, request.method.substr(0, 40)));
    error.headers = {{"Allow", allowed}};
    throw error;
  }
  if (!chosen->open) owner_of(request);
  if (draining_ && !chosen->open) throw ApiError(503, "the server is shutting down");
  chosen->handler(request, answer, path.model);
}

namespace {
Json describe(const ModelSet::Offered& offered, std::size_t index) {
  const OfferedName& name = offered.names[index];
  const auto known = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json status{{"value", name_of(offered.state)}, {"waiting", offered.waiting}};
  if (!offered.problem.empty()) status["problem"] = offered.problem;
  return {{"id", name.name},
          {"object", "model"},
          {"created", name.created},
          {"owned_by", "stoa"},
          {"root", name.root.string()},
          {"parent", name.parent.empty() ? Json() : Json(name.parent)},
          {"max_model_len", known(name.context)},
          {"chat", known(name.chat)},
          {"status", std::move(status)}};
}
}  // namespace

http::Reply App::models() const {
  Json data = Json::array();
  for (const auto& offered : models_.all())
    for (std::size_t i = 0; i < offered.names.size(); ++i) data.push_back(describe(offered, i));
  return json_reply({{"object", "list"}, {"data", data}});
}

http::Reply App::model(const std::string& name) const {
  const auto [offered, index] = models_.find(name);
  return json_reply(describe(offered, index));
}

// As Triton describes a model that generates text.
http::Reply App::triton_model(const std::string& name) const {
  const auto [offered, index] = models_.find(name);
  const auto tensor = [](const char* of) {
    return Json{{"name", of}, {"datatype", "BYTES"}, {"shape", {1}}};
  };
  return json_reply({{"name", offered.names[index].name},
                     {"versions", {"1"}},
                     {"platform", "stoa"},
                     {"inputs", Json::array({tensor("text_input")})},
                     {"outputs", Json::array({tensor("text_output")})}});
}

http::Reply App::health() const {
  if (draining_) throw ApiError(503, "the server is shutting down");
  return json_reply({{"status", "ok"}});
}

namespace {

Metrics::Gauges gauges_of(const ServedModel& model) {
  Metrics::Gauges gauges;
  const infer::EngineCounters counts = model.counters();
  gauges.running = counts.running;
  gauges.waiting = counts.waiting;
  gauges.cache_usage = static_cast<double>(counts.blocks_used) / static_cast<double>(counts.blocks_total);
  gauges.prefix_queries = counts.prompt_tokens;
  gauges.prefix_hits = counts.prefix_hit_tokens;
  gauges.preemptions = counts.preemptions;
  gauges.drafts = counts.drafts;
  gauges.draft_tokens = counts.draft_tokens;
  gauges.accepted_tokens = counts.accepted_tokens;
  gauges.block_tokens = model.limits().block_tokens;
  gauges.blocks = counts.blocks_total;
  const infer::PoolMemory pool = model.pool();
  gauges.cache_bytes = static_cast<double>(pool.bytes);
  gauges.cache_type = infer::cache_type_name(pool.type);
  return gauges;
}

}  // namespace

http::Reply App::metrics() const {
  MetricsText out;
  for (const auto& offered : models_.all()) {
    for (std::size_t i = 0; i < offered.names.size(); ++i) {
      Metrics::Gauges gauges;
      if (!offered.models.empty()) {
        const ServedModel& model = *offered.models[i];
        if (model.generates() && model.base() == nullptr)
          gauges = gauges_of(model);  // an adapter's are its model's
        if (const ServedEncoder* encoder = model.encodes()) gauges.running = encoder->counters().requests;
      }
      offered.names[i].metrics->write(offered.names[i].name, gauges, out);
    }
    write_loads({.model = offered.names.front().name,
                 .loaded = offered.state == LoadState::kLoaded,
                 .loads = offered.loads,
                 .unloads = offered.unloads,
                 .failures = offered.failures,
                 .waiting = offered.waiting,
                 .bytes = offered.bytes,
                 .seconds = offered.load_seconds},
                out);
  }
  return {200, "text/plain; version=0.0.4; charset=utf-8", out.text()};
}

http::Reply App::properties(const ServedModel& model) const {
  Json out{{"model_path", model.options().path.string()},
           {"model_alias", model.name()},
           {"chat_template", model.template_text()},
           {"chat_template_tool_use", model.tool_template_text()},
           {"bos_token", ""},
           {"eos_token", ""},
           {"total_slots", model.generates() ? model.limits().sequences : 0},
           {"default_generation_settings", {{"n_ctx", model.context()}}},
           {"modalities", {{"vision", false}, {"audio", false}}},
           {"build_info", options_.version}};
  if (model.generates()) {
    const infer::PassLimits& limits = model.limits();
    out["kv_cache"] = {{"dtype", infer::cache_type_name(model.pool().type)},
                       {"bytes", model.pool().bytes},
                       {"tokens", limits.blocks * limits.block_tokens},
                       {"texts_of_n_ctx", limits.texts_at_once(limits.longest())}};
  }
  const auto& tokenizer = model.tokenizer();
  if (const auto id = tokenizer.bos_id()) out["bos_token"] = tokenizer.id_to_token(*id);
  if (const auto id = tokenizer.eos_id()) out["eos_token"] = tokenizer.id_to_token(*id);
  return json_reply(out);
}

http::Reply App::interface() const {
  std::vector<DescribedRoute> routes;
  for (const Endpoint& endpoint : endpoints()) {
    const std::string path(endpoint.path);
    routes.push_back({path, routes_.at(path).front().method});
  }
  for (const auto& [path, of_path] : routes_)
    if (of_path.front().method == "GET") routes.push_back({path, "GET", of_path.front().open});
  return json_reply(openapi(options_.version, routes, !options_.keys.empty()));
}

http::Reply App::slots() const {
  Json out = Json::array();
  for (const auto& offered : models_.all())
    for (const auto& model : offered.models) {
      if (!model->generates() || model->base() != nullptr) continue;
      const auto running = model->counters().running;
      for (std::int64_t i = 0; i < model->limits().sequences; ++i)
        out.push_back({{"id", out.size()},
                       {"model", model->name()},
                       {"n_ctx", model->context()},
                       {"speculative", model->options().prompt_lookup || model->options().draft},
                       {"is_processing", i < running}});
    }
  return json_reply(out);
}

http::Reply App::tokenizer_info(const ServedModel& model) const {
  const auto& tokenizer = model.tokenizer();
  Json out{{"vocab_size", tokenizer.vocab_size()}, {"model_max_length", model.context()}};
  const auto name = [&](const char* key, std::optional<token::TokenId> id) {
    out[key] = id ? Json(tokenizer.id_to_token(*id)) : Json();
  };
  name("bos_token", tokenizer.bos_id());
  name("eos_token", tokenizer.eos_id() ? tokenizer.eos_id() : tokenizer.eod_id());
  name("pad_token", tokenizer.pad_id());
  name("unk_token", tokenizer.unk_id());
  if (model.has_template()) out["chat_template"] = model.template_text();
  return json_reply(out);
}

}  // namespace stoa::serve
