// `stoa score MODEL [FILE]` (alias logprobs).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/cache_arguments.h"
#include "cli/command.h"
#include "cli/input_lines.h"
#include "cli/model_argument.h"
#include "cli/print.h"
#include "cli/score_rewards.h"
#include "cli/team_arguments.h"
#include "data/text_reader.h"
#include "infer/engine/text_losses.h"
#include "infer/labelled_rows.h"
#include "infer/masked_losses.h"
#include "infer/probabilities.h"

namespace stoa::cli {
namespace {

struct ScoreArguments {
  ModelArguments model;
  TeamArguments team;
  CacheArguments cache;
  std::string file;
  bool ids = false, reward = false, follows = false;
};

std::vector<std::int32_t> parse_ids(const std::string& line, std::int64_t number, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    std::size_t end = 0;
    long long id = -1;
    try {
      id = std::stoll(word, &end);
    } catch (const std::exception&) {
    }
    require<DataError>(end == word.size() && id >= 0, "line {}: '{}' is not a token id", number, word);
    require<DataError>(id < vocabulary, "line {}: id {} is beyond the vocabulary of {}", number, id,
                       vocabulary);
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

void check_length(std::span<const std::int32_t> ids, std::int64_t number, std::int64_t most) {
  require<DataError>(static_cast<std::int64_t>(ids.size()) <= most,
                     "line {}: {} tokens, the model reads at most {}", number, ids.size(), most);
}

// `number`: of the input line. NumericsError: a value is NaN or infinite.
nlohmann::json logprobs_of(std::span<const float> losses, std::int64_t number) {
  nlohmann::json out = nlohmann::json::array();
  for (const float loss : losses) {
    require<NumericsError>(std::isfinite(loss), "line {}: log-probability {} is {}: {}", number,
                           out.size() + 1, -loss, infer::kBeyondRange);
    out.push_back(-static_cast<double>(loss));
  }
  return out;
}

// Scores targets with an encoder-decoder; every line is a source, a tab and a target.
void score_pairs(infer::OpenModel& model, bool as_ids, std::optional<DType> cache, InputLines& in,
                 infer::RankTeam* team) {
  const auto ids = [&](std::string_view text, std::int64_t number) {
    return as_ids ? parse_ids(std::string(text), number, model.model().vocabulary)
                  : infer::ids_with_end(model.tokenizer(), text);
  };
  std::vector<infer::TokenPair> pairs;
  for (std::string line; in.next(line);) {
    const auto number = std::ssize(pairs) + 1;
    pairs.push_back(infer::pair_of(line, number, model.model().config,
                                   [&](std::string_view text) { return ids(text, number); }));
  }
  if (pairs.empty()) return;
  const infer::EngineUse use = infer::use_for_pairs(model, pairs, {.tokenizer = !as_ids, .cache = cache});
  const auto rank = infer::load_passes(model, use, {}, team);
  constexpr std::size_t kAtOnce = 128;
  for (std::size_t begin = 0; begin < pairs.size(); begin += kAtOnce) {
    const auto window = std::span(pairs).subspan(begin, std::min(kAtOnce, pairs.size() - begin));
    const auto losses = infer::pair_losses(*rank, window);
    for (std::size_t i = 0; i < window.size(); ++i)
      print_json_line(
          nlohmann::json{{"source_ids", window[i].source},
                         {"ids", window[i].target},
                         {"logprobs", logprobs_of(losses[i], static_cast<std::int64_t>(begin + i) + 1)}});
  }
}

// Scores each token but special ones with an encoder that sees a mask in its place, and all others.
void score_masked(infer::OpenModel& model, bool as_ids, InputLines& in) {
  const auto rank = infer::load_encoder(model, {.masks = infer::kMasksAtOnce});
  const token::Tokenizer& tokenizer = model.tokenizer();
  const token::TokenId mask = infer::mask_id(model);
  const std::int64_t longest = rank->options().longest;
  std::int64_t number = 0;
  for (std::string line; in.next(line);) {
    ++number;
    const std::vector<std::int32_t> ids = as_ids
                                              ? parse_ids(line, number, model.model().vocabulary)
                                              : tokenizer.encode(line, {.plain = false, .add_special = true});
    check_length(ids, number, longest);
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (!tokenizer.is_special(ids[i]) || ids[i] == tokenizer.unk_id())
        rows.push_back(static_cast<std::int32_t>(i));
    std::vector<float> losses(rows.size());
    infer::masked_losses(*rank, mask, ids, rows, losses);
    nlohmann::json logprobs(ids.size(), nullptr);
    for (std::size_t i = 0; i < rows.size(); ++i)
      logprobs[static_cast<std::size_t>(rows[i])] = -static_cast<double>(losses[i]);
    print_json_line(nlohmann::json{{"ids", ids}, {"logprobs", logprobs}});
  }
}

// A line may have as many tokens as a gigabyte of keys and values holds, and some thousands at least.
std::int64_t most_tokens(infer::OpenModel& model, std::optional<DType> cache) {
  const std::size_t bytes = infer::bytes_per_token(model.model().config, infer::cache_type(model, cache));
  return std::max<std::int64_t>(4096,
                                1'000'000'000 / static_cast<std::int64_t>(std::max<std::size_t>(1, bytes)));
}

// Whether the second text of every line, behind a tab, follows the first, by the head that pretraining gave
// the encoder. Ids have their special tokens.
void score_follows(infer::OpenModel& model, bool as_ids, InputLines& in) {
  const auto rank = infer::load_encoder(model, {.pairs = 1});
  const infer::RowEncoder rows(model.tokenizer(), model.model().config, rank->options().longest);
  std::int64_t number = 0;
  for (std::string line; in.next(line);) {
    ++number;
    const auto tab = line.find('\t');
    require<DataError>(tab != line.npos, "line {}: expected two texts, a tab between them", number);
    const std::string first = line.substr(0, tab), second = line.substr(tab + 1);
    data::LabelledRow row;
    if (as_ids) {
      row.tokens = parse_ids(first, number, model.model().vocabulary);
      row.token_types.assign(row.tokens.size(), 0);
      const auto more = parse_ids(second, number, model.model().vocabulary);
      row.tokens.insert(row.tokens.end(), more.begin(), more.end());
      row.token_types.resize(row.tokens.size(), model.model().config.bert.num_token_types > 1 ? 1 : 0);
    } else {
      row = rows.pair(rows.ids_of(first), rows.ids_of(second));
    }
    check_length(row.tokens, number, rank->options().longest);
    require<DataError>(!row.tokens.empty(), "line {}: no tokens", number);
    const std::vector<std::int64_t> lengths{static_cast<std::int64_t>(row.tokens.size())};
    const auto logits = rank->follows(row.tokens, row.token_types, lengths);
    const double sum = infer::log_of_sum(logits);
    print_json_line(nlohmann::json{{"ids", row.tokens},
                                   {"types", row.token_types},
                                   {"follows", {{"yes", logits[0] - sum}, {"no", logits[1] - sum}}}});
  }
}

void score_texts(infer::OpenModel& model, bool as_ids, std::optional<DType> cache, InputLines& in,
                 infer::RankTeam* team) {
  if (!as_ids) model.tokenizer();  // a missing one is reported before the machine is made
  const infer::EngineUse use = infer::use_for_losses(
      model,
      {.text_tokens = most_tokens(model, cache), .pass_tokens = 4096, .tokenizer = !as_ids, .cache = cache});
  const auto rank = infer::load_passes(model, use, {}, team);
  const std::int64_t longest = infer::longest_text(rank->limits());
  std::int64_t number = 0;
  for (std::string line; in.next(line);) {
    ++number;
    const std::vector<std::int32_t> ids =
        as_ids ? parse_ids(line, number, model.model().vocabulary)
               : model.tokenizer().encode(line, {.plain = false, .add_special = true});
    check_length(ids, number, longest + 1);
    nlohmann::json logprobs = logprobs_of(infer::text_losses(*rank, ids), number);
    if (!ids.empty()) logprobs.insert(logprobs.begin(), nullptr);
    print_json_line(nlohmann::json{{"ids", ids}, {"logprobs", logprobs}});
  }
}

void score(const ScoreArguments& arguments, Context& context, infer::RankTeam* team) {
  InputLines in(arguments.file, arguments.reward && data::is_json_lines(arguments.file));
  infer::OpenModel model = arguments.model.open();
  require<ConfigError>(
      team == nullptr || (model.kind() != model::ModelKind::kBert && !arguments.reward && !arguments.follows),
      "--tp, --ep and --pp are for the log-probabilities of decoders and encoder-decoders");
  arguments.cache.require_use(model);
  if (arguments.reward)
    return score_rewards(model, in,
                         arguments.file.empty() || arguments.file == "-" ? "standard input" : arguments.file,
                         context.console);
  if (arguments.follows) return score_follows(model, arguments.ids, in);
  switch (model.kind()) {
    case model::ModelKind::kGpt:
      return score_texts(model, arguments.ids, arguments.cache.type(), in, team);
    case model::ModelKind::kBert:
      return score_masked(model, arguments.ids, in);
    case model::ModelKind::kT5:
      return score_pairs(model, arguments.ids, arguments.cache.type(), in, team);
  }
}

}  // namespace

void add_score_command(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<ScoreArguments>();
  CLI::App* command = app.add_subcommand(
      "score",
      "Log-probability of every token of every line; for encoders, of every token when it "
      "is masked; for encoder-decoders, of the target's tokens, with lines of source, "
      "tab, target; with --reward, what a reward model gives chats, pairs or texts. Example: "
      "echo 'To be' | stoa score runs/shakespeare");
  command->alias("logprobs");
  arguments->model.add_to(*command);
  arguments->model.weights.add_to(*command);
  arguments->team.add_to(*command);
  arguments->cache.add_to(*command);
  command->add_option("FILE", arguments->file, "Text, one piece per line (default: standard input)");
  command->add_flag("--ids", arguments->ids, "Lines are token ids");
  command->add_flag(
      "--follows", arguments->follows,
      "For encoders with the head of BERT's pretraining: lines are two texts, a tab between them; gives the "
      "log-probabilities that the second follows the first and that it does not");
  command
      ->add_flag(
          "--reward", arguments->reward,
          "Lines are records as those of tuning (chats, preference pairs, texts), MODEL gives each text "
          "a score ('stoa finetune --objective reward' or regression)")
      ->excludes("--ids")
      ->excludes("--follows")
      ->excludes("--kv-dtype");
  command->callback([arguments, &context] {
    arguments->model.machine.rows_apart =
        true;  // a line's figures do not depend on how it is cut into passes
    arguments->team.run(arguments->model.machine, context, [&](const TeamArguments::Run& run) {
      arguments->model.machine = run.machine;
      score(*arguments, context, run.team);
    });
  });
}

}  // namespace stoa::cli
