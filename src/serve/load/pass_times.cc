#include "serve/load/pass_times.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/timing.h"
#include "infer/engine/scheduler.h"

namespace stoa::serve {
namespace {

constexpr std::int64_t kShortPrompt = 16;       // tokens of a prompt, or of a source and the beginning of its
                                                // target, before the answers that are measured
constexpr std::int64_t kMostLongTokens = 4096;  // of texts that are long together
constexpr std::int64_t kTokensInARow = 5;       // of answers in a round; the first is not counted

// Runs passes of texts that share nothing.
class PassStopwatch {
 public:
  explicit PassStopwatch(infer::PassModel& model) : model_(model), scheduler_(model.limits()) {}

  infer::SequenceId add(std::int64_t tokens, std::int64_t source = 0) {
    return scheduler_.add(
        {.tokens = text_of(tokens), .source = text_of(source), .salt = std::to_string(++texts_)});
  }
  // A text whose next passes read these tokens and no source.
  infer::SequenceId begun(std::int64_t tokens, std::int64_t source) {
    if (source == 0) return add(tokens);
    const infer::SequenceId out = add(1, source);
    pass();
    append(out, tokens);
    return out;
  }
  void append(infer::SequenceId text, std::int64_t tokens = 1) {
    scheduler_.append(text, text_of(tokens), 1);
  }
  void remove(infer::SequenceId text) { scheduler_.remove(text); }

  // Texts whose prompts are read. All are read before any answer continues: a pass that reads prompts also
  // gives logits.
  using Texts = std::vector<infer::SequenceId>;
  struct Reads {
    std::int64_t prompt, source;
  };
  Texts begin_answers(std::int64_t texts, Reads reads) {
    Texts out;
    for (std::int64_t i = 0; i < texts; ++i) out.push_back(add(reads.prompt, reads.source));
    for (std::int64_t read = 0; read < texts * (reads.prompt + reads.source);) read += pass().tokens;
    return out;
  }
  // Seconds of the pass of their next tokens.
  double next_tokens(const Texts& texts) {
    for (const infer::SequenceId text : texts) append(text);
    return pass().seconds;
  }
  void end_answers(const Texts& texts) {
    for (const infer::SequenceId text : texts) remove(text);
  }
  // How many seconds more a token of each of `texts` answers takes that have read more: medians of `turns`
  // passes, of both in turns where so many texts may be under way.
  double more_seconds(std::int64_t texts, Reads shorter, Reads longer, std::int64_t turns) {
    if (2 * texts > model_.limits().sequences) {
      const double before = medians_in_turns({begin_answers(texts, shorter)}, turns)[0];
      return std::max(0.0, medians_in_turns({begin_answers(texts, longer)}, turns)[0] - before);
    }
    const auto both = medians_in_turns({begin_answers(texts, shorter), begin_answers(texts, longer)}, turns);
    return std::max(0.0, both[1] - both[0]);
  }

  struct Pass {
    double seconds = 0;
    std::int64_t begin = 0, tokens = 0, texts = 0;  // begin: of the first text
  };
  Pass pass() {
    const infer::PassPlan& plan = scheduler_.next();
    require<InternalError>(!plan.segments.empty(), "no pass is left to measure");
    Pass out{.begin = plan.segments.front().begin, .tokens = plan.tokens, .texts = std::ssize(plan.segments)};
    const auto begin = std::chrono::steady_clock::now();
    model_.run(plan);
    out.seconds = seconds_since(begin);
    scheduler_.complete();
    return out;
  }

 private:
  // Ends them.
  std::vector<double> medians_in_turns(const std::vector<Texts>& answers, std::int64_t turns) {
    std::vector<std::vector<double>> seconds(answers.size());
    for (std::int64_t turn = 0; turn <= turns; ++turn)
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const double taken = next_tokens(answers[i]);
        if (turn > 0) seconds[i].push_back(taken);  // the first touches memory
      }
    std::vector<double> out;
    for (auto& each : seconds) out.push_back(median_of(std::move(each)));
    for (const Texts& texts : answers) end_answers(texts);
    return out;
  }
  std::vector<std::int32_t> text_of(std::int64_t tokens) {
    std::vector<std::int32_t> out;
    for (std::int64_t i = 0; i < tokens; ++i) out.push_back(next_token());
    return out;
  }
  std::int32_t next_token() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int32_t>((state_ >> 33) % static_cast<std::uint64_t>(model_.limits().vocabulary));
  }

  infer::PassModel& model_;
  infer::Scheduler scheduler_;
  std::uint64_t state_ = 1, texts_ = 0;
};

// More never takes less: what says so is noise.
void keep_pass_times_rising(PassTimes::Curve& curve) {
  for (std::size_t i = 1; i < curve.size(); ++i)
    curve[i].second = std::max(curve[i].second, curve[i - 1].second);
}

}  // namespace

double attended_pairs(std::int64_t begin, std::int64_t count) {
  return static_cast<double>(count) * (static_cast<double>(begin) + static_cast<double>(count + 1) / 2);
}

std::vector<std::int64_t> doubling_counts(std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n < most; n *= 2) out.push_back(n);
  out.push_back(most);
  return out;
}

double at_count(const PassTimes::Curve& curve, std::int64_t count) {
  if (curve.empty() || count <= 0) return 0;
  const auto above = std::lower_bound(curve.begin(), curve.end(), count,
                                      [](const auto& point, std::int64_t n) { return point.first < n; });
  if (above == curve.begin()) return above->second;
  const auto& [n, seconds] = *(above - 1);
  if (above == curve.end()) return seconds * static_cast<double>(count) / static_cast<double>(n);
  const double share = static_cast<double>(count - n) / static_cast<double>(above->first - n);
  return seconds + share * (above->second - seconds);
}

double PassTimes::seconds(const infer::PassPlan& plan) const {
  double out = at_count(tokens, plan.tokens - plan.sources) + at_count(sources, plan.sources) +
               at_count(scored, plan.scored);
  for (const infer::PassSegment& segment : plan.segments) {
    const std::int64_t count = std::ssize(segment.tokens);
    const auto source = static_cast<double>(segment.source.size());
    out += per_source_pair * source * source +
           per_source_read * static_cast<double>(count * segment.source_length);
    out += count == 1 ? per_read * static_cast<double>(segment.begin + 1)
                      : per_pair * attended_pairs(segment.begin, count);
  }
  return out;
}

namespace {

// What of an encoder-decoder's passes concerns sources; `times` has the rest.
void measure_sources(PassStopwatch& watch, const infer::PassLimits& limits, int rounds, PassTimes& times) {
  const auto median = [&](std::int64_t texts, std::int64_t source) {  // of a pass that begins their targets
    std::vector<double> seconds;
    for (int round = 0; round <= rounds; ++round) {
      std::vector<infer::SequenceId> open;
      for (std::int64_t i = 0; i < texts; ++i) open.push_back(watch.add(1, source));
      const double taken = watch.pass().seconds;
      if (round > 0) seconds.push_back(taken);
      for (const infer::SequenceId text : open) watch.remove(text);
    }
    return median_of(std::move(seconds));
  };
  // Seconds of the targets' tokens in such a pass.
  const auto targets = [&](std::int64_t texts, std::int64_t source) {
    return at_count(times.tokens, texts) + at_count(times.scored, texts) +
           static_cast<double>(texts) *
               (times.per_read + times.per_source_read * static_cast<double>(source));
  };
  const std::int64_t longest =
      std::min(limits.source_tokens - limits.virtual_tokens, (limits.blocks - 1) * limits.block_tokens);
  // As many tokens in one source, and in many.
  const std::int64_t many =
      std::min({limits.sequences, limits.pass_tokens / (kShortPrompt + 1), longest / kShortPrompt,
                limits.blocks / (2 + limits.blocks_of(kShortPrompt))});
  if (many > 1) {
    const std::int64_t all = many * kShortPrompt;
    const double more =
        median(1, all) - targets(1, all) - median(many, kShortPrompt) + targets(many, kShortPrompt);
    times.per_source_pair =
        std::max(0.0, more) / static_cast<double>(all * all - many * kShortPrompt * kShortPrompt);
  }
  for (const std::int64_t count : doubling_counts(longest))
    times.sources.emplace_back(count,
                               std::max(0.0, median(1, count) - targets(1, count) -
                                                 times.per_source_pair * static_cast<double>(count * count)));
  keep_pass_times_rising(times.sources);
}

// What a token takes for each token before it, of its text and of the source.
void measure_reads(PassStopwatch& watch, const infer::PassLimits& limits, std::int64_t room,
                   std::int64_t source, int rounds, PassTimes& times) {
  const PassStopwatch::Reads little{kShortPrompt, source};
  const std::int64_t turns = std::min<std::int64_t>(4 * rounds, room - kShortPrompt - 1);
  const std::int64_t own_blocks = limits.blocks_of(kShortPrompt + turns + 1),
                     source_blocks = limits.blocks_of(source);
  // Texts of both kinds are under way together, where there may be several, and each has a block to spare:
  // the scheduler begins no text without one for those that grow.
  const std::int64_t others = limits.sequences > 1 ? own_blocks + source_blocks + 2 : 0;
  const std::int64_t long_text =
      std::min({room - turns - 2, 4 * limits.pass_tokens,
                (limits.blocks - others - source_blocks) * limits.block_tokens - turns - 1});
  if (long_text > kShortPrompt) {
    // Several texts, where they fit: the keys and values of one take little of a pass.
    const std::int64_t each = others + source_blocks + limits.blocks_of(long_text + turns + 1);
    const std::int64_t texts =
        std::max<std::int64_t>(1, std::min({limits.blocks / each, limits.sequences / 2, limits.scored,
                                            limits.pass_tokens, kMostLongTokens / long_text}));
    times.per_read = watch.more_seconds(texts, little, {long_text, source}, turns) /
                     static_cast<double>(texts * (long_text - kShortPrompt));
  }
  const std::int64_t long_source = std::min(limits.source_tokens - limits.virtual_tokens,
                                            (limits.blocks - others - own_blocks) * limits.block_tokens);
  if (source > 0 && long_source > source)
    times.per_source_read = watch.more_seconds(1, little, {kShortPrompt, long_source}, turns) /
                            static_cast<double>(long_source - source);
}

// What a prompt's token takes for each token before it: passes of equally many tokens after ever more of
// them.
void measure_pairs(PassStopwatch& watch, const infer::PassLimits& limits, std::int64_t room,
                   std::int64_t source, PassTimes& times) {
  const std::int64_t longest = std::min(room - 2, 4 * limits.pass_tokens),
                     chunk = std::clamp<std::int64_t>(longest / 2, 1, limits.pass_tokens);
  const infer::SequenceId text = watch.begun(chunk, source);
  const PassStopwatch::Pass first = watch.pass();
  PassStopwatch::Pass last = first;
  for (std::int64_t read = 2 * chunk; read <= longest; read += chunk) {
    watch.append(text, chunk);
    last = watch.pass();
  }
  watch.remove(text);
  times.per_pair =
      last.begin == first.begin
          ? times.per_read
          : std::max(0.0, last.seconds - first.seconds) /
                (attended_pairs(last.begin, last.tokens) - attended_pairs(first.begin, first.tokens));
}

}  // namespace

PassTimes measure_passes(infer::PassModel& model, int rounds) {
  const infer::PassLimits& limits = model.limits();
  PassStopwatch watch(model);
  const std::int64_t source = limits.reads_sources() ? std::min(kShortPrompt, limits.source_tokens) : 0;
  const std::int64_t room = limits.longest(source) - (source > 0 ? 0 : limits.virtual_tokens);
  require<ConfigError>(room >= kShortPrompt + kTokensInARow + 1,
                       "a context of {} tokens is too short to measure passes: expected at least {}", room,
                       kShortPrompt + kTokensInARow + 1);
  PassTimes out;
  watch.end_answers(watch.begin_answers(1, {kShortPrompt, source}));  // clocks are warm
  measure_reads(watch, limits, room, source, rounds, out);
  measure_pairs(watch, limits, room, source, out);

  // Passes of every kind in each round: the speed of a machine changes, and kinds that are measured one after
  // the other could not be compared.
  const std::vector<std::int64_t> texts = doubling_counts(std::clamp<std::int64_t>(
                                      limits.blocks / (limits.blocks_of(kShortPrompt + kTokensInARow + 1) +
                                                       limits.blocks_of(source)),
                                      1, limits.sequences)),
                                  counts = doubling_counts(
                                      std::min(room - (source > 0 ? 1 : 0), limits.pass_tokens));
  std::vector<std::vector<double>> of_answers(texts.size()), of_prompts(counts.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const PassStopwatch::Texts open = watch.begin_answers(texts[i], {kShortPrompt, source});
      watch.next_tokens(open);  // touches memory
      for (std::int64_t token = 1; token < kTokensInARow; ++token)
        of_answers[i].push_back(watch.next_tokens(open));
      watch.end_answers(open);
    }
    for (std::size_t i = 1; i < counts.size(); ++i) {  // the first is that of an answer
      const infer::SequenceId prompt = watch.begun(counts[i], source);
      of_prompts[i].push_back(watch.pass().seconds);
      watch.remove(prompt);
    }
  }
  // What the source takes any token, and the tokens before it an answer's.
  const double of_source = out.per_source_read * static_cast<double>(source),
               of_text = out.per_read * static_cast<double>(kShortPrompt + kTokensInARow / 2 + 1) + of_source;
  std::vector<double> answers;
  for (auto& seconds : of_answers) answers.push_back(median_of(std::move(seconds)));
  out.tokens.emplace_back(1, std::max(0.0, answers.front() - of_text));
  for (std::size_t i = 1; i < counts.size(); ++i) {
    const double before = out.per_pair * attended_pairs(source > 0 ? 1 : 0, counts[i]) +
                          of_source * static_cast<double>(counts[i]);
    out.tokens.emplace_back(counts[i], std::max(0.0, median_of(std::move(of_prompts[i])) - before));
  }
  keep_pass_times_rising(out.tokens);
  for (std::size_t i = 0; i < texts.size(); ++i)
    out.scored.emplace_back(texts[i], std::max(0.0, answers[i] - at_count(out.tokens, texts[i]) -
                                                        of_text * static_cast<double>(texts[i])));
  keep_pass_times_rising(out.scored);
  if (source > 0) measure_sources(watch, limits, rounds, out);
  return out;
}

}  // namespace stoa::serve
