#include "infer/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "infer/engine/virtual_tokens.h"
#include "infer/log_probabilities.h"

namespace stoa::infer {
namespace {

constexpr int kMostChoices = 1024, kMostTop = 1024;
// With up to about this many tokens a pass takes as long as with one: the weights are read once (on
// processors with 20 GB/s and 1 TFLOP/s, 45).
constexpr std::int64_t kFreeTokens = 32;

// Log-probabilities of the vocabulary's tokens; `keep`: of how many of the most likely.
ScoredToken score_token(std::span<const float> logits, std::int32_t id, int keep) {
  const LogProbabilities probabilities(logits);
  const auto score = [&](std::int32_t token) { return TokenScore{token, probabilities.of(token)}; };
  ScoredToken out{score(id), {}};
  if (keep == 0) return out;
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto count = std::min<std::ptrdiff_t>(keep, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  // Those that cannot come, which are the last, are left out.
  for (std::ptrdiff_t i = 0; i < count; ++i)
    if (const auto at = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
        std::isfinite(logits[at]))
      out.top.push_back(score(order[static_cast<std::size_t>(i)]));
  return out;
}

// Waits for masks whatever a pass throws: the worker uses texts of the requests.
struct MaskWaiter {
  MaskWorker& worker;
  ~MaskWaiter() { worker.wait(); }
};

}  // namespace

struct Engine::Choice {
  State* state = nullptr;
  int index = 0;
  SequenceId sequence = 0;
  TokenSampler sampler;
  std::optional<constraint::ConstrainedText> text = {};  // of a request with a constraint
  std::int64_t drawn = 0;
  bool open = true;
  DraftLength draft_length = {};
  std::int64_t guessed = 0, came_true = 0;  // of the pass
};

struct Engine::State {
  RequestId id = 0;
  Request request;
  Listener listener;
  std::vector<std::unique_ptr<Choice>> choices;  // the others are opened when the prompt was read
  std::vector<ScoredToken> prompt_scores;
  std::int64_t cached = 0;
  int open = 0;  // choices that have not ended
  bool started = false, forked = false;
};

// The next token of a choice.
struct Engine::Draw {
  std::shared_ptr<State> state;
  Choice* choice = nullptr;
  std::span<const float> logits;
  ScoredToken token;  // id -1: the constraint leaves none
  bool finite = true;
  std::string error = {};  // of the constraint
  // Logits behind guesses: each row counts if the guess before it comes true.
  std::span<const float> more = {};
  std::optional<FoundToken> found = {};  // by the model, in place of logits
};

Engine::Engine(PassModel& model, std::unique_ptr<Drafter> drafter)
    : model_(model), scheduler_(model.limits()), drafter_(std::move(drafter)) {
  require<ConfigError>(
      !drafter_ || limits().takes_back,
      "guesses of tokens (--prompt-lookup, --draft): this model cannot take tokens back (linear "
      "attention, or a table that depends on the length of the text)");
  require<ConfigError>(
      !drafter_ || !limits().reads_sources(),
      "guesses of tokens (--prompt-lookup, --draft) are for models that continue a text, and "
      "this is an encoder-decoder");
}
Engine::~Engine() = default;

std::int64_t Engine::virtual_before(const Request& request) const {
  return limits().reads_sources() ? 0 : limits().virtual_of(request.adapter);
}

std::int64_t Engine::source_of(const Request& request) const {
  return limits().reads_sources() ? std::ssize(request.prompt) + limits().virtual_of(request.adapter) : 0;
}

std::int64_t Engine::context(int adapter) const {
  const PassLimits& l = limits();
  // One block is for the target.
  const std::int64_t longest =
      l.reads_sources() ? std::min(l.source_tokens, (l.blocks - 1) * l.block_tokens) : l.longest();
  return longest - l.virtual_of(adapter);
}

std::int64_t Engine::room(std::int64_t prompt, int adapter) const {
  const PassLimits& l = limits();
  if (prompt > context(adapter)) return 0;
  return l.reads_sources() ? l.longest(prompt + l.virtual_of(adapter)) : context(adapter) - prompt;
}

void Engine::check(const Request& r) const {
  const PassLimits& limits = model_.limits();
  const auto tokens = std::ssize(r.prompt);
  require<DataError>(tokens >= 1, "an empty prompt: give at least one token");
  require<ConfigError>(r.adapter >= 0 && r.adapter <= std::ssize(limits.adapters),
                       "adapter {} of {}: the model has no such adapter", r.adapter, limits.adapters.size());
  const std::int64_t virtual_tokens = limits.virtual_of(r.adapter);
  const bool source = limits.reads_sources();
  require<DataError>(tokens <= context(r.adapter),
                     "a prompt of {} tokens is too long: the {} {} tokens, the memory for keys and values "
                     "holds {}",
                     tokens, source ? "longest source that is read has" : "context is",
                     (source ? limits.source_tokens : limits.context) - virtual_tokens,
                     (limits.blocks - source) * limits.block_tokens - virtual_tokens);
  require<ConfigError>(!source || !r.prompt_logprobs,
                       "prompt_logprobs: an encoder-decoder gives the tokens of a source no probabilities");
  for (const std::int32_t id : r.prompt)
    require<DataError>(id >= 0 && id < limits.vocabulary,
                       "token {} of a prompt: the vocabulary has {} tokens", id, limits.vocabulary);
  require<ConfigError>(r.max_tokens >= 0, "max_tokens must be at least 0, got {}", r.max_tokens);
  require<ConfigError>(r.choices >= 1 && r.choices <= kMostChoices, "choices must be from 1 to {}, got {}",
                       kMostChoices, r.choices);
  for (const auto& [name, count] :
       {std::pair{"logprobs", r.logprobs}, std::pair{"prompt_logprobs", r.prompt_logprobs}})
    require<ConfigError>(!count || (*count >= 0 && *count <= kMostTop), "{} must be from 0 to {}, got {}",
                         name, kMostTop, count.value_or(0));
  validate(r.sampling);
}

RequestId Engine::submit(Request request, Listener listener) {
  const RequestId id = next_id_;
  submit(id, std::move(request), std::move(listener));
  return id;
}

void Engine::cancel(RequestId request) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  const std::shared_ptr<State> state = it->second;  // its end takes it from the map
  for (const auto& choice : state->choices)
    if (choice->open) end(*choice, EndReason::kCaller);
}

void Engine::cancel_all(EndReason reason, const std::string& message) {
  while (!requests_.empty()) {
    const std::shared_ptr<State> state = requests_.begin()->second;
    for (const auto& choice : state->choices)
      if (choice->open) end(*choice, reason, -1, message);
  }
}

void Engine::end(Choice& choice, EndReason reason, std::int32_t token, const std::string& message) {
  State& state = *choice.state;
  choice.open = false;
  choices_.erase(choice.sequence);
  scheduler_.remove(choice.sequence);
  if (drafter_) drafter_->forget(choice.sequence);
  Event event{.kind = Event::Kind::kEnd, .request = state.id, .choice = choice.index};
  event.token.token.id = token;
  event.reason = reason;
  event.message = message;
  event.prompt_tokens = std::ssize(state.request.prompt);
  event.cached_tokens = state.cached;
  event.tokens = choice.drawn;
  const std::shared_ptr<State> keep = requests_.at(state.id);
  // Choices that were not opened yet end with the first.
  const int together = state.forked ? 1 : state.request.choices;
  state.forked = true;
  state.open -= together;
  if (state.open == 0) requests_.erase(state.id);
  state.listener(event);
  event.tokens = 0;
  for (int i = 1; i < together; ++i) {
    event.choice = i;
    state.listener(event);
  }
}

void Engine::submit(RequestId id, Request request, Listener listener) {
  check(request);
  require<InternalError>(!requests_.contains(id), "request {} exists", id);
  auto state = std::make_shared<State>();
  State& s = *state;
  s.id = id;
  s.request = std::move(request);
  s.listener = std::move(listener);
  s.open = s.request.choices;
  s.request.sampling.ends = s.request.end_ids;
  std::vector<std::int32_t> read = with_virtual_tokens(limits(), s.request.prompt, s.request.adapter), source;
  if (limits().reads_sources()) source = std::exchange(read, {limits().start});
  // Nothing is computed for the last token of an answer.
  const std::int64_t most = std::ssize(read) + std::max<std::int64_t>(0, s.request.max_tokens - 1);
  const SequenceId sequence =
      scheduler_.add({.tokens = std::move(read),
                      .source = std::move(source),
                      .scored = s.request.prompt_logprobs ? std::ssize(s.request.prompt) : 1,
                      // Adapters compute different keys of the same text.
                      .salt = fmt::format("{}:{}", s.request.adapter, s.request.cache_salt),
                      .tenant = s.request.tenant,
                      .priority = s.request.priority,
                      .adapter = s.request.adapter,
                      .most = most});
  open(s, sequence);
  requests_.emplace(id, std::move(state));
  next_id_ = std::max(next_id_, id + 1);
  ++counters_.requests;
}

Engine::Choice& Engine::open(State& state, SequenceId sequence) {
  const int index = static_cast<int>(state.choices.size());
  state.choices.push_back(
      std::make_unique<Choice>(Choice{&state, index, sequence, TokenSampler(state.request.sampling, index)}));
  if (state.request.constraint) state.choices.back()->text.emplace(state.request.constraint);
  return *(choices_[sequence] = state.choices.back().get());
}

// The rows of logits that predict tokens of the prompt.
void Engine::score_prompt(State& state, const PassSegment& segment, std::span<const float> logits) {
  const auto vocabulary = static_cast<std::size_t>(limits().vocabulary);
  const std::vector<std::int32_t>& prompt = state.request.prompt;
  const std::int64_t first =
      segment.begin + std::ssize(segment.tokens) - segment.scored + 1 - virtual_before(state.request);
  const std::int64_t count = std::min(segment.scored, std::ssize(prompt) - first);
  if (count <= 0) return;
  const std::size_t before = state.prompt_scores.size();
  state.prompt_scores.resize(before + static_cast<std::size_t>(count));
  model_.share_out(count, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    state.prompt_scores[before + at] =
        score_token(logits.subspan(at * vocabulary, vocabulary), prompt[static_cast<std::size_t>(first) + at],
                    *state.request.prompt_logprobs);
  });
}

std::span<const std::int32_t> Engine::text_of(SequenceId sequence) const {
  const Request& request = choices_.at(sequence)->state->request;
  return scheduler_.tokens(sequence).subspan(static_cast<std::size_t>(virtual_before(request)));
}

// What the model is asked for: the token alone where nothing else of its row is needed, else the logits.
RowWish Engine::wish_of(const PassSegment& segment) const {
  const Choice& choice = *choices_.at(segment.sequence);
  const State& state = *choice.state;
  const Request& request = state.request;
  if (!segment.last || segment.scored != 1 || choice.text || request.logprobs || request.prompt_logprobs)
    return {};
  RowWish wish = choice.sampler.wish();
  // The first tokens of several choices are drawn from one row.
  if (wish.kind == RowWish::Kind::kDrawn && !state.forked && request.choices > 1) return {};
  return wish;
}

bool Engine::find_wishes(const PassPlan& plan) {
  wishes_.clear();
  if (!model_.finds_tokens()) return false;
  for (const PassSegment& segment : plan.segments)
    wishes_.insert(wishes_.end(), static_cast<std::size_t>(segment.scored), wish_of(segment));
  found_.resize(wishes_.size());
  return std::ranges::any_of(wishes_, [](const RowWish& w) { return w.kind != RowWish::Kind::kLogits; });
}

void Engine::draw_from(const PassSegment& segment, std::span<const float> logits,
                       std::optional<FoundToken> found) {
  Choice& choice = *choices_.at(segment.sequence);
  State& state = *choice.state;
  const std::shared_ptr<State>& owner = requests_.at(state.id);
  const auto vocabulary = static_cast<std::size_t>(limits().vocabulary);
  choice.guessed = scheduler_.guesses(segment.sequence);
  choice.came_true = 0;
  counters_.drafts += choice.guessed > 0;
  counters_.draft_tokens += choice.guessed;
  const auto rows = logits.last(static_cast<std::size_t>(choice.guessed + 1) * vocabulary);
  draws_.push_back({owner, &choice, rows.first(vocabulary), {}, true});
  draws_.back().more = rows.subspan(vocabulary);
  draws_.back().found = found;
  if (std::exchange(state.forked, true)) return;
  // The prompt was read: the other choices begin with the same logits.
  for (int i = 1; i < state.request.choices; ++i)
    draws_.push_back({owner,
                      &open(state, scheduler_.fork(segment.sequence)),
                      rows.first(vocabulary),
                      {},
                      true,
                      {},
                      {},
                      found});
}

// Masks of the tokens that this pass will be followed by.
void Engine::find_masks(const PassPlan& plan) {
  std::vector<constraint::ConstrainedText*> texts;
  for (const PassSegment& segment : plan.segments) {
    if (!segment.last) continue;
    Choice& choice = *choices_.at(segment.sequence);
    if (choice.text) texts.push_back(&*choice.text);
  }
  masks_.start(std::move(texts));
}

void Engine::draw(Draw& d) const {
  const Request& request = d.choice->state->request;
  if (request.max_tokens == 0) return;
  if (d.found) {
    d.choice->sampler.take(d.found->id);
    d.token.token.id = d.found->id;
    d.finite = std::isfinite(d.found->logit);
    return;
  }
  const std::span<const std::int32_t> seen = text_of(d.choice->sequence);
  std::int32_t id = -1;
  std::vector<float> processed;
  const auto next = [&](const AllowedTokens* allowed) {
    TokenSampler& sampler = d.choice->sampler;
    if (request.logprobs && request.processed_logprobs) sampler.processed(d.logits, seen, allowed, processed);
    return sampler.next(d.logits, seen, allowed);
  };
  if (!d.choice->text) {
    id = next(nullptr);
  } else {
    try {
      const auto bits = d.choice->text->allowed();
      const AllowedTokens allowed{*bits, d.choice->text->accepts(), request.end_ids};
      id = next(&allowed);
    } catch (const constraint::ConstraintError& error) {
      d.error = error.what();
    }
  }
  d.token.token.id = id;
  if (id < 0) return;
  d.finite = std::isfinite(d.logits[static_cast<std::size_t>(id)]);
  if (!request.logprobs || !d.finite) return;
  // Where everything is excluded, the first token comes all the same, with what the model says of it.
  const bool known = !processed.empty() && std::isfinite(processed[static_cast<std::size_t>(id)]);
  d.token = score_token(known ? processed : d.logits, id, *request.logprobs);
}

void Engine::deliver(Draw& d) {
  Choice& choice = *d.choice;
  State& state = *d.state;
  const Request& request = state.request;
  if (!choice.open) return;  // a listener cancelled it
  if (choice.index == 0 && choice.drawn == 0 && request.prompt_logprobs) {
    Event event{.kind = Event::Kind::kPrompt, .request = state.id, .choice = 0};
    event.prompt = std::move(state.prompt_scores);
    const bool on = state.listener(event);
    if (!choice.open) return;
    if (!on) return end(choice, EndReason::kCaller);
  }
  if (request.max_tokens == 0) return end(choice, EndReason::kLength);
  if (!d.finite) return end(choice, EndReason::kNotANumber);
  const std::int32_t id = d.token.token.id;
  if (id < 0) return end_constrained(choice, d.error);
  if (std::find(request.end_ids.begin(), request.end_ids.end(), id) != request.end_ids.end())
    return end(choice, EndReason::kEndToken, id);
  bool complete = false;
  if (choice.text) {
    try {
      require<constraint::ConstraintError>(choice.text->push(id), "token {} does not fit its constraint", id);
      complete = choice.text->complete();
    } catch (const constraint::ConstraintError& error) {
      return end(choice, EndReason::kFailed, -1, error.what());
    }
  }
  ++choice.drawn;
  ++counters_.answer_tokens;
  Event event{.kind = Event::Kind::kToken, .request = state.id, .choice = choice.index};
  event.token = std::move(d.token);
  const bool on = state.listener(event);
  if (!choice.open) return;
  if (!on) return end(choice, EndReason::kCaller);
  if (complete) return end(choice, EndReason::kEndToken);
  if (choice.drawn == request.max_tokens) return end(choice, EndReason::kLength);
  if (scheduler_.length(choice.sequence) == limits().longest(source_of(request)))
    return end(choice, EndReason::kContext);
  if (!scheduler_.append(choice.sequence, id)) {
    d.more = {};
    if (drafter_) guessing_.push_back(choice.sequence);
    return;
  }
  ++choice.came_true;
  ++counters_.accepted_tokens;
}

// Guesses for those that drew a token, as long as the pass stays about as fast as without.
void Engine::guess() {
  if (!drafter_) return;
  const PassLimits& l = limits();
  const std::int64_t room =
      std::min({kFreeTokens, l.scored, l.pass_tokens}) - std::max<std::int64_t>(1, scheduler_.running());
  std::erase_if(guessing_, [&](SequenceId sequence) { return !choices_.contains(sequence); });
  const auto share = room / std::max<std::int64_t>(1, std::ssize(guessing_));
  std::vector<DraftWish> wishes;
  for (const SequenceId sequence : guessing_) {
    Choice& choice = *choices_.at(sequence);
    choice.draft_length.learn(choice.guessed, choice.came_true);
    choice.guessed = 0;
    const Request& request = choice.state->request;
    const std::int64_t most =
        std::min({share, request.max_tokens - choice.drawn - 1, l.longest() - scheduler_.length(sequence)});
    const std::int64_t wanted = most < 1 ? 0 : choice.draft_length.next(most);
    if (wanted > 0) wishes.push_back({sequence, text_of(sequence), &choice.sampler, wanted});
  }
  guessing_.clear();
  if (wishes.empty()) return;
  drafter_->propose(wishes);
  for (DraftWish& wish : wishes) {
    const auto foreign =
        std::ranges::find_if(wish.guesses, [&](std::int32_t id) { return id >= l.vocabulary; });
    wish.guesses.erase(foreign, wish.guesses.end());
    if (!wish.guesses.empty()) scheduler_.guess(wish.sequence, wish.guesses);
  }
}

// Ends a choice for which no token is left: a text that may end does so, others fail rather than break their
// constraint.
void Engine::end_constrained(Choice& choice, std::string error) {
  try {
    if (error.empty() && choice.text->accepts()) return end(choice, EndReason::kEndToken);
    if (error.empty())
      error = "the constraint and the other options of the request leave no token that could follow";
  } catch (const constraint::ConstraintError& again) {
    error = again.what();
  }
  end(choice, EndReason::kFailed, -1, error);
}

void Engine::use_in_this_thread() {
  model_.use_in_this_thread();
  if (drafter_) drafter_->use_in_this_thread();
}

bool Engine::step() {
  const PassPlan& plan = scheduler_.next();
  if (plan.segments.empty()) return !scheduler_.idle();
  find_masks(plan);
  const std::span<const float> logits = [&] {
    const MaskWaiter waiter{masks_};
    return find_wishes(plan) ? model_.run_wishes(plan, wishes_, found_) : model_.run(plan);
  }();
  scheduler_.complete();
  ++counters_.passes;
  draws_.clear();
  const auto vocabulary = static_cast<std::size_t>(limits().vocabulary);
  std::size_t row = 0;
  for (const PassSegment& segment : plan.segments) {
    const auto rows = static_cast<std::size_t>(segment.scored);
    const auto scores = logits.subspan(row * vocabulary, rows * vocabulary);
    const bool is_found = rows == 1 && !wishes_.empty() && wishes_[row].kind != RowWish::Kind::kLogits;
    const std::optional<FoundToken> found = is_found ? std::optional(found_[row]) : std::nullopt;
    row += rows;
    State& state = *choices_.at(segment.sequence)->state;
    if (!std::exchange(state.started, true)) {
      state.cached = std::max<std::int64_t>(
          0, scheduler_.cached(segment.sequence) - limits().virtual_of(state.request.adapter));
      counters_.prompt_tokens += std::ssize(state.request.prompt);
      counters_.prefix_hit_tokens += state.cached;
    }
    if (!state.forked && state.request.prompt_logprobs) score_prompt(state, segment, scores);
    if (segment.last) draw_from(segment, scores, found);
  }
  while (!draws_.empty()) {
    model_.share_out(std::ssize(draws_), [&](std::int64_t i) { draw(draws_[static_cast<std::size_t>(i)]); });
    for (Draw& d : draws_) deliver(d);
    // A guess that came true was computed: its logits give the next token.
    std::erase_if(draws_, [](const Draw& d) { return d.more.empty() || !d.choice->open; });
    for (Draw& d : draws_) {
      d.logits = d.more.first(vocabulary);
      d.more = d.more.subspan(vocabulary);
      d.token = {}, d.found = {};
    }
  }
  guess();
  return !scheduler_.idle();
}

EngineCounters Engine::counters() const {
  EngineCounters out = counters_;
  out.running = scheduler_.running();
  out.waiting = scheduler_.waiting();
  for (const auto& [id, state] : requests_)
    if (!state->forked) out.waiting += state->request.choices - 1;
  out.blocks_total = scheduler_.pool().total();
  out.blocks_used = out.blocks_total - scheduler_.pool().free();
  out.blocks_cached = scheduler_.pool().cached();
  out.preemptions = scheduler_.preemptions();
  return out;
}

}  // namespace stoa::infer
