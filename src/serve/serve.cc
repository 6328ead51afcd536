#include "serve/serve.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "ckpt/find_checkpoint.h"

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

std::string url_of(const http::ServerOptions& options, std::uint16_t port) {
  const char* scheme = options.certificate.empty() ? "http" : "https";
  return options.host.find(':') == std::string::npos
             ? fmt::format("{}://{}:{}", scheme, options.host, port)
             : fmt::format("{}://[{}]:{}", scheme, options.host, port);
}

// Before the server ends, however it ends: what waits for a model is resumed on the server's threads.
struct StopsModels {
  ModelSet& models;
  ~StopsModels() { models.stop(); }
};

void wait_for(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, stop, [] { return false; });
}

// Replaces the model of a run whenever the run has a newer checkpoint.
class RunFollower {
 public:
  // `root`: of the checkpoint that is served now.
  RunFollower(ModelSet& models, ModelOptions options, infer::MakeMachine make_machine, fs::path root,
              Console& console)
      : models_(models),
        options_(std::move(options)),
        make_machine_(std::move(make_machine)),
        root_(std::move(root)),
        console_(console),
        thread_([this](const std::stop_token& stop) { follow(stop); }) {}

 private:
  void follow(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      changed.wait_for(lock, stop, std::chrono::milliseconds(500), [] { return false; });
      try {
        // Whole: a checkpoint appears under its name when all of it is written.
        const fs::path root = ckpt::find_checkpoint(options_.path, ckpt::Verify::kSizes).root;
        if (root == std::exchange(root_, root)) continue;
        const std::shared_ptr<Metrics> metrics[] = {models_.find(options_.name).first.names.front().metrics};
        models_.replace(ServedModel::load(options_, make_machine_, metrics));
        console_.line(fmt::format("{}: {} is served now", options_.name, root.filename().string()));
      } catch (const std::exception& error) {
        if (std::exchange(problem_, error.what()) != error.what())
          console_.warn(
              fmt::format("{}: the older checkpoint is still served: {}", options_.name, error.what()));
      }
    }
  }

  ModelSet& models_;
  const ModelOptions options_;
  const infer::MakeMachine make_machine_;
  fs::path root_;
  Console& console_;
  std::string problem_;
  std::jthread thread_;  // last: it uses the others
};

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
  ModelSet models(options.set, make_machine, console);
  App app(models, options.app);
  // Bound before the models are read: an address that is taken is reported at once.
  http::Server server(
      options.http,
      [&app](const http::Request& request, const std::shared_ptr<http::Answer>& answer) {
        app.handle(request, answer);
      },
      [&log](const http::Served& served) { log.write(served); });
  const StopsModels at_the_end{models};
  for (const ModelOptions& model : options.models) models.offer(model, false);
  fs::path followed;  // the checkpoint that is read below, or an older one
  if (options.follow) {
    followed = ckpt::find_checkpoint(options.follow->path, ckpt::Verify::kSizes).root;
    models.offer(*options.follow, true);
  }
  models.load_all(options.load_on_demand);
  models.start([&server](std::function<void()> work) { server.post(std::move(work)); });
  server.start();
  std::optional<RunFollower> follower;
  if (options.follow) follower.emplace(models, *options.follow, make_machine, followed, console);
  listening(url_of(options.http, server.port()));
  wait_for(stop);
  follower.reset();
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
