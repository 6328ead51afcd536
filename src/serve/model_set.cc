#include "serve/model_set.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <exception>
#include <utility>

#include "base/nearest.h"
#include "ckpt/find_checkpoint.h"
#include "infer/cache_type.h"

namespace stoa::serve {

// What was loaded for one MODEL: it and its adapters.
struct ModelSet::Group {
  std::int64_t in_use = 0;
  double last_used = 0;
  std::vector<Model> models;
};

struct ModelSet::Lease {
  Lease(const ModelSet& of, Group& from, bool use) : set(of), group(from), used(use) {}
  ~Lease() { set.release(group, used); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const ModelSet& set;
  Group& group;  // is not destroyed while it is in use
  const bool used;
};

struct ModelSet::Entry {
  ModelOptions options;
  bool stays = false;
  std::vector<OfferedName> names;
  std::shared_ptr<Group> group;  // null: not loaded
  bool loading = false, leaving = false;
  std::string problem;
  std::vector<Waiting> waiting;
  double waiting_since = 0, loading_since = 0, load_seconds = 0, bytes = 0;
  std::int64_t loads = 0, unloads = 0, failures = 0;
};

namespace {

bool is_bounded(const LoadRules& rules) { return std::isfinite(rules.memory); }

bool answers_to(const ModelOptions& options, const std::string& name, std::string_view asked) {
  return asked == name || (name == options.name && std::find(options.aliases.begin(), options.aliases.end(),
                                                             asked) != options.aliases.end());
}

std::string too_large(const std::string& name, double bytes, const LoadRules& rules) {
  return fmt::format("the model '{}' needs {}, and --model-memory-gb is {:g}", name, format_bytes(bytes),
                     rules.memory / 1e9);
}

std::string describe_loaded(const ServedModel& model) {
  return fmt::format("{}: {} tokens of context{}{}", model.name(), model.context(),
                     model.kind() == model::ModelKind::kBert ? ", embeddings"
                     : model.reads_sources()                 ? ", an encoder-decoder"
                     : model.has_template()                  ? ", chat"
                                                             : ", no chat template",
                     model.base() ? ", an adapter of " + model.base()->name() : "");
}

// The memory for keys and values, and how many texts of the longest and of a usual length it holds at once.
std::string describe_pool(const ServedModel& model) {
  constexpr std::int64_t kUsual = 2048;
  const infer::PassLimits& limits = model.limits();
  const infer::PoolMemory pool = model.pool();
  const infer::RankTeam* const team = model.options().team;
  const auto texts = [&](std::int64_t tokens) { return limits.texts_at_once(tokens + limits.virtual_of(0)); };
  const std::int64_t whole = model.context();
  std::string out = fmt::format(
      "{}: {} of keys and values in {}{}: {} tokens; at once {} {} of {} tokens", model.name(),
      format_bytes(static_cast<double>(pool.bytes)), infer::cache_type_name(pool.type),
      !team ? ""
      : limits.reads_sources() && team->shape().pipeline > 1
          ? fmt::format(" on the fullest of {} ranks", team->shape().ranks())
          : fmt::format(" on each of {} ranks", team->shape().ranks()),
      limits.blocks * limits.block_tokens, texts(whole), texts(whole) == 1 ? "text" : "texts", whole);
  if (whole > kUsual && limits.sequences > 1) out += fmt::format(", {} of {}", texts(kUsual), kUsual);
  if (limits.reads_sources()) out += ", each with a source of as many";
  if (limits.longest() < limits.context)
    out += fmt::format("; the model would read texts of {} tokens", limits.context - limits.virtual_of(0));
  return out;
}

}  // namespace

const char* name_of(LoadState state) {
  switch (state) {
    case LoadState::kUnloaded:
      return "unloaded";
    case LoadState::kLoading:
      return "loading";
    case LoadState::kLoaded:
      return "loaded";
    case LoadState::kFailed:
      return "failed";
  }
  return "?";
}

ModelSet::ModelSet(const ModelSetOptions& options, infer::MakeMachine make_machine, Console& console)
    : options_(options), make_machine_(std::move(make_machine)), console_(console) {}

ModelSet::~ModelSet() {
  stop();
  manager_ = {};  // ends, after what it is loading
  // What stop() ended lets go of its model.
  std::unique_lock lock(mutex_);
  const auto unused = [](const std::shared_ptr<Group>& group) { return !group || group->in_use == 0; };
  changed_.wait_for(lock, std::chrono::minutes(1), [&] {
    return std::all_of(retired_.begin(), retired_.end(), unused) &&
           std::all_of(entries_.begin(), entries_.end(),
                       [&](const auto& entry) { return unused(entry->group); });
  });
}

void ModelSet::offer(const ModelOptions& options, bool stays) {
  auto entry = std::make_unique<Entry>();
  entry->options = options;
  entry->stays = stays;
  const auto add = [&](const std::string& name, const std::string& parent, const fs::path& root) {
    for (const auto& other : entries_)
      for (const OfferedName& taken : other->names)
        require<ConfigError>(!answers_to(other->options, taken.name, name),
                             "two models are named '{}': NAME=MODEL names them apart", name);
    for (const OfferedName& taken : entry->names)
      require<ConfigError>(taken.name != name, "two models are named '{}': NAME=MODEL names them apart",
                           name);
    entry->names.push_back({.name = name,
                            .parent = parent,
                            .root = root,
                            .created = std::time(nullptr),
                            .metrics = std::make_shared<Metrics>()});
  };
  add(options.name, "", options.adapter.value_or(options.path));
  for (const NamedAdapter& adapter : options.adapters) add(adapter.name, options.name, adapter.path);
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
}

std::vector<std::shared_ptr<Metrics>> ModelSet::metrics_of(const Entry& entry) const {
  std::vector<std::shared_ptr<Metrics>> out;
  for (const OfferedName& name : entry.names) out.push_back(name.metrics);
  return out;
}

void ModelSet::load_all(bool on_demand) {
  double used = 0;
  const auto load = [&](Entry& entry) {
    const ModelOptions& options = entry.options;
    if (is_bounded(options_.rules)) {
      entry.bytes = static_cast<double>(ServedModel::measure(options, make_machine_));
      const double room = options_.rules.memory - (entry.stays ? used : 0);
      require<ConfigError>(entry.bytes <= room, "{}{}", too_large(options.name, entry.bytes, options_.rules),
                           entry.stays && used > 0 ? ", most of it for models that stay" : "");
      if (used + entry.bytes > options_.rules.memory) return;
      used += entry.bytes;
    }
    const double begin = now();
    adopt(entry, ServedModel::load(options, make_machine_, metrics_of(entry)));
    entry.load_seconds = now() - begin;
  };
  for (const auto& entry : entries_)
    if (entry->stays) load(*entry);
  for (const auto& entry : entries_) {
    if (!entry->stays && !on_demand) load(*entry);
    if (entry->group) continue;
    const auto found = ckpt::find_checkpoint(entry->options.path, ckpt::Verify::kSizes);
    for (const NamedAdapter& adapter : entry->options.adapters) ckpt::find_adapter(adapter.path, found.model);
    console_.line(fmt::format("{}: loaded when a request asks for it", entry->options.name));
  }
}

void ModelSet::adopt(Entry& entry, std::vector<Model> models) {
  for (const Model& model : models) {
    console_.line(describe_loaded(*model));
    if (model->generates() && model->base() == nullptr) console_.line(describe_pool(*model));
    for (const std::string& note : model->notes()) console_.line(fmt::format("{}: {}", model->name(), note));
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < models.size(); ++i) {
    entry.names[i].context = models[i]->context();
    entry.names[i].chat = models[i]->has_template();
  }
  if (entry.group) retired_.push_back(std::move(entry.group));
  moved_ = true;
  entry.group = std::make_shared<Group>();
  entry.group->models = std::move(models);
  entry.group->last_used = now();
  entry.problem.clear();
  ++entry.loads;
}

void ModelSet::start(std::function<void(std::function<void()>)> post) {
  post_ = std::move(post);
  manager_ = std::jthread([this](const std::stop_token& stop) { manage(stop); });
}

void ModelSet::replace(std::vector<Model> models) {
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    entry = find_locked(models.front()->name()).entry;
  }
  adopt(*entry, std::move(models));
  changed_.notify_all();
}

ModelSet::Place ModelSet::find_locked(std::string_view name) const {
  if (name.empty()) return {entries_.front().get(), 0};
  std::vector<std::string> names;
  for (const auto& entry : entries_)
    for (std::size_t i = 0; i < entry->names.size(); ++i) {
      if (answers_to(entry->options, entry->names[i].name, name)) return {entry.get(), i};
      names.push_back(entry->names[i].name);
    }
  const std::string given(name.substr(0, 200));
  throw ApiError(
      404, fmt::format("no model '{}' here{}; /v1/models lists them", given, did_you_mean(given, names)),
      "model", "model_not_found");
}

ModelSet::Model ModelSet::lease_locked(Group& group, std::size_t index, bool used) const {
  ++group.in_use;
  if (used) group.last_used = now();
  return {std::make_shared<Lease>(*this, group, used), group.models[index].get()};
}

void ModelSet::release(Group& group, bool used) const {
  {
    const std::lock_guard lock(mutex_);
    --group.in_use;
    if (used) group.last_used = now();
    moved_ = true;
  }
  changed_.notify_all();
}

ModelSet::Model ModelSet::ready_locked(const Place& place) const {
  if (stopped_) throw ApiError(503, "the server is shutting down");
  const Entry& entry = *place.entry;
  return entry.group && !entry.leaving ? lease_locked(*entry.group, place.index, true) : nullptr;
}

void ModelSet::with(std::string_view name, http::Answer& answer, Use use, Refuse refuse) {
  const auto ready = [&] {
    const std::lock_guard lock(mutex_);
    return ready_locked(find_locked(name));
  };
  if (const Model model = ready()) return use(model);
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_waiting_++;
  }
  // Before it waits: once it is called, the answer tells another that the client has left.
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  answer.on_gone([this, id, gone] {
    *gone = true;
    forget(id);
  });
  Model model;
  {
    const std::lock_guard lock(mutex_);
    const Place place = find_locked(name);
    model = ready_locked(place);
    if (!model) {
      Entry& entry = *place.entry;
      check_queue_locked(entry);
      if (entry.waiting.empty()) entry.waiting_since = now();
      entry.waiting.push_back({id, place.index, std::move(use), std::move(refuse)});
      moved_ = true;
    }
  }
  if (model) return use(model);
  if (*gone) forget(id);
  changed_.notify_all();
}

void ModelSet::forget(std::uint64_t id) {
  std::vector<Waiting> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_)
    std::erase_if(entry->waiting, [&](Waiting& waiting) {
      if (waiting.id != id) return false;
      dropped.push_back(std::move(waiting));
      return true;
    });
}

double ModelSet::expected_wait_locked(const Entry& entry) const {
  // What was never loaded takes as long again as it has taken so far.
  const auto left = [&](const Entry& other) {
    const double taken = now() - other.loading_since;
    return other.load_seconds > 0 ? std::max(0.0, other.load_seconds - taken) : taken;
  };
  if (entry.loading) return left(entry);
  double out = entry.load_seconds;
  bool loading = false;
  for (const auto& other : entries_) {
    loading |= other->loading;
    if (other->loading)
      out += left(*other);
    else if (other.get() != &entry && !other->group && !other->waiting.empty() &&
             (entry.waiting.empty() || other->waiting_since < entry.waiting_since))
      out += other->load_seconds;
  }
  // Others are still answering, for who knows how long.
  if (!loading && !entry.waiting.empty()) out += now() - entry.waiting_since;
  return out;
}

void ModelSet::check_queue_locked(const Entry& entry) const {
  if (entry.waiting.empty()) return;
  const double wait = expected_wait_locked(entry);
  const bool full = std::ssize(entry.waiting) >= options_.queue_requests;
  if (wait <= options_.queue_seconds && !full) return;
  entry.names.front().metrics->rejected();
  ApiError error(429,
                 fmt::format("the model '{}' is not loaded yet: {} requests wait for it, for about {:.0f} s",
                             entry.options.name, entry.waiting.size(), std::ceil(wait)),
                 {}, "overloaded");
  const double over = full ? wait : wait - options_.queue_seconds;
  error.headers = {{"Retry-After", fmt::format("{:.0f}", std::ceil(std::max(1.0, over)))}};
  throw error;
}

ModelSet::Offered ModelSet::describe_locked(const Entry& entry) const {
  Offered out{.names = entry.names,
              .models = {},
              .state = entry.group              ? LoadState::kLoaded
                       : entry.loading          ? LoadState::kLoading
                       : !entry.problem.empty() ? LoadState::kFailed
                                                : LoadState::kUnloaded,
              .problem = entry.problem,
              .waiting = std::ssize(entry.waiting),
              .loads = entry.loads,
              .unloads = entry.unloads,
              .failures = entry.failures,
              .bytes = entry.bytes,
              .load_seconds = entry.load_seconds,
              .options = entry.options};
  if (entry.group)
    for (std::size_t i = 0; i < entry.names.size(); ++i)
      out.models.push_back(lease_locked(*entry.group, i, false));
  return out;
}

std::vector<ModelSet::Offered> ModelSet::all() const {
  std::vector<Offered> out;
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) out.push_back(describe_locked(*entry));
  return out;
}

std::pair<ModelSet::Offered, std::size_t> ModelSet::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const Place place = find_locked(name);
  return {describe_locked(*place.entry), place.index};
}

void ModelSet::stop() {
  std::vector<Waiting> refused;
  std::vector<std::shared_ptr<Group>> open;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    open = retired_;
    for (const auto& entry : entries_) {
      if (entry->group) open.push_back(entry->group);
      std::move(entry->waiting.begin(), entry->waiting.end(), std::back_inserter(refused));
      entry->waiting.clear();
    }
  }
  for (const Waiting& waiting : refused) waiting.refuse(ApiError(503, "the server is shutting down"));
  for (const auto& group : open)
    for (const Model& model : group->models) model->stop();
}

std::vector<OfferedState> ModelSet::states_locked() const {
  std::vector<OfferedState> out;
  for (const auto& entry : entries_) {
    OfferedState state{.loaded = entry->group != nullptr,
                       .stays = entry->stays,
                       .bytes = entry->bytes,
                       .waiting = std::ssize(entry->waiting),
                       .waiting_since = entry->waiting_since};
    if (entry->group) {
      state.in_use = entry->group->in_use;
      state.last_used = entry->group->last_used;
    }
    out.push_back(state);
  }
  return out;
}

void ModelSet::hand_out_locked(Entry& entry) {
  for (Waiting& waiting : std::exchange(entry.waiting, {}))
    post_([use = std::move(waiting.use), model = lease_locked(*entry.group, waiting.index, true)] {
      use(model);
    });
}

void ModelSet::manage(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    moved_ = false;
    std::vector<std::shared_ptr<Group>> leaving;  // destroyed without the lock
    std::erase_if(retired_, [&](std::shared_ptr<Group>& group) {
      if (group->in_use > 0) return false;
      leaving.push_back(std::move(group));
      return true;
    });
    const auto unknown = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
      return is_bounded(options_.rules) && !entry->group && !entry->waiting.empty() && entry->bytes == 0;
    });
    LoadDecision decision;
    if (unknown == entries_.end()) decision = decide_loads(states_locked(), options_.rules, now());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = *entries_[i];
      const auto among = [&](const std::vector<std::size_t>& list) {
        return std::find(list.begin(), list.end(), i) != list.end();
      };
      if (unknown == entries_.end()) entry.leaving = among(decision.leaving);
      if (among(decision.unload)) {
        leaving.push_back(std::exchange(entry.group, nullptr));
        ++entry.unloads;
        console_.line(fmt::format("{}: unloaded", entry.options.name));
      }
      if (entry.group && !entry.leaving && !stopped_) hand_out_locked(entry);
    }
    Entry* next = decision.load ? entries_[*decision.load].get() : nullptr;
    if (next != nullptr) next->loading = true, next->loading_since = now();
    lock.unlock();
    const bool acted =
        !leaving.empty() || next != nullptr || unknown != entries_.end() || !decision.too_large.empty();
    leaving.clear();
    for (const std::size_t i : decision.too_large)
      fail_waiting(*entries_[i], too_large(entries_[i]->options.name, entries_[i]->bytes, options_.rules));
    if (unknown != entries_.end())
      measure(**unknown);
    else if (next != nullptr)
      load(*next);
    lock.lock();
    if (acted) continue;
    const auto moved = [&] { return moved_; };
    if (std::isfinite(decision.again))
      changed_.wait_for(lock, stop, std::chrono::duration<double>(decision.again - now()), moved);
    else
      changed_.wait(lock, stop, moved);
  }
}

void ModelSet::measure(Entry& entry) {
  try {
    const auto bytes = static_cast<double>(ServedModel::measure(entry.options, make_machine_));
    const std::lock_guard lock(mutex_);
    entry.bytes = bytes;
  } catch (const std::exception& error) {
    fail_waiting(entry, fmt::format("the model '{}' cannot be loaded: {}", entry.options.name, error.what()));
  }
}

void ModelSet::load(Entry& entry) {
  std::string problem;
  try {
    adopt(entry, ServedModel::load(entry.options, make_machine_, metrics_of(entry)));
  } catch (const std::exception& error) {
    problem = fmt::format("the model '{}' cannot be loaded: {}", entry.options.name, error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    entry.loading = false;
    if (problem.empty()) {
      entry.load_seconds = now() - entry.loading_since;
      console_.line(fmt::format("{}: loaded in {:.2f} s", entry.options.name, entry.load_seconds));
      // At once: a model that nobody uses yet would have to make room for the next.
      if (!stopped_) hand_out_locked(entry);
    }
  }
  if (!problem.empty()) fail_waiting(entry, problem);
}

void ModelSet::fail_waiting(Entry& entry, const std::string& problem) {
  std::vector<Waiting> refused;
  {
    const std::lock_guard lock(mutex_);
    refused = std::exchange(entry.waiting, {});
    entry.problem = problem;
    ++entry.failures;
  }
  console_.warn(problem);
  for (const Waiting& waiting : refused) waiting.refuse(ApiError(503, problem, "model", "model_load_failed"));
}

}  // namespace stoa::serve
