// Requests to answers: who may ask, which endpoint it is, and what went wrong.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "serve/handlers.h"

namespace stoa::serve {

struct AppOptions {
  std::vector<std::string> keys;             // none: nobody is asked for one
  std::vector<std::string> allowed_hosts;    // besides addresses and localhost; "*": any
  std::vector<std::string> allowed_origins;  // of web pages elsewhere; "*": any
  bool lenient = false;                      // unknown fields are ignored
  std::string version;
};

class App {
 public:
  App(ModelSet& models, AppOptions options);

  // Answers, now or later.
  void handle(const http::Request& request, const std::shared_ptr<http::Answer>& answer) const;
  // Readiness: /health says 503 from now on.
  void drain() { draining_ = true; }

 private:
  struct Route {
    std::string method;
    // `model`: the one that the path names, or "".
    std::function<void(const http::Request&, const std::shared_ptr<http::Answer>&, const std::string& model)>
        handler;
    bool open = false;  // needs no key
  };
  void add_routes();
  void post(const std::string& path, void (*handler)(const Call&), std::vector<std::string> aliases = {},
            const char* method = "POST");
  void get(const std::string& path, std::function<http::Reply()> handler, bool open = false);
  // The same about the model that the path names, loaded or not.
  void get_named(const std::string& path, std::function<http::Reply(const std::string& model)> handler);
  // The same about the first model, once it is loaded.
  void get_of_model(const std::string& path, http::Reply (App::*handler)(const ServedModel&) const);
  // Calls `use` with the model of that name once it is loaded; what it throws is the answer.
  void with_model(const std::string& name, const std::shared_ptr<http::Answer>& answer,
                  std::function<void(const ModelSet::Model&)> use) const;
  // ApiError 401, 403.
  void check_host(const http::Request& request) const;
  void check_origin(const http::Request& request, http::Answer& answer) const;
  std::string owner_of(const http::Request& request) const;
  void route(const http::Request& request, const std::shared_ptr<http::Answer>& answer) const;

  http::Reply models() const;
  http::Reply model(const std::string& name) const;
  http::Reply triton_model(const std::string& name) const;
  http::Reply health() const;
  http::Reply metrics() const;
  http::Reply properties(const ServedModel& model) const;
  http::Reply slots() const;
  http::Reply interface() const;
  http::Reply tokenizer_info(const ServedModel& model) const;

  ModelSet& models_;
  const AppOptions options_;
  const std::string host_name_;                       // of this machine
  std::map<std::string, std::vector<Route>> routes_;  // by path
  std::atomic<bool> draining_{false};
};

// Equal, in time that depends on the length of `given` alone.
bool same_secret(std::string_view given, std::string_view secret);

}  // namespace stoa::serve
