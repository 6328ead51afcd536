// The models that a server offers, by name. Those that are loaded on demand are read when a request asks for
// one, which waits so long, and leave when nobody uses them (load_policy.h says when). A model may be
// replaced while it answers: requests keep the one they began with.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/console.h"
#include "base/timing.h"
#include "serve/load_policy.h"
#include "serve/served_model.h"

namespace stoa::serve {

struct ModelSetOptions {
  LoadRules rules;
  double queue_seconds = 600;  // a request that would wait longer for a model is refused
  std::int64_t queue_requests = 4096;
};

// A name under which something is offered, and what is known of it without reading it again.
struct OfferedName {
  std::string name, parent;  // parent: of an adapter its model
  std::filesystem::path root;
  std::int64_t created = 0;  // seconds since 1970
  // Once it was loaded for the first time.
  std::optional<std::int64_t> context = {};
  std::optional<bool> chat = {};
  std::shared_ptr<Metrics> metrics = {};
};

enum class LoadState : std::uint8_t { kUnloaded, kLoading, kLoaded, kFailed };
const char* name_of(LoadState state);

class ModelSet {
 public:
  // In use as long as it is held.
  using Model = std::shared_ptr<ServedModel>;
  using Use = std::function<void(const Model&)>;
  using Refuse = std::function<void(const ApiError&)>;

  ModelSet(const ModelSetOptions& options, infer::MakeMachine make_machine, Console& console);
  ~ModelSet();
  ModelSet(const ModelSet&) = delete;
  ModelSet& operator=(const ModelSet&) = delete;

  // `stays`: it is never unloaded. ConfigError: a name that is taken.
  void offer(const ModelOptions& options, bool stays);
  // Loads those that stay and, unless `on_demand`, the others in their order as far as the memory allows.
  // Files of models that are not loaded must be there. Errors are those of ServedModel::load; ConfigError: a
  // model that does not fit by itself.
  void load_all(bool on_demand);
  // From now on models are loaded and unloaded. `post` runs work on another thread, until stop().
  void start(std::function<void(std::function<void()>)> post);
  // In place of the one of the same name.
  void replace(std::vector<Model> models);

  // Calls `use` with the model of that name ("": the first) if it is loaded, else later, on another thread,
  // once it is; or `refuse`, where it cannot be loaded. What has not been called when `answer` loses its
  // client is dropped. ApiError: 404, code model_not_found; 429 with Retry-After: it would wait too long;
  // 503: the server stops.
  void with(std::string_view name, http::Answer& answer, Use use, Refuse refuse);

  // All that is known of what was offered as one MODEL. all() and find() do not count as use of a model.
  struct Offered {
    std::vector<OfferedName> names;  // the model, its adapters
    std::vector<Model> models;       // likewise; none: not loaded
    LoadState state = LoadState::kUnloaded;
    std::string problem = {};  // why it could not be loaded
    std::int64_t waiting = 0, loads = 0, unloads = 0, failures = 0;
    double bytes = 0, load_seconds = 0;  // 0: not known yet
    ModelOptions options;
  };
  std::vector<Offered> all() const;
  // ApiError 404.
  std::pair<Offered, std::size_t> find(std::string_view name) const;  // and which of its names
  // Open requests fail, and nothing is taken any more.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Group;
  struct Lease;
  struct Waiting {
    std::uint64_t id;
    std::size_t index;  // of the name
    Use use;
    Refuse refuse;
  };
  struct Entry;
  struct Place {
    Entry* entry;
    std::size_t index;  // of the name
  };

  Place find_locked(std::string_view name) const;
  // The model, if requests may use it now.
  Model ready_locked(const Place& place) const;
  Model lease_locked(Group& group, std::size_t index, bool used) const;
  void release(Group& group, bool used) const;
  void forget(std::uint64_t id);
  double now() const { return seconds_since(begin_); }
  // ApiError 429.
  void check_queue_locked(const Entry& entry) const;
  double expected_wait_locked(const Entry& entry) const;
  Offered describe_locked(const Entry& entry) const;

  void manage(const std::stop_token& stop);
  std::vector<OfferedState> states_locked() const;
  void hand_out_locked(Entry& entry);
  // Reads the model; its waiting requests are refused if that fails.
  void load(Entry& entry);
  void measure(Entry& entry);
  void fail_waiting(Entry& entry, const std::string& problem);
  void adopt(Entry& entry, std::vector<Model> models);
  std::vector<std::shared_ptr<Metrics>> metrics_of(const Entry& entry) const;

  const ModelSetOptions options_;
  const infer::MakeMachine make_machine_;
  Console& console_;
  const Clock::time_point begin_ = Clock::now();
  std::function<void(std::function<void()>)> post_;
  mutable std::mutex mutex_;  // never held while a model is called: its threads release models
  mutable std::condition_variable_any changed_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::shared_ptr<Group>> retired_;  // replaced, perhaps in use
  std::uint64_t next_waiting_ = 1;
  bool stopped_ = false;
  mutable bool moved_ = false;  // something happened since the last decision
  std::jthread manager_;        // last: it uses the others
};

}  // namespace stoa::serve
