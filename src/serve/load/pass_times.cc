#include "serve/load/pass_times.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/timing.h"
#include "infer/engine/scheduler.h"

namespace stoa::serve {
namespace {

constexpr std::int64_t kShortPrompt = 16;  // tokens of a prompt, or of a source and the beginning of its
                                           // target, before the answers that are measured

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

}  // namespace

PassTimes measure_passes(infer::PassModel& model, int rounds) {
  const infer::PassLimits& limits = model.limits();
  PassStopwatch watch(model);
  const std::int64_t source = limits.reads_sources() ? std::min(kShortPrompt, limits.source_tokens) : 0;
  const std::int64_t room = limits.longest(source) - (source > 0 ? 0 : limits.virtual_tokens);
  require<ConfigError>(room >= kShortPrompt + rounds + 1,
                       "a context of {} tokens is too short to measure passes: expected at least {}", room,
                       kShortPrompt + rounds + 1);
  // Median seconds of a pass.
  const auto answers = [&](std::int64_t texts, std::int64_t prompt, std::int64_t of_source) {
    std::vector<infer::SequenceId> open;
    for (std::int64_t i = 0; i < texts; ++i) open.push_back(watch.add(prompt, of_source));
    // All prompts are read before the first answer continues: their passes give logits of texts that wait.
    for (std::int64_t read = 0; read < texts * (prompt + of_source);) read += watch.pass().tokens;
    std::vector<double> seconds;
    for (int round = 0; round <= rounds; ++round) {
      for (const infer::SequenceId text : open) watch.append(text);
      const PassStopwatch::Pass pass = watch.pass();
      if (round > 0) seconds.push_back(pass.seconds);  // the first touches memory
    }
    for (const infer::SequenceId text : open) watch.remove(text);
    return median_of(std::move(seconds));
  };
  PassTimes out;
  const std::int64_t most_texts = std::clamp<std::int64_t>(
      limits.blocks / (limits.blocks_of(kShortPrompt + rounds + 2) + limits.blocks_of(source)), 1,
      limits.sequences);
  std::vector<std::pair<std::int64_t, double>> short_answers;
  answers(1, kShortPrompt, source);  // clocks are warm
  for (const std::int64_t texts : doubling_counts(most_texts))
    short_answers.emplace_back(texts, answers(texts, kShortPrompt, source));

  const std::int64_t long_text = std::min(room - rounds - 2, 4 * limits.pass_tokens);
  // Passes of equally many tokens after ever more of them.
  std::vector<PassStopwatch::Pass> chunks;
  const std::int64_t chunk = std::clamp<std::int64_t>(long_text / 2, 1, limits.pass_tokens);
  const infer::SequenceId text = watch.begun(chunk, source);
  chunks.push_back(watch.pass());
  for (std::int64_t read = 2 * chunk; read <= long_text; read += chunk) {
    watch.append(text, chunk);
    chunks.push_back(watch.pass());
  }
  watch.remove(text);
  if (long_text > kShortPrompt)
    out.per_read = std::max(0.0, answers(1, long_text, source) - short_answers.front().second) /
                   static_cast<double>(long_text - kShortPrompt);
  const std::int64_t long_source =
      std::min(limits.source_tokens - limits.virtual_tokens,
               (limits.blocks - limits.blocks_of(kShortPrompt + rounds + 2)) * limits.block_tokens);
  if (source > 0 && long_source > source)
    out.per_source_read =
        std::max(0.0, answers(1, kShortPrompt, long_source) - short_answers.front().second) /
        static_cast<double>(long_source - source);
  out.per_pair = out.per_read;
  if (chunks.size() > 1)
    out.per_pair = std::max(0.0, chunks.back().seconds - chunks.front().seconds) /
                   (attended_pairs(chunks.back().begin, chunks.back().tokens) -
                    attended_pairs(chunks.front().begin, chunks.front().tokens));

  const double mean_context = static_cast<double>(kShortPrompt) + static_cast<double>(rounds) / 2 + 1;
  // What the tokens before it take an answer's token, and what the source takes any.
  const double of_source = out.per_source_read * static_cast<double>(source),
               of_text = out.per_read * mean_context + of_source;
  out.tokens.emplace_back(1, std::max(0.0, short_answers.front().second - of_text));
  for (const std::int64_t count :
       doubling_counts(std::min(room - (source > 0 ? 1 : 0), limits.pass_tokens))) {
    if (count == 1) continue;
    std::vector<double> seconds;
    for (int round = 0; round < rounds; ++round) {
      const infer::SequenceId prompt = watch.begun(count, source);
      seconds.push_back(watch.pass().seconds);
      watch.remove(prompt);
    }
    const double before =
        out.per_pair * attended_pairs(source > 0 ? 1 : 0, count) + of_source * static_cast<double>(count);
    out.tokens.emplace_back(count, std::max(0.0, median_of(std::move(seconds)) - before));
  }
  keep_pass_times_rising(out.tokens);
  for (const auto& [texts, seconds] : short_answers)
    out.scored.emplace_back(
        texts, std::max(0.0, seconds - at_count(out.tokens, texts) - of_text * static_cast<double>(texts)));
  keep_pass_times_rising(out.scored);
  if (source > 0) measure_sources(watch, limits, rounds, out);
  return out;
}

}  // namespace stoa::serve
