#include "cli/score_command.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/pair_argument.h"

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

std::vector<std::string> lines_of(std::istream& in) {
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// Of an encoder-decoder: a source, a tab and a target in every line.
void score_pairs(const ScoreArguments& arguments, std::istream& in) {
  PairModel model(arguments.model, !arguments.ids);
  struct Pair {
    std::vector<std::int32_t> source, target;
  };
  std::vector<Pair> pairs;
  PairModel::Sizes sizes;
  const auto ids_of = [&](const std::string& text) {
    if (!arguments.ids) return model.ids_of(text);
    auto ids = parse_ids(text, static_cast<std::int64_t>(pairs.size()) + 1, model.model().vocabulary);
    model.check_length(ids.size());
    return ids;
  };
  for (const std::string& line : lines_of(in)) {
    const auto tab = line.find('\t');
    require<DataError>(tab != std::string::npos && line.find('\t', tab + 1) == std::string::npos,
                       "line {}: an encoder-decoder rates a source, a tab and a target", pairs.size() + 1);
    Pair pair{ids_of(line.substr(0, tab)), ids_of(line.substr(tab + 1))};
    require<DataError>(!pair.source.empty() && !pair.target.empty(), "line {}: no ids on a side of the tab",
                       pairs.size() + 1);
    sizes.source_tokens = std::max(sizes.source_tokens, static_cast<std::int64_t>(pair.source.size()));
    sizes.target_tokens = std::max(sizes.target_tokens, static_cast<std::int64_t>(pair.target.size()));
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) return;
  run::EncoderDecoderRank& rank = model.load(sizes);
  for (const Pair& pair : pairs) {
    std::vector<std::int32_t> inputs{model.start()};
    inputs.insert(inputs.end(), pair.target.begin(), pair.target.end() - 1);
    std::vector<float> losses(inputs.size());
    rank.losses(pair.source, inputs, pair.target, losses);
    nlohmann::json logprobs = nlohmann::json::array();
    for (const float loss : losses) logprobs.push_back(-static_cast<double>(loss));
    std::cout
        << nlohmann::json{{"source_ids", pair.source}, {"ids", pair.target}, {"logprobs", logprobs}}.dump()
        << "\n";
  }
}

void score_texts(const ScoreArguments& arguments, std::istream& in) {
  LoadedModel loaded = load_model(
      arguments.model, {.cache = false, .context = {}, .pass_tokens = 4096, .tokenizer = !arguments.ids});
  const std::int64_t longest = loaded.rank->decoder().pass_tokens();
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::vector<std::int32_t> ids =
        arguments.ids ? parse_ids(line, number, loaded.model.vocabulary)
                      : loaded.tokenizer->encode(line, {.plain = false, .add_special = true});
    require<DataError>(static_cast<std::int64_t>(ids.size()) <= longest + 1,
                       "line {}: {} tokens, the model reads at most {}", number, ids.size(), longest + 1);
    nlohmann::json logprobs = nlohmann::json::array();
    if (!ids.empty()) logprobs.push_back(nullptr);
    if (ids.size() > 1) {
      const auto n = static_cast<std::int64_t>(ids.size()) - 1;
      std::vector<float> losses(static_cast<std::size_t>(n));
      loaded.rank->losses(std::span(ids).first(ids.size() - 1), std::span(ids).subspan(1), std::span(&n, 1),
                          losses);
      for (const float loss : losses) logprobs.push_back(-static_cast<double>(loss));
    }
    std::cout << nlohmann::json{{"ids", ids}, {"logprobs", logprobs}}.dump() << "\n";
  }
}

void score(const ScoreArguments& arguments) {
  std::ifstream file;
  if (!arguments.file.empty() && arguments.file != "-") {
    file.open(arguments.file);
    require<IoError>(static_cast<bool>(file), "cannot read '{}'", arguments.file);
  }
  std::istream& in = file.is_open() ? file : std::cin;
  if (kind_of(arguments.model) == model::ModelKind::kT5) return score_pairs(arguments, in);
  score_texts(arguments, in);
}

}  // namespace

void add_score_command(CLI::App& app, Context&) {
  auto arguments = std::make_shared<ScoreArguments>();
  CLI::App* command = app.add_subcommand("score",
                                         "Log-probability of every token of every line; of encoder-decoders, "
                                         "of every target of lines of source, "
                                         "tab, target. Example: echo 'To be' | stoa score runs/shakespeare");
  command->alias("logprobs");
  arguments->model.add_to(*command);
  command->add_option("FILE", arguments->file, "Text, one piece per line (default: standard input)");
  command->add_flag("--ids", arguments->ids, "Lines are token ids");
  command->callback([arguments] { score(*arguments); });
}

}  // namespace stoa::cli
