// The engine of a model that writes text: shared by the names under which the server offers it, the
// model's own and those of its adapters.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "infer/engine/engine_loop.h"
#include "infer/engine/rank_team.h"
#include "infer/open_model.h"
#include "serve/admission.h"
#include "tensor/dtype.h"

namespace stoa::serve {

// An adapter of a model, served under a name of its own.
struct NamedAdapter {
  std::string name;
  std::filesystem::path path;
};

struct ModelOptions {
  std::string name;                  // in requests
  std::vector<std::string> aliases;  // other names for the same: the path as it was given
  std::filesystem::path path;
  std::optional<std::filesystem::path> adapter;  // of an engine of its own
  std::vector<NamedAdapter> adapters;            // served by one engine with the model
  std::optional<DType> dtype;
  infer::QuantisedWeights weights = infer::QuantisedWeights::kDecoded;
  std::string weights_given;                   // the option that chose it, if one did
  std::optional<std::int64_t> max_context;     // tokens
  std::optional<double> cache_gigabytes;       // of keys and values
  std::optional<DType> cache;                  // their type; none: chosen by the model
  bool prompt_lookup = false;                  // guesses of tokens from the text itself, or
  std::optional<std::filesystem::path> draft;  // of a smaller model
  infer::RankTeam* team = nullptr;             // ranks that share the model; it outlives the engine
  bool use_generation_config = true;
  double queue_seconds = 600;  // a request that would wait longer is refused
  std::int64_t queue_requests = 4096;
  bool only = false;  // the server offers no other: options without effect are errors
};

class ServedEngine {
 public:
  // Reads the weights of `model`, which it outlives, and those of `adapters`, which requests choose by
  // number. Errors are those of infer::load_paged_decoder and infer::load_draft_model.
  ServedEngine(infer::OpenModel& model, const std::vector<infer::AdapterFiles>& adapters,
               const ModelOptions& options, const infer::MakeMachine& make_machine);

  // Bytes of memory that it would take, its draft model's among them.
  static std::size_t measure(infer::OpenModel& model, const std::vector<infer::AdapterFiles>& adapters,
                             const ModelOptions& options, const infer::MakeMachine& make_machine);

  // A request that ends has called the listener for every choice. DataError, ConfigError: those of
  // infer::Engine::check.
  infer::RequestId submit(infer::Request request, infer::Listener listener);
  void cancel(infer::RequestId request) { loop_->cancel(request); }
  infer::EngineCounters counters() const { return loop_->counters(); }
  const infer::PassLimits& limits() const { return passes_->limits(); }
  infer::PoolMemory pool() const { return passes_->pool(); }  // on each rank
  std::int64_t context(int adapter) const { return engine_->context(adapter); }
  std::int64_t room(std::int64_t prompt, int adapter) const { return engine_->room(prompt, adapter); }
  Admission& admission() { return admission_; }
  // What is open fails, and nothing is taken any more.
  void stop();
  bool stopped() const { return stopped_; }

 private:
  std::unique_ptr<infer::PassModel> passes_;
  std::unique_ptr<infer::Engine> engine_;
  Admission admission_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::set<infer::RequestId> requests_;      // that are open
  std::unique_ptr<infer::EngineLoop> loop_;  // last: what it answers uses the others
};

}  // namespace stoa::serve
