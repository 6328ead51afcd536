#include "cli/answer_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/timing.h"
#include "cli/answer_output.h"
#include "infer/answer_pairs.h"
#include "infer/pair_model.h"

namespace stoa::cli {
namespace {

std::string end_of(bool ended) {
  return infer::name_of(ended ? infer::EndReason::kEndToken : infer::EndReason::kLength);
}

// A target that is shown while it is drawn.
class WrittenTarget final : public infer::TargetSearch {
 public:
  WrittenTarget(const infer::PairModel& model, const infer::GenerateOptions& options,
                const infer::SearchLimits& limits, const infer::TakeText& take)
      : target_(options.sampling, limits, model.start()), writer_(model.tokenizer(), options, take) {}

  bool advance(std::span<const float> logits) override {
    if (result.answer.empty()) result.prompt_seconds = seconds_since(begin_), begin_ = Clock::now();
    const bool on = target_.advance(logits);
    const std::vector<std::int32_t>& ids = target_.found().ids;
    if (target_.found().ended || ids.empty()) return finish(infer::EndReason::kEndToken);
    if (!std::isfinite(logits[static_cast<std::size_t>(ids.back())]))
      return finish(infer::EndReason::kNotANumber);
    result.answer.push_back(ids.back());
    if (!writer_.push(ids.back()) || !on) return finish(infer::EndReason::kLength);
    tokens_ = {ids.back()};
    parents_ = {0};
    return true;
  }
  infer::FoundTarget best() const override { return target_.best(); }

  infer::GenerateResult result;

 private:
  using Clock = std::chrono::steady_clock;
  bool finish(infer::EndReason reason) {
    result.reason = writer_.finish(reason);
    result.answer_seconds = seconds_since(begin_);
    return false;
  }

  infer::DrawnTarget target_;
  infer::AnswerWriter writer_;
  Clock::time_point begin_ = Clock::now();
};

infer::SearchLimits limits_of(infer::PairModel& model, infer::EncoderDecoderRank& rank,
                              const infer::GenerateOptions& options) {
  return {rank.options().target_tokens, [ends = infer::end_ids(model.tokenizer(), options)](std::int32_t id) {
            return std::ranges::find(ends, id) != ends.end();
          }};
}

void answer_one(infer::PairModel& model, infer::EncoderDecoderRank& rank, const std::string& prompt,
                const std::vector<std::int32_t>& source, const AnswerOptions& options,
                const SamplingArguments::Merged& merged, Context& context) {
  AnswerOutput output(options.json);
  const infer::TakeText take = [&](std::string_view piece) { return output.write(piece), true; };
  infer::SearchLimits limits = limits_of(model, rank, merged.options);
  limits.max_tokens = std::min(limits.max_tokens, merged.options.max_tokens);
  std::vector<std::unique_ptr<infer::TargetSearch>> searches;
  auto target = std::make_unique<WrittenTarget>(model, merged.options, limits, take);
  const WrittenTarget& written = *target;
  searches.push_back(std::move(target));
  infer::answer_pairs(rank, {source}, model.start(), searches);
  output.finish(prompt, source, written.result, merged, context.console);
}

void answer_all(infer::PairModel& model, infer::EncoderDecoderRank& rank,
                const std::vector<std::string>& prompts,
                const std::vector<std::vector<std::int32_t>>& sources, const AnswerOptions& options,
                const SamplingArguments::Merged& merged, Context& context) {
  const infer::SearchLimits limits = limits_of(model, rank, merged.options);
  std::vector<std::unique_ptr<infer::TargetSearch>> searches;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (options.beams > 1) {
      searches.push_back(std::make_unique<infer::BeamSearch>(options.beams, options.length_penalty, limits));
      continue;
    }
    infer::SamplingOptions sampling = merged.options.sampling;
    sampling.seed += i;  // each source its own draws
    searches.push_back(std::make_unique<infer::DrawnTarget>(sampling, limits, model.start()));
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto found = infer::answer_pairs(rank, sources, model.start(), searches);
  const double seconds = seconds_since(begin);
  std::size_t tokens = 0;
  for (const auto& target : found) tokens += target.ids.size();
  const double rate = static_cast<double>(tokens) / std::max(1e-9, seconds);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string text = model.tokenizer().decode(found[i].ids);
    if (!options.json) {
      print(text + "\n");
      continue;
    }
    nlohmann::json line{{"prompt", prompts[i]},
                        {"text", text},
                        {"prompt_ids", sources[i]},
                        {"ids", found[i].ids},
                        {"end", end_of(found[i].ended)},
                        {"tokens_per_second", rate},
                        {"from_generation_config", merged.taken},
                        {"not_followed", merged.not_followed}};
    if (options.beams > 1) line["score"] = found[i].score;
    print_json_line(line);
  }
  if (!options.json)
    context.console.line(fmt::format("{} answers, {} tokens, {:.1f} tokens/s", found.size(), tokens, rate));
}

}  // namespace

void answer_sources(infer::OpenModel& opened, const std::vector<std::string>& prompts,
                    const AnswerOptions& options, Context& context) {
  const bool together = prompts.size() > 1 || options.beams > 1;
  const infer::SamplingOptions& s = options.sampling.options.sampling;
  require<ConfigError>(!together || options.sampling.options.stop.empty(),
                       "--stop is for one --prompt without --beams");
  require<ConfigError>(options.beams == 1 || (s.temperature == 1 && s.top_k == 0 && s.top_p == 1 &&
                                              s.min_p == 0 && s.repetition_penalty == 1 && !s.greedy),
                       "--beams {} searches for the most likely text and does not sample: leave out "
                       "--temperature, --top-k, --top-p, "
                       "--min-p, --repetition-penalty and --greedy",
                       options.beams);
  infer::PairModel model(opened);
  const auto merged =
      options.sampling.merged(opened.generation_directory(), opened.special(), options.beams == 1);
  if (!options.json) merged.say(context.console);
  std::vector<std::vector<std::int32_t>> sources;
  infer::PairModel::Sizes sizes;
  for (const std::string& prompt : prompts) {
    sources.push_back(model.ids_of(prompt));
    sizes.source_tokens = std::max(sizes.source_tokens, static_cast<std::int64_t>(sources.back().size()));
  }
  sizes.sources = static_cast<std::int64_t>(prompts.size());
  sizes.targets = sizes.sources * options.beams;
  sizes.target_tokens = model.longest(merged.options.max_tokens);
  infer::EncoderDecoderRank& rank = model.load(sizes);
  if (together) return answer_all(model, rank, prompts, sources, options, merged, context);
  answer_one(model, rank, prompts[0], sources[0], options, merged, context);
}

}  // namespace stoa::cli
