#include "serve/serve.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <sstream>

#include "base/file.h"

namespace stoa::serve {
namespace {

// A JSON object per request.
class AccessLog {
 public:
  explicit AccessLog(const std::optional<std::string>& path) {
    if (!path) return;
    file_ = *path == "-" ? stderr : std::fopen(path->c_str(), "a");
    require<IoError>(file_ != nullptr, "--access-log: cannot write '{}': {}", *path, std::strerror(errno));
  }
  ~AccessLog() {
    if (file_ != nullptr && file_ != stderr) std::fclose(file_);
  }
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void write(const http::Served& served) {
    if (file_ == nullptr) return;
    char time[32];
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
    const std::string line = json_text({{"time", time},
                                        {"request_id", served.request.id},
                                        {"client", served.request.client},
                                        {"method", served.request.method},
                                        {"path", served.request.path},
                                        {"status", served.status},
                                        {"bytes", served.bytes},
                                        {"seconds", served.seconds}}) +
                             "\n";
    const std::lock_guard lock(mutex_);
    std::fwrite(line.data(), 1, line.size(), file_);
    std::fflush(file_);
  }

 private:
  std::FILE* file_ = nullptr;
  std::mutex mutex_;
};

std::string url_of(const std::string& host, std::uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("http://{}:{}", host, port)
                                             : fmt::format("http://[{}]:{}", host, port);
}

void wait_for(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, stop, [] { return false; });
}

}  // namespace

std::vector<std::string> read_keys(const fs::path& path) {
  std::istringstream in(read_text(path));
  std::vector<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    require<ConfigError>(line.size() >= 8, "{}: a key has fewer than 8 characters", path.string());
    keys.push_back(line);
  }
  require<ConfigError>(!keys.empty(), "{}: no key in it", path.string());
  return keys;
}

void serve(const ServeOptions& options, const infer::MakeMachine& make_machine, const std::stop_token& stop,
           Console& console, const std::function<void(const std::string&)>& listening) {
  AccessLog log(options.access_log);
  ModelSet models;
  App app(models, options.app);
  // Bound before the models are read: an address that is taken is reported at once.
  http::Server server(
      options.http,
      [&app](const http::Request& request, const std::shared_ptr<http::Answer>& answer) {
        app.handle(request, answer);
      },
      [&log](const http::Served& served) { log.write(served); });
  for (const ModelOptions& model : options.models) {
    models.add(std::make_shared<ServedModel>(model, make_machine, std::make_shared<Metrics>()));
    const ServedModel& added = *models.all().back();
    console.line(fmt::format("{}: {} tokens of context{}", added.name(), added.context(),
                             added.kind() == model::ModelKind::kBert ? ", embeddings"
                             : added.has_template()                  ? ", chat"
                                                                     : ", no chat template"));
  }
  server.start();
  listening(url_of(options.http.host, server.port()));
  wait_for(stop);
  app.drain();
  server.drain();
  if (!server.wait_idle(std::chrono::duration<double>(options.drain_seconds))) {
    models.stop();  // what is left ends with an error
    server.wait_idle(std::chrono::seconds(2));
  }
  server.stop();
  models.stop();
}

}  // namespace stoa::serve
