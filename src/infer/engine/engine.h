// Answers many requests at once: each step is one pass of the model over tokens of all sequences that run. An
// answer does not depend on what else is being answered. Used by one thread; EngineLoop gives it one.
#pragma once

#include <map>
#include <memory>

#include "infer/engine/drafter.h"
#include "infer/engine/mask_worker.h"
#include "infer/engine/request.h"
#include "infer/engine/scheduler.h"

namespace stoa::infer {

struct EngineCounters {
  std::int64_t running = 0, waiting = 0;  // choices
  std::int64_t blocks_used = 0, blocks_total = 0, blocks_cached = 0;
  // Since the start.
  std::int64_t requests = 0, passes = 0, preemptions = 0;
  std::int64_t prompt_tokens = 0;      // of admitted prompts, and
  std::int64_t prefix_hit_tokens = 0;  // how many of them were found in the cache
  std::int64_t answer_tokens = 0;
  // Of speculation: how often tokens were guessed, how many, and how many of them came true.
  std::int64_t drafts = 0, draft_tokens = 0, accepted_tokens = 0;
};

class Engine {
 public:
  // `drafter`: guesses tokens; none: no speculation. ConfigError: the model cannot take tokens back, or is an
  // encoder-decoder.
  explicit Engine(PassModel& model, std::unique_ptr<Drafter> drafter = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // DataError: an empty prompt, one beyond the context, ids outside the vocabulary.
  // ConfigError: options out of range. Any thread may call it.
  void check(const Request& request) const;
  // Checks, and puts it in the queue. The listener is called by step() and cancel().
  RequestId submit(Request request, Listener listener);
  // The same for a caller that numbers its requests itself.
  void submit(RequestId id, Request request, Listener listener);
  // Ends all open choices, whatever they wait for; their memory is free when it returns. Unknown or
  // finished ids are ignored. May be called by a listener.
  void cancel(RequestId request);
  // Ends everything with this reason.
  void cancel_all(EndReason reason, const std::string& message);
  // Runs one pass; returns whether work remains. What a pass throws leaves all requests as they were.
  bool step();

  const PassLimits& limits() const { return model_.limits(); }
  // Tokens of the longest text that an adapter reads; of an encoder-decoder, of the longest source.
  std::int64_t context(int adapter = 0) const;
  // Tokens that an answer to such a prompt may have.
  std::int64_t room(std::int64_t prompt, int adapter = 0) const;
  EngineCounters counters() const;

 private:
  struct Choice;
  struct State;
  struct Draw;

  Choice& open(State& state, SequenceId sequence);
  void score_prompt(State& state, const PassSegment& segment, std::span<const float> logits);
  // Virtual tokens in front of the tokens of a request's sequences; those of a source are in front of that.
  std::int64_t virtual_before(const Request& request) const;
  // Tokens of the source of a request's sequences; 0: it has none.
  std::int64_t source_of(const Request& request) const;
  // The tokens of a sequence, without virtual ones.
  std::span<const std::int32_t> text_of(SequenceId sequence) const;
  // `found`: in place of the logits, where the model found the token.
  void draw_from(const PassSegment& segment, std::span<const float> logits, std::optional<FoundToken> found);
  void draw(Draw& draw) const;
  // What is asked for in rows of logits; whether tokens are.
  bool find_wishes(const PassPlan& plan);
  RowWish wish_of(const PassSegment& segment) const;
  void find_masks(const PassPlan& plan);
  void deliver(Draw& draw);
  void end_constrained(Choice& choice, std::string error);
  void guess();
  void end(Choice& choice, EndReason reason, std::int32_t token = -1, const std::string& message = {});

  PassModel& model_;
  Scheduler scheduler_;
  std::map<RequestId, std::shared_ptr<State>> requests_;
  std::map<SequenceId, Choice*> choices_;
  RequestId next_id_ = 1;
  EngineCounters counters_;
  std::vector<Draw> draws_;
  std::vector<RowWish> wishes_;  // rows of a pass, of the model's logits
  std::vector<FoundToken> found_;
  MaskWorker masks_;
  const std::unique_ptr<Drafter> drafter_;
  std::vector<SequenceId> guessing_;  // sequences that drew a token in this pass
};

}  // namespace stoa::infer
