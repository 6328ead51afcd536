#include "serve/served_engine.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "infer/engine/draft_model.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/prompt_lookup.h"

namespace stoa::serve {
namespace {

// What `body` makes of the use that the options ask for.
template <class Body>
auto with_use(const ModelOptions& options, Body body) {
  infer::EngineUse use;
  use.pairs = true;
  use.context = options.max_context;
  use.cache = options.cache;
  if (options.cache_gigabytes) use.cache_bytes = *options.cache_gigabytes * 1e9;
  try {
    return body(use);
  } catch (const infer::PoolTooSmall& error) {
    fail<ConfigError>("--kv-memory-gb {:g}: {}", options.cache_gigabytes.value_or(0), error.what());
  }
}

}  // namespace

ServedEngine::ServedEngine(infer::OpenModel& model, const std::vector<infer::AdapterFiles>& adapters,
                           const ModelOptions& options, const infer::MakeMachine& make_machine)
    : passes_(with_use(options,
                       [&](const infer::EngineUse& use) {
                         return infer::load_passes(model, use, adapters, options.team);
                       })),
      admission_(options.queue_seconds, options.queue_requests) {
  std::unique_ptr<infer::Drafter> drafter;
  if (options.prompt_lookup) drafter = std::make_unique<infer::PromptLookup>();
  if (options.draft)
    drafter = infer::load_draft_model(*options.draft, options.dtype, make_machine, model.tokenizer(),
                                      passes_->limits(), options.weights);
  engine_ = std::make_unique<infer::Engine>(*passes_, std::move(drafter));
  loop_ = std::make_unique<infer::EngineLoop>(*engine_);
}

std::size_t ServedEngine::measure(infer::OpenModel& model, const std::vector<infer::AdapterFiles>& adapters,
                                  const ModelOptions& options, const infer::MakeMachine& make_machine) {
  const auto built = with_use(options, [&](const infer::EngineUse& use) {
    return options.team ? options.team->options_of(model, use, adapters)
                        : infer::paged_options(model, use, adapters);
  });
  std::size_t bytes =
      options.team ? options.team->measure(model, built) : model.measure<infer::PagedDecoder>(built);
  if (options.draft) {
    infer::OpenModel draft(*options.draft, options.dtype, make_machine, std::nullopt, options.weights);
    bytes += draft.measure<infer::PagedDecoder>(infer::paged_options(draft, infer::draft_use(built.limits)));
  }
  return bytes;
}

infer::RequestId ServedEngine::submit(infer::Request request, infer::Listener listener) {
  const auto open = std::make_shared<int>(request.choices);
  // Held until the id is known: the engine may end the request before.
  const std::lock_guard lock(mutex_);
  const infer::RequestId id = loop_->submit(
      std::move(request), [this, open, listener = std::move(listener)](const infer::Event& event) {
        const bool on = listener(event);
        if (event.kind == infer::Event::Kind::kEnd && --*open == 0) {
          const std::lock_guard ended(mutex_);
          requests_.erase(event.request);
        }
        return on;
      });
  requests_.insert(id);
  return id;
}

void ServedEngine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (const infer::RequestId request : requests_) loop_->cancel(request);
  }
  loop_->wait_idle(std::chrono::seconds(5));
}

}  // namespace stoa::serve
