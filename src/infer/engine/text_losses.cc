#include "infer/engine/text_losses.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "infer/engine/scheduler.h"
#include "infer/engine/virtual_tokens.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kTexts = 128;  // that are read at once

// The texts of one call, as sequences of a scheduler.
class LossReader {
 public:
  LossReader(PassModel& model, std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
             std::span<float> losses)
      : model_(model), tokens_(tokens), labels_(labels), losses_(losses), scheduler_(model.limits()) {}

  // The text of `length` tokens behind those that were added; of an encoder-decoder, the target of `source`.
  void add(std::int64_t length, std::span<const std::int32_t> source = {}) {
    const PassLimits& limits = model_.limits();
    std::vector<std::int32_t> read;
    if (limits.reads_sources()) read = with_virtual_tokens(limits, source);
    const std::int64_t longest =
        limits.reads_sources() ? limits.longest(std::ssize(read)) : longest_text(limits);
    require<InternalError>(length <= longest, "a text of {} tokens, the model was loaded for {}", length,
                           longest);
    const auto own = tokens_.subspan(added_, static_cast<std::size_t>(length));
    // A salt of its own: no text takes keys and values from another, since then it would lack losses.
    std::vector<std::int32_t> text =
        limits.reads_sources() ? std::vector(own.begin(), own.end()) : with_virtual_tokens(limits, own);
    const std::int64_t most = std::ssize(text);
    const SequenceId id = scheduler_.add({.tokens = std::move(text),
                                          .source = std::move(read),
                                          .salt = fmt::format("{}", added_),
                                          .most = most});
    begins_[id] = added_;
    added_ += own.size();
  }
  std::size_t added() const { return added_; }

  void run() {
    while (!scheduler_.idle()) pass();
  }

 private:
  std::int64_t virtual_tokens() const {
    return model_.limits().reads_sources() ? 0 : model_.limits().virtual_tokens;
  }
  // Calls body(i, place) for token i of a pass and its place in the call's tokens; none of virtual ones.
  template <class Body>
  void each_token(const PassPlan& plan, const Body& body) const {
    std::size_t i = 0;
    for (const PassSegment& segment : plan.segments) {
      const std::size_t begin = begins_.at(segment.sequence);
      for (std::int64_t t = 0; t < std::ssize(segment.tokens); ++t, ++i)
        if (const std::int64_t own = segment.begin + t - virtual_tokens(); own >= 0)
          body(i, begin + static_cast<std::size_t>(own));
    }
  }

  void pass() {
    const PassPlan& plan = scheduler_.next();
    pass_labels_.assign(static_cast<std::size_t>(plan.tokens - plan.sources), 0);
    each_token(plan, [&](std::size_t i, std::size_t place) { pass_labels_[i] = labels_[place]; });
    const std::span<const float> found = model_.losses(plan, pass_labels_);
    each_token(plan, [&](std::size_t i, std::size_t place) { losses_[place] = found[i]; });
    std::vector<SequenceId> read;
    for (const PassSegment& segment : plan.segments)
      if (segment.last) read.push_back(segment.sequence);
    scheduler_.complete();
    for (const SequenceId id : read) scheduler_.remove(id);
  }

  PassModel& model_;
  const std::span<const std::int32_t> tokens_, labels_;
  const std::span<float> losses_;
  Scheduler scheduler_;
  std::map<SequenceId, std::size_t> begins_;  // where each text begins
  std::size_t added_ = 0;                     // tokens
  std::vector<std::int32_t> pass_labels_;
};

}  // namespace

std::int64_t longest_text(const PassLimits& limits) { return limits.longest() - limits.virtual_tokens; }

void text_losses(PassModel& model, std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
                 std::span<const std::int64_t> lengths, std::span<float> losses) {
  LossReader reader(model, tokens, labels, losses);
  for (const std::int64_t length : lengths)
    if (length > 0) reader.add(length);
  require<InternalError>(
      reader.added() == tokens.size() && labels.size() == tokens.size() && losses.size() == tokens.size(),
      "lengths of texts do not add up to {} tokens", tokens.size());
  reader.run();
}

std::vector<float> text_losses(PassModel& model, std::span<const std::int32_t> ids) {
  if (ids.size() < 2) return {};
  // The last token predicts nothing here, but a rotary table may depend on it: it is read by the length of
  // the whole text.
  const bool whole = !model.limits().takes_back && std::ssize(ids) <= longest_text(model.limits());
  const std::int64_t n = std::ssize(ids) - (whole ? 0 : 1);
  std::vector<std::int32_t> labels(ids.begin() + 1, ids.end());
  if (whole) labels.push_back(ids.front());
  std::vector<float> out(static_cast<std::size_t>(n));
  text_losses(model, ids.first(out.size()), labels, std::span(&n, 1), out);
  out.resize(ids.size() - 1);
  return out;
}

std::vector<std::vector<float>> pair_losses(PassModel& model, std::span<const TokenPair> pairs) {
  std::vector<std::int32_t> inputs, labels;
  for (const TokenPair& pair : pairs) {
    require<InternalError>(!pair.target.empty(), "a pair without target");
    inputs.push_back(model.limits().start);
    inputs.insert(inputs.end(), pair.target.begin(), pair.target.end() - 1);
    labels.insert(labels.end(), pair.target.begin(), pair.target.end());
  }
  std::vector<float> losses(labels.size());
  LossReader reader(model, inputs, labels, losses);
  for (const TokenPair& pair : pairs) reader.add(std::ssize(pair.target), pair.source);
  reader.run();
  std::vector<std::vector<float>> out;
  auto at = losses.begin();
  for (const TokenPair& pair : pairs) {
    const auto end = at + std::ssize(pair.target);
    out.emplace_back(at, end);
    at = end;
  }
  return out;
}

namespace {

// For texts that are forgotten as soon as they are read: the pool holds the longest and those of a pass.
// `tokens`: of the longest.
EngineUse use_for_reading(OpenModel& model, std::int64_t tokens, const LossUse& use) {
  const model::ModelConfig& config = model.model().config;
  EngineUse engine;
  engine.sequences = kTexts;
  engine.pass_tokens = use.pass_tokens;
  engine.scored = 1;
  engine.losses = true;
  engine.tokenizer = use.tokenizer;
  engine.cache = use.cache;
  if (use.tokenizer) model.tokenizer();  // before cache_type() makes the machine
  const std::int64_t blocks = config.kind == model::ModelKind::kT5 ? 2 : 1;  // that a text may begin
  engine.cache_bytes =
      static_cast<double>(bytes_per_token(config, cache_type(model, use.cache))) *
      static_cast<double>(tokens + use.pass_tokens +
                          kTexts * (config.peft.virtual_count() + blocks * PassLimits().block_tokens));
  return engine;
}

}  // namespace

EngineUse use_for_losses(OpenModel& model, const LossUse& use) {
  model.require_kind(model::ModelKind::kGpt);
  const model::ModelConfig& config = model.model().config;
  const std::int64_t virtual_tokens = config.peft.virtual_count(),
                     positions = usable_positions(config) - virtual_tokens,
                     text = std::min(positions, use.text_tokens.value_or(positions));
  EngineUse engine = use_for_reading(model, text, use);
  engine.context = text;
  return engine;
}

EngineUse use_for_pairs(OpenModel& model, std::span<const TokenPair> pairs, const LossUse& use) {
  model.require_kind(model::ModelKind::kT5);
  std::int64_t source = 1, target = 1;
  for (const TokenPair& pair : pairs) {
    source = std::max(source, std::ssize(pair.source));
    target = std::max(target, std::ssize(pair.target));
  }
  EngineUse engine = use_for_reading(model, source + target, use);
  engine.pairs = true;
  engine.context = target;
  engine.source_tokens = source;
  return engine;
}

std::unique_ptr<PagedDecoder> load_for_pairs(OpenModel& model, std::span<const TokenPair> pairs,
                                             const LossUse& use) {
  return load_paged_decoder(model, use_for_pairs(model, pairs, use));
}

std::unique_ptr<PagedDecoder> load_for_losses(OpenModel& model, const LossUse& use) {
  return load_paged_decoder(model, use_for_losses(model, use));
}

}  // namespace stoa::infer
