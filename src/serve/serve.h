// `stoa serve`: models behind HTTP until a signal stops them.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>

#include "base/console.h"
#include "serve/app.h"
#include "serve/http/server.h"

namespace stoa::serve {

struct ServeOptions {
  http::ServerOptions http;
  AppOptions app;
  std::vector<ModelOptions> models;
  bool load_on_demand = false;  // models are loaded when they are asked for, not at the start
  ModelSetOptions set;
  std::optional<ModelOptions> follow;     // one more: a run, whose newest checkpoint is served
  std::optional<std::string> access_log;  // a file; "-": standard error
  double drain_seconds = 60;              // for answers under way, once it is to stop
};

// Loads the models, listens, and answers until `stop`. `listening` gets "http://127.0.0.1:8000" once requests
// are taken. Then no connection is taken, answers under way are finished within drain_seconds, and those
// that are not end with an error.
void serve(const ServeOptions& options, const infer::MakeMachine& make_machine, const std::stop_token& stop,
           Console& console, const std::function<void(const std::string&)>& listening);

// Keys of a file: one per line; empty lines and those that begin with # do not count. ConfigError: none, or
// one of fewer than 8 characters.
std::vector<std::string> read_keys(const fs::path& path);

}  // namespace stoa::serve
