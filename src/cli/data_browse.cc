// `stoa data browse`: the output of a run in a browser.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "cli/data_commands.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "curate/run/browse.h"
#include "serve/http/server.h"

namespace stoa::cli {
namespace {

struct BrowseArguments {
  std::string output;
  serve::http::ServerOptions server;
};

// The name in a Host header, without the port: another one is a page elsewhere that was given this address.
bool is_own_name(std::string_view host, const std::string& own) {
  if (host.starts_with('['))
    host = host.substr(0, host.find(']') + 1);
  else
    host = host.substr(0, host.find(':'));
  const std::string_view names[] = {"localhost", "127.0.0.1", "[::1]", own};
  return std::find(std::begin(names), std::end(names), host) != std::end(names);
}

void browse(const BrowseArguments& a, Context& context) {
  const curate::RunBrowser browser(a.output);
  serve::http::Server server(
      a.server, [&](const serve::http::Request& request, std::shared_ptr<serve::http::Answer> answer) {
        if (request.method != "GET") return answer->send({405, "text/plain", "only GET is answered\n"});
        if (!is_own_name(request.header("host"), a.server.host))
          return answer->send({403, "text/plain", "not a name of this server\n"});
        curate::BrowsedPage page = browser.page(request.path);
        answer->send({page.status, std::move(page.content_type), std::move(page.body)});
      });
  server.start();
  print(fmt::format("listening on http://{}:{}\n", a.server.host, server.port()));
  context.interrupt.set({.grace = std::chrono::seconds(2), .words = "", .last_words = {}});
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  const std::stop_token stop = context.interrupt.token();
  stopped.wait(lock, stop, [] { return false; });
  server.stop();
}

}  // namespace

void add_data_browse(CLI::App& data, Context& context) {
  auto a = std::make_shared<BrowseArguments>();
  CLI::App* c = data.add_subcommand(
      "browse", "Show the output of a run in a browser: its report, documents by words, near-duplicates");
  c->footer("Example: stoa data browse clean --port 8080");
  c->add_option("OUTPUT", a->output, "the --output of `stoa data run`, complete")->required();
  c->add_option("--host", a->server.host, "address to listen on")->capture_default_str();
  c->add_option("--port", a->server.port, "0: a free port")->capture_default_str()->check(between(0, 65535));
  c->callback([a, &context] { browse(*a, context); });
}

}  // namespace stoa::cli
