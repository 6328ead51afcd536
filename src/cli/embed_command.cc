#include "cli/embed_command.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/file.h"
#include "cli/input_lines.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "infer/encoder_rank.h"

namespace stoa::cli {
namespace {

struct EmbedArguments {
  ModelArguments model;
  std::string file, pooling = "auto";
  std::int64_t max_length = 0;
  bool json = false, raw = false;
};

// What a sentence-transformers directory says beside the model; defaults where it says nothing.
struct SentenceOptions {
  bool cls = false;
  std::int64_t max_length = 0;
};

nlohmann::json read_object(const fs::path& path) {
  if (!fs::exists(path)) return nlohmann::json::object();
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  require<DataError>(json.is_object(), "{} is not a JSON object", path.string());
  return json;
}

SentenceOptions sentence_options(const fs::path& directory) {
  SentenceOptions out;
  const fs::path pooling = directory / "1_Pooling" / "config.json";
  const auto modes = read_object(pooling);
  for (const auto& [key, value] : modes.items()) {
    if (!key.starts_with("pooling_mode_") || !value.is_boolean() || !value.get<bool>()) continue;
    require<ConfigError>(key == "pooling_mode_cls_token" || key == "pooling_mode_mean_tokens",
                         "{}: {} is not supported; name one yourself: --pooling mean or cls",
                         pooling.string(), key);
    out.cls = key == "pooling_mode_cls_token";
  }
  const auto sentence = read_object(directory / "sentence_bert_config.json");
  if (const auto length = sentence.find("max_seq_length");
      length != sentence.end() && length->is_number_integer())
    out.max_length = length->get<std::int64_t>();
  return out;
}

class Embedder {
 public:
  Embedder(const EmbedArguments& a)
      : arguments_(a), model_(a.model.open()), rank_(infer::load_encoder(model_, {})) {
    const SentenceOptions said =
        a.pooling == "auto" || a.max_length == 0 ? sentence_options(model_.directory()) : SentenceOptions();
    cls_ = a.pooling == "auto" ? said.cls : a.pooling == "cls";
    const std::int64_t most = rank_->options().longest;
    require<ConfigError>(a.max_length <= most, "--max-length {}: the model reads at most {} tokens",
                         a.max_length, most);
    longest_ = a.max_length > 0 ? a.max_length : std::min(most, said.max_length > 0 ? said.max_length : most);
    end_ = model_.tokenizer().sep_id();
  }

  // Texts gather until a pass is full.
  void add(const std::string& line) {
    std::vector<token::TokenId> ids = model_.tokenizer().encode(line, {.plain = false, .add_special = true});
    if (static_cast<std::int64_t>(ids.size()) > longest_) {
      ids.resize(static_cast<std::size_t>(longest_));
      if (end_) ids.back() = *end_;
      ++shortened_;
    }
    require<DataError>(!ids.empty(), "an empty text: the tokenizer adds nothing to it");
    if (static_cast<std::int64_t>(tokens_.size() + ids.size()) > rank_->options().pass_tokens) flush();
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    lengths_.push_back(static_cast<std::int64_t>(ids.size()));
  }

  void flush() {
    if (lengths_.empty()) return;
    const std::span<const float> states = rank_->states(tokens_, lengths_);
    const auto hidden = static_cast<std::size_t>(rank_->options().model.config.hidden_size);
    std::size_t token = 0;
    for (const std::int64_t length : lengths_) {
      const auto used = static_cast<std::size_t>(cls_ ? 1 : length);
      std::vector<double> vector(hidden, 0.0);
      for (std::size_t t = 0; t < used; ++t)
        for (std::size_t i = 0; i < hidden; ++i)
          vector[i] += static_cast<double>(states[(token + t) * hidden + i]) / static_cast<double>(used);
      token += static_cast<std::size_t>(length);
      show(vector);
    }
    tokens_.clear();
    lengths_.clear();
  }

  std::int64_t shortened() const { return shortened_; }
  std::int64_t longest() const { return longest_; }

 private:
  void show(const std::vector<double>& vector) const {
    double squares = 0;
    for (const double x : vector) squares += x * x;
    const double scale = arguments_.raw || squares == 0 ? 1 : 1 / std::sqrt(squares);
    nlohmann::json json = nlohmann::json::array();
    std::string text;
    for (const double x : vector) {
      const auto value = static_cast<float>(x * scale);
      if (arguments_.json)
        json.push_back(value);
      else
        text += fmt::format("{}{}", text.empty() ? "" : " ", value);
    }
    if (arguments_.json) return print_json_line(nlohmann::json{{"embedding", json}});
    print(text + "\n");
  }

  const EmbedArguments& arguments_;
  infer::OpenModel model_;
  const std::unique_ptr<infer::EncoderRank> rank_;
  bool cls_ = false;
  std::int64_t longest_ = 0, shortened_ = 0;
  std::optional<token::TokenId> end_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> lengths_;
};

void embed(const EmbedArguments& arguments, Context& context) {
  InputLines in(arguments.file);
  Embedder embedder(arguments);
  for (std::string line; in.next(line);) embedder.add(line);
  embedder.flush();
  if (embedder.shortened() > 0)
    context.console.warn(
        fmt::format("{} lines were truncated to {} tokens", embedder.shortened(), embedder.longest()));
}

}  // namespace

void add_embed_command(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<EmbedArguments>();
  CLI::App* command = app.add_subcommand(
      "embed",
      "A vector per line of text, from an encoder (BERT, RoBERTa). Example: echo 'To be' | stoa embed "
      "models/all-MiniLM-L6-v2");
  arguments->model.add_to(*command);
  command->add_option("FILE", arguments->file, "Text, one piece per line (default: standard input)");
  command
      ->add_option("--pooling", arguments->pooling,
                   "mean of the tokens' states, or the first token's state; auto: as in the model's "
                   "1_Pooling, else mean")
      ->check(CLI::IsMember({"auto", "mean", "cls"}))
      ->capture_default_str();
  command
      ->add_option("--max-length", arguments->max_length,
                   "Longer texts are truncated to this many tokens (default: the model's limit)")
      ->check(between(1, 1 << 24));
  command->add_flag("--raw", arguments->raw, "Do not scale vectors to length 1");
  command->add_flag("--json", arguments->json, "{\"embedding\":[…]} per line");
  command->callback([arguments, &context] { embed(*arguments, context); });
}

}  // namespace stoa::cli
