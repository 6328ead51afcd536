// `stoa data show CONFIG --step N`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "cli/command.h"
#include "cli/config_source.h"
#include "cli/marked_text.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/schema.h"
#include "token/stream_decoder.h"
#include "train/tokenizer_choice.h"
#include "train/training_data.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ShowArguments {
  ConfigArguments config;
  std::int64_t step = 1, tokens = 48;
  bool json = false, chat = false;
};

// One row as chats: every token marked as trained or not.
std::string chats_of(const data::Batch& batch, std::int64_t r, const token::Tokenizer& tokenizer, Marks marks,
                     MarkedTokens which) {
  std::string out;
  for (const MarkedText& text : marked_texts(batch, r, tokenizer, marks, which))
    out += fmt::format("sample {}: {} tokens, {} {}\n{}\n\n", batch.samples[static_cast<std::size_t>(r)],
                       text.tokens, text.trained, which == MarkedTokens::kScored ? "scored" : "trained",
                       text.text);
  return out;
}

Json row_of(const data::Batch& batch, std::int64_t r, const data::Dataset& train,
            const token::Tokenizer* tokenizer) {
  const auto length = static_cast<std::size_t>(batch.sequence_length),
             at = static_cast<std::size_t>(r) * length;
  const auto tokens = std::span(batch.tokens).subspan(at, length);
  const std::int64_t sample = batch.samples[static_cast<std::size_t>(r)];
  Json row{{"sample", sample}};
  row["documents"] = Json::array();
  for (const auto& piece : train.pieces(sample))
    row["documents"].push_back({{"prefix", piece.prefix},
                                {"sequence", piece.sequence},
                                {"offset", piece.offset},
                                {"length", piece.length}});
  row["tokens"] = tokens;
  row["last_label"] = batch.labels[at + length - 1];
  row["boundaries"] = batch.boundaries(r);
  row["position_ids"] = std::span(batch.position_ids).subspan(at, length);
  Json masked = Json::array();
  for (std::size_t i = 0; i < length; ++i)
    if (batch.loss_mask[at + i] == 0) masked.push_back(i);
  row["without_loss"] = std::move(masked);
  if (tokenizer) row["text"] = token::replace_invalid_utf8(tokenizer->decode(tokens));
  return row;
}

std::string describe(const Json& row, const token::Tokenizer* tokenizer, std::int64_t shown) {
  std::string out = fmt::format("sample {}\n", row["sample"].get<std::int64_t>());
  std::int64_t at = 0;
  for (const auto& d : row["documents"]) {
    const auto length = d["length"].get<std::int64_t>(), offset = d["offset"].get<std::int64_t>();
    out += fmt::format("  {:>6}  {} document {}, tokens {} to {}\n", at, d["prefix"].get<std::string>(),
                       d["sequence"].get<std::int64_t>(), offset, offset + length - 1);
    at += length;
  }
  const auto& tokens = row["tokens"];
  const auto count = std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(shown));
  std::vector<token::TokenId> ids(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
  const char* more = count < tokens.size() ? " …" : "";
  out += fmt::format("  ids   {}{}\n", fmt::join(ids, " "), more);
  if (tokenizer)
    out +=
        fmt::format("  text  {}{}\n", Json(token::replace_invalid_utf8(tokenizer->decode(ids))).dump(), more);
  if (!row["without_loss"].empty())
    out += fmt::format("  {} positions carry no loss\n", row["without_loss"].size());
  return out;
}

void show(const ShowArguments& a, Context& context) {
  const train::RunConfig config = load_config(a.config, Purpose::kTrain, context.console);
  require<UsageError>(!a.chat || config.chats.chat, "--chat shows data of model.data.chat=true");
  const auto tokenizer = train::load_run_tokenizer(config).tokenizer;
  const token::Tokenizer* const names = tokenizer ? &*tokenizer : nullptr;
  const auto resume = train::checkpoint_to_resume(config, ckpt::Verify::kSizes);
  const auto planned = train::plan_with_data(
      config, names, [&](std::string_view note) { context.console.line(note); }, {},
      resume ? &resume->manifest->training : nullptr);
  const auto& plan = planned.plan;
  require<ConfigError>(a.step >= 1 && a.step <= plan.steps, "--step {}: the run has steps 1 to {}", a.step,
                       plan.steps);
  const data::Dataset& train = *planned.datasets.train;
  const std::int64_t consumed = plan.batch.samples_after(a.step - 1);
  data::Batch batch;
  data::fill_batch(train, train::samples_of_step(plan, train, consumed), batch);
  Json answer{{"step", a.step},
              {"steps", plan.steps},
              {"first_sample", consumed},
              {"samples", batch.rows},
              {"sequence_length", batch.sequence_length},
              {"loss_tokens", batch.valid_tokens}};
  if (!a.json)
    print(fmt::format("step {} of {}: samples {} to {} of the run, {} tokens each, {} carry loss\n", a.step,
                      plan.steps, consumed, consumed + batch.rows - 1, batch.sequence_length,
                      batch.valid_tokens));
  const Marks marks = ::isatty(STDOUT_FILENO) != 0 ? Marks::kColours : Marks::kBrackets;
  const MarkedTokens which = config.objective.scores() ? MarkedTokens::kScored : MarkedTokens::kPredicted;
  if (a.chat) print(legend(marks, which) + "\n\n");
  answer["rows"] = Json::array();
  for (std::int64_t r = 0; r < batch.rows; ++r) {
    if (a.chat) {
      print(chats_of(batch, r, *names, marks, which));
      continue;
    }
    Json row = row_of(batch, r, train, names);
    if (a.json)
      answer["rows"].push_back(std::move(row));
    else
      print(describe(row, names, a.tokens));
  }
  if (a.json) print_json_line(answer);
}

}  // namespace

void add_data_show(CLI::App& data, Context& context) {
  auto a = std::make_shared<ShowArguments>();
  CLI::App* c = data.add_subcommand("show", "The documents and tokens of one step of a run");
  c->footer("Example: stoa data show tiny model.data=data/corpus model.tokenizer=tok --step 3");
  a->config.add_to(*c);
  a->config.add_output(*c);
  c->add_option("--step", a->step, "Which step, counted from 1 as in the progress line")
      ->capture_default_str()
      ->check(between(1, 1e12));
  c->add_option("--tokens", a->tokens, "How many tokens of each sample are shown (--json: all)")
      ->capture_default_str()
      ->check(between(1, 1e9));
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->add_flag("--chat", a->chat, "Samples of model.data.chat as text, every token marked as trained or not")
      ->excludes("--json");
  c->callback([a, &context] { show(*a, context); });
}

}  // namespace stoa::cli
