#include "cli/answer_sources.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/console.h"
#include "cli/answer_output.h"
#include "cli/answer_prompts.h"
#include "infer/engine/find_targets.h"
#include "infer/engine/write_text.h"
#include "infer/length_tables.h"
#include "infer/token_pair.h"

namespace stoa::cli {
namespace {

// Searches whose answers are written together.
constexpr std::size_t kSearches = 32;

// The longest texts that a command reads and writes.
struct SourceSizes {
  std::int64_t source = 1, answer = 1;

  void cover(std::int64_t source_tokens, std::int64_t answer_tokens) {
    source = std::max(source, source_tokens);
    answer = std::max(answer, answer_tokens);
  }
};

std::unique_ptr<infer::PassModel> load_for_sources(infer::OpenModel& model, const SourceSizes& sizes,
                                                   const AnswerOptions& options, infer::RankTeam* team) {
  const model::ModelConfig& config = model.model().config;
  infer::EngineUse use = options.use;
  use.pairs = true;
  use.source_tokens = sizes.source;
  use.context = sizes.answer;
  if (options.beams > 1) {
    use.sequences = std::max(use.sequences, 2 * options.beams);
    const std::int64_t most = 3 * options.beams * (std::max(sizes.source, sizes.answer) + 16);
    if (!use.cache_bytes)
      use.cache_bytes = std::max(
          1e9, static_cast<double>(infer::bytes_per_token(config, infer::cache_type(model, use.cache))) *
                   static_cast<double>(most));
  }
  auto out = infer::load_passes(model, use, {}, team);
  const infer::PassLimits& l = out->limits();
  // Else answers would end where the memory does, and depend on it.
  require<ConfigError>(
      l.longest(l.source_tokens) == l.context,
      "--kv-memory-gb {:g} holds {} tokens of keys and values, less than a source of {} and an "
      "answer of {}",
      options.use.cache_bytes.value_or(0) / 1e9, l.blocks * l.block_tokens, l.source_tokens, l.context);
  return out;
}

infer::SourceSearch search_of(const token::Tokenizer& tokenizer, const FilePrompt& prompt,
                              const AnswerOptions& options, std::int64_t longest) {
  infer::SearchLimits limits{std::min(longest, prompt.options.max_tokens),
                             [ends = infer::end_ids(tokenizer, prompt.options)](std::int32_t id) {
                               return std::ranges::find(ends, id) != ends.end();
                             }};
  return {infer::ids_with_end(tokenizer, prompt.text),
          infer::BeamSearch(options.beams, options.length_penalty, std::move(limits))};
}

// The answers to prompts that are searched together.
void search_window(infer::PassModel& model, const token::Tokenizer& tokenizer,
                   const std::vector<FilePrompt>& prompts, const AnswerOptions& options, AnswerList& answers,
                   const std::function<void(double searched)>& at,
                   const std::function<void()>& found_all = {}) {
  std::vector<infer::SourceSearch> searches;
  for (const FilePrompt& prompt : prompts)
    searches.push_back(search_of(tokenizer, prompt, options, model.limits().context));
  infer::find_targets(model, searches, at);
  if (found_all) found_all();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const infer::FoundTarget& found = searches[i].search.best();
    ListedAnswer answer;
    answer.prompt_ids = searches[i].source;
    answer.ids = found.ids;
    answer.text = tokenizer.decode(found.ids);
    answer.reason = found.ended ? infer::EndReason::kEndToken : infer::EndReason::kLength;
    answer.score = found.score;
    answers.add(prompts[i], answer);
  }
}

void search_file(infer::PassModel& model, const token::Tokenizer& tokenizer, const std::string& prompts,
                 const AnswerOptions& options, AnswerList& answers) {
  PromptFile file(prompts, options.sampling.options);
  FilePrompt prompt;
  std::vector<FilePrompt> window;
  for (bool more = true; more;) {
    more = file.next(prompt);
    if (more && !answers.has(prompt)) window.push_back(prompt);
    if (window.size() < kSearches && more) continue;
    search_window(model, tokenizer, window, options, answers,
                  [&](double searched) { answers.update(searched); });
    window.clear();
    answers.check_interrupt();
  }
  answers.finish();
}

void check_beams(const infer::OpenModel& model, const AnswerOptions& options,
                 const SamplingArguments& given) {
  if (options.beams == 1) return;
  const std::int64_t vocabulary = model.model().vocabulary;
  require<ConfigError>(
      options.beams <= vocabulary,
      "--beams {}: the targets of a search differ, and after their first token there are {} at "
      "most, one for each id of the vocabulary",
      options.beams, vocabulary);
  const infer::SamplingOptions& s = given.options.sampling;
  require<ConfigError>(given.options.stop.empty(), "--stop is for answers without --beams");
  require<ConfigError>(s.temperature == 1 && s.top_k == 0 && s.top_p == 1 && s.min_p == 0 &&
                           !s.further.any() && s.repetition_penalty == 1 && !s.greedy,
                       "--beams {} searches for the most likely text and does not sample: leave out "
                       "--temperature, --top-k, --top-p, "
                       "--min-p, --typical-p, --top-n-sigma, --xtc-probability, --repetition-penalty and "
                       "--greedy",
                       options.beams);
}

void check_line(const FilePrompt& prompt, const AnswerOptions& options) {
  require<DataError>(options.beams == 1 || prompt.options.stop.empty(),
                     "'stop' is for answers without --beams");
  require<DataError>(options.beams == 1 || !prompt.draws,
                     "--beams searches for the most likely text and does not draw: leave out all options "
                     "of the line but "
                     "max_tokens");
}

}  // namespace

void answer_source(infer::OpenModel& model, const std::string& prompt, const AnswerOptions& options,
                   Context& context, infer::RankTeam* team) {
  const token::Tokenizer& tokenizer = model.tokenizer();
  const infer::GenerateOptions& generate = options.sampling.options;
  std::vector<std::int32_t> source = infer::ids_with_end(tokenizer, prompt);
  const auto passes = load_for_sources(model, {std::ssize(source), generate.max_tokens}, options, team);
  if (options.beams == 1) {
    infer::Engine engine(*passes);
    AnswerOutput output(options.json);
    const auto result = infer::write_text(engine, tokenizer, std::move(source), generate,
                                          [&](std::string_view piece) { return output.write(piece), true; });
    return output.finish(prompt, result.prompt, result, options.sampling, context.console);
  }
  AnswerList answers({.output = {}, .json = options.json}, {}, context);
  FilePrompt line;
  line.line = 1;
  line.text = prompt;
  line.options = generate;
  const auto most = static_cast<double>(generate.max_tokens);
  Progress progress(context.console, "search", most, " tokens");
  search_window(
      *passes, tokenizer, {line}, options, answers,
      [&](double searched) { progress.update(searched * most); }, [&] { progress.finish(); });
  answers.finish();
}

void answer_source_file(infer::OpenModel& model, const std::string& prompts, const AnswerOptions& options,
                        AnswerList& answers, infer::RankTeam* team) {
  const token::Tokenizer& tokenizer = model.tokenizer();
  SourceSizes sizes;
  std::int64_t count = 0;
  if (is_read_once(prompts)) {
    sizes.cover(infer::longest_side(model.model().config, {}), options.sampling.options.max_tokens);
  } else {
    FilePrompt prompt;
    for (PromptFile file(prompts, options.sampling.options); file.next(prompt); ++count)
      file.at_place([&] {
        check_line(prompt, options);
        sizes.cover(std::ssize(source_ids(tokenizer, prompt)), prompt.options.max_tokens);
      });
    require<DataError>(count > 0, "{} has no prompts", prompts);
  }
  const auto passes = load_for_sources(model, sizes, options, team);
  if (options.beams == 1) {
    infer::Engine engine(*passes);
    return answer_prompts(engine, tokenizer, prompts, options.sampling.options, answers);
  }
  if (count > 0) answers.begin(count);
  search_file(*passes, tokenizer, prompts, options, answers);
}

SamplingArguments::Merged merged_for_sources(const infer::OpenModel& opened, const SamplingArguments& given,
                                             const AnswerOptions& options) {
  check_beams(opened, options, given);
  return given.merged(opened.generation_directory(), opened.special(), options.beams == 1);
}

}  // namespace stoa::cli
