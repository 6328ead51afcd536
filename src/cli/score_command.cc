#include "cli/score_command.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/encoder_argument.h"
#include "cli/input_lines.h"
#include "cli/pair_argument.h"
#include "cli/print.h"
#include "infer/masked_losses.h"

namespace stoa::cli {
namespace {

struct ScoreArguments {
  ModelArguments model;
  std::string file;
  bool ids = false;
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

// Of line `number`. NumericsError: one is not a number, or infinite.
nlohmann::json logprobs_of(std::span<const float> losses, std::int64_t number) {
  nlohmann::json out = nlohmann::json::array();
  for (const float loss : losses) {
    require<NumericsError>(std::isfinite(loss), "line {}: log-probability {} is {}: {}", number,
                           out.size() + 1, -loss, infer::kBeyondRange);
    out.push_back(-static_cast<double>(loss));
  }
  return out;
}

// Of an encoder-decoder: a source, a tab and a target in every line.
void score_pairs(const ScoreArguments& arguments, InputLines& in) {
  PairModel model(arguments.model, !arguments.ids);
  std::vector<TokenPair> pairs;
  for (std::string line; in.next(line);) {
    const auto number = static_cast<std::int64_t>(pairs.size()) + 1;
    pairs.push_back(model.pair_of(line, number, [&](std::string_view text) {
      if (!arguments.ids) return model.ids_of(text);
      auto ids = parse_ids(std::string(text), number, model.model().vocabulary);
      model.check_length(ids.size());
      return ids;
    }));
  }
  if (pairs.empty()) return;
  model.load_for(pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    print_json_line(nlohmann::json{
        {"source_ids", pairs[i].source},
        {"ids", pairs[i].target},
        {"logprobs", logprobs_of(model.target_losses(pairs[i]), static_cast<std::int64_t>(i) + 1)}});
}

// Of an encoder: every token hidden in turn, all others seen; none for special tokens.
void score_masked(const ScoreArguments& arguments, InputLines& in) {
  LoadedEncoder loaded = load_encoder(arguments.model, {.masks = kMasksAtOnce});
  const token::TokenId mask = loaded.mask_id();
  const std::int64_t longest = loaded.rank->options().longest;
  std::int64_t number = 0;
  for (std::string line; in.next(line);) {
    ++number;
    const std::vector<std::int32_t> ids =
        arguments.ids ? parse_ids(line, number, loaded.rank->options().model.vocabulary)
                      : loaded.tokenizer->encode(line, {.plain = false, .add_special = true});
    check_length(ids, number, longest);
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (!loaded.tokenizer->is_special(ids[i]) || ids[i] == loaded.tokenizer->unk_id())
        rows.push_back(static_cast<std::int32_t>(i));
    std::vector<float> losses(rows.size());
    infer::masked_losses(*loaded.rank, mask, ids, rows, losses);
    nlohmann::json logprobs(ids.size(), nullptr);
    for (std::size_t i = 0; i < rows.size(); ++i)
      logprobs[static_cast<std::size_t>(rows[i])] = -static_cast<double>(losses[i]);
    print_json_line(nlohmann::json{{"ids", ids}, {"logprobs", logprobs}});
  }
}

void score_texts(const ScoreArguments& arguments, InputLines& in) {
  LoadedModel loaded = load_model(
      arguments.model, {.cache = false, .context = {}, .pass_tokens = 4096, .tokenizer = !arguments.ids});
  const std::int64_t longest = loaded.rank->decoder().pass_tokens();
  std::int64_t number = 0;
  for (std::string line; in.next(line);) {
    ++number;
    const std::vector<std::int32_t> ids =
        arguments.ids ? parse_ids(line, number, loaded.model.vocabulary)
                      : loaded.tokenizer->encode(line, {.plain = false, .add_special = true});
    check_length(ids, number, longest + 1);
    nlohmann::json logprobs = nlohmann::json::array();
    if (ids.size() > 1) {
      // The last token predicts nothing here, but a rotary table may depend on it: it is read by the length
      // of the whole text.
      const bool whole = loaded.rank->decoder().follows_length() && std::ssize(ids) <= longest;
      const std::int64_t n = std::ssize(ids) - (whole ? 0 : 1);
      std::vector<std::int32_t> labels(ids.begin() + 1, ids.end());
      if (whole) labels.push_back(ids.front());
      std::vector<float> losses(static_cast<std::size_t>(n));
      loaded.rank->losses(std::span(ids).first(losses.size()), labels, std::span(&n, 1), losses);
      logprobs = logprobs_of(std::span(losses).first(ids.size() - 1), number);
    }
    if (!ids.empty()) logprobs.insert(logprobs.begin(), nullptr);
    print_json_line(nlohmann::json{{"ids", ids}, {"logprobs", logprobs}});
  }
}

void score(const ScoreArguments& arguments) {
  InputLines in(arguments.file);
  switch (kind_of(arguments.model)) {
    case model::ModelKind::kGpt:
      return score_texts(arguments, in);
    case model::ModelKind::kBert:
      return score_masked(arguments, in);
    case model::ModelKind::kT5:
      return score_pairs(arguments, in);
  }
}

}  // namespace

void add_score_command(CLI::App& app, Context&) {
  auto arguments = std::make_shared<ScoreArguments>();
  CLI::App* command =
      app.add_subcommand("score",
                         "Log-probability of every token of every line; for encoders, of every token when it "
                         "is masked; for encoder-decoders, of the target's tokens, with lines of source, "
                         "tab, target. Example: echo 'To be' | stoa score runs/shakespeare");
  command->alias("logprobs");
  arguments->model.add_to(*command);
  command->add_option("FILE", arguments->file, "Text, one piece per line (default: standard input)");
  command->add_flag("--ids", arguments->ids, "Lines are token ids");
  command->callback([arguments] { score(*arguments); });
}

}  // namespace stoa::cli
