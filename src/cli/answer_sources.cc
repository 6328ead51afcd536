#include "cli/answer_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
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

void answer_one(infer::PairModel& model, infer::EncoderDecoderRank& rank, const std::string& prompt,
                const std::vector<std::int32_t>& source, const AnswerOptions& options,
                const SamplingArguments::Merged& merged, Context& context) {
  const infer::TokenFeed feed{.feed =
                                  [&](std::span<const std::int32_t> tokens) {
                                    return rank.fed() == 0 ? rank.read({source}, tokens[0])
                                                           : rank.feed(tokens);
                                  },
                              .room = [&] { return rank.options().target_tokens - rank.fed(); }};
  AnswerOutput output(options.json);
  const auto result = infer::generate_ids(feed, model.tokenizer(), {model.start()}, merged.options,
                                          [&](std::string_view piece) { return output.write(piece), true; });
  output.finish(prompt, source, result, merged, context.console);
}

void answer_all(infer::PairModel& model, infer::EncoderDecoderRank& rank,
                const std::vector<std::string>& prompts,
                const std::vector<std::vector<std::int32_t>>& sources, const AnswerOptions& options,
                const SamplingArguments::Merged& merged, Context& context) {
  const infer::SearchLimits limits{rank.options().target_tokens, [&](std::int32_t id) {
                                     return infer::ends_answer(id, model.tokenizer(), merged.options);
                                   }};
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
  const auto merged = options.sampling.merged(opened.generation_directory(), opened.special(), options.beams == 1);
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
