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

infer::SamplingOptions sampling_of(const infer::PairModel& model, const infer::GenerateOptions& options) {
  infer::SamplingOptions out = options.sampling;
  out.ends = infer::end_ids(model.tokenizer(), options);
  return out;
}

// A target that is shown while it is drawn.
class WrittenTarget final : public infer::TargetSearch {
 public:
  WrittenTarget(const infer::PairModel& model, const infer::GenerateOptions& options,
                const infer::SearchLimits& limits, const infer::TakeText& take)
      : target_(sampling_of(model, options), limits, model.start()),
        writer_(model.tokenizer(), options, take) {}

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

// Sources that are read together.
constexpr std::size_t kSources = 32;

infer::SearchLimits limits_of(infer::PairModel& model, infer::EncoderDecoderRank& rank,
                              const infer::GenerateOptions& options) {
  return {std::min(rank.options().target_tokens, options.max_tokens),
          [ends = infer::end_ids(model.tokenizer(), options)](std::int32_t id) {
            return std::ranges::find(ends, id) != ends.end();
          }};
}

void answer_one(infer::PairModel& model, infer::EncoderDecoderRank& rank, const std::string& prompt,
                const std::vector<std::int32_t>& source, const AnswerOptions& options, Context& context) {
  AnswerOutput output(options.json);
  const infer::TakeText take = [&](std::string_view piece) { return output.write(piece), true; };
  std::vector<std::unique_ptr<infer::TargetSearch>> searches;
  auto target = std::make_unique<WrittenTarget>(model, options.sampling.options,
                                                limits_of(model, rank, options.sampling.options), take);
  const WrittenTarget& written = *target;
  searches.push_back(std::move(target));
  infer::answer_pairs(rank, {source}, model.start(), searches);
  output.finish(prompt, source, written.result, options.sampling, context.console);
}

// The answers to prompts that are read together.
void answer_window(infer::PairModel& model, infer::EncoderDecoderRank& rank,
                   const std::vector<FilePrompt>& prompts, const AnswerOptions& options,
                   AnswerList& answers) {
  std::vector<std::vector<std::int32_t>> sources;
  std::vector<ListedAnswer> out(prompts.size());
  std::vector<infer::TakeText> takes;
  takes.reserve(prompts.size());
  std::vector<std::unique_ptr<infer::TargetSearch>> searches;
  std::vector<const WrittenTarget*> written;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const infer::GenerateOptions& own = prompts[i].options;
    sources.push_back(out[i].prompt_ids = model.ids_of(prompts[i].text));
    const infer::SearchLimits limits = limits_of(model, rank, own);
    if (options.beams > 1) {
      searches.push_back(std::make_unique<infer::BeamSearch>(options.beams, options.length_penalty, limits));
      continue;
    }
    takes.emplace_back([&text = out[i].text](std::string_view piece) { return text += piece, true; });
    auto target = std::make_unique<WrittenTarget>(model, own, limits, takes.back());
    written.push_back(target.get());
    searches.push_back(std::move(target));
  }
  const auto found = infer::answer_pairs(rank, sources, model.start(), searches);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    ListedAnswer& answer = out[i];
    if (options.beams > 1) {
      answer.ids = found[i].ids;
      answer.text = model.tokenizer().decode(answer.ids);
      answer.reason = found[i].ended ? infer::EndReason::kEndToken : infer::EndReason::kLength;
      answer.score = found[i].score;
    } else {
      answer.ids = written[i]->result.answer;
      answer.reason = written[i]->result.reason;
    }
    answers.add(prompts[i], answer);
  }
}

void check_beams(const AnswerOptions& options, const SamplingArguments& given) {
  if (options.beams == 1) return;
  const infer::SamplingOptions& s = given.options.sampling;
  require<ConfigError>(given.options.stop.empty(), "--stop is for answers without --beams");
  require<ConfigError>(s.temperature == 1 && s.top_k == 0 && s.top_p == 1 && s.min_p == 0 &&
                           s.repetition_penalty == 1 && !s.greedy,
                       "--beams {} searches for the most likely text and does not sample: leave out "
                       "--temperature, --top-k, --top-p, "
                       "--min-p, --repetition-penalty and --greedy",
                       options.beams);
}

}  // namespace

void answer_source(infer::OpenModel& opened, const std::string& prompt, const AnswerOptions& options,
                   Context& context) {
  infer::PairModel model(opened);
  const std::vector<std::int32_t> source = model.ids_of(prompt);
  infer::PairModel::Sizes sizes;
  sizes.source_tokens = std::ssize(source);
  sizes.targets = options.beams;
  sizes.target_tokens = model.longest(options.sampling.options.max_tokens);
  infer::EncoderDecoderRank& rank = model.load(sizes);
  if (options.beams == 1) return answer_one(model, rank, prompt, source, options, context);
  AnswerList answers({.output = {}, .json = options.json}, {}, context);
  FilePrompt line;
  line.line = 1;
  line.text = prompt;
  line.options = options.sampling.options;
  answer_window(model, rank, {line}, options, answers);
  answers.finish();
}

void answer_source_file(infer::OpenModel& opened, const std::string& prompts, const AnswerOptions& options,
                        AnswerList& answers) {
  require<ConfigError>(prompts != "-", "--prompts -: encoder-decoders read the prompts twice: give a file");
  infer::PairModel model(opened);
  infer::PairModel::Sizes sizes;
  FilePrompt prompt;
  std::int64_t count = 0, longest_answer = 0;
  for (PromptFile file(prompts, options.sampling.options); file.next(prompt); ++count)
    file.at_place([&] {
      require<DataError>(!prompt.messages, "'messages' are for models that continue a text: give a 'prompt'");
      require<DataError>(options.beams == 1 || prompt.options.stop.empty(),
                         "'stop' is for answers without --beams");
      require<DataError>(options.beams == 1 || !prompt.draws,
                         "--beams searches for the most likely text and does not draw: leave out all options "
                         "of the line but "
                         "max_tokens");
      sizes.source_tokens = std::max(sizes.source_tokens, std::ssize(model.ids_of(prompt.text)));
      longest_answer = std::max(longest_answer, prompt.options.max_tokens);
    });
  require<DataError>(count > 0, "{} has no prompts", prompts);
  answers.begin(count);
  sizes.sources = std::min<std::int64_t>(count, kSources);
  sizes.targets = sizes.sources * options.beams;
  sizes.target_tokens = model.longest(longest_answer);
  infer::EncoderDecoderRank& rank = model.load(sizes);
  PromptFile file(prompts, options.sampling.options);
  std::vector<FilePrompt> window;
  for (bool more = true; more;) {
    more = file.next(prompt);
    if (more && !answers.has(prompt)) window.push_back(prompt);
    if (window.size() < kSources && more) continue;
    if (!window.empty()) answer_window(model, rank, window, options, answers);
    window.clear();
    answers.check_interrupt();
  }
  answers.finish();
}

SamplingArguments::Merged merged_for_sources(const infer::OpenModel& opened, const SamplingArguments& given,
                                             const AnswerOptions& options) {
  check_beams(options, given);
  return given.merged(opened.generation_directory(), opened.special(), options.beams == 1);
}

}  // namespace stoa::cli
