// `stoa eval perplexity MODEL --text FILE`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/timing.h"
#include "cli/cache_arguments.h"
#include "cli/calibration_tokens.h"
#include "cli/command.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/team_arguments.h"
#include "cli/text_files.h"
#include "eval/divergence.h"
#include "eval/model_perplexity.h"
#include "infer/engine/paged_decoder.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct PerplexityArguments {
  ModelArguments model;
  TeamArguments team;
  CacheArguments cache;
  TextArguments form;
  std::string text;
  std::optional<std::int64_t> window, stride;
  std::int64_t pass_tokens = 4096, divergence_tokens = 0;
  bool plain = false, json = false;
};

// The settings of the measurement, as text.
std::string settings_text(const eval::ModelPerplexity& measured, model::ModelKind kind) {
  return kind == model::ModelKind::kT5
             ? "whole pairs"
             : fmt::format("window {}, stride {}", measured.window, measured.stride);
}

Json settings_of(const eval::ModelPerplexity& measured, model::ModelKind kind) {
  if (kind == model::ModelKind::kT5) return {{"pairs", measured.pairs}};
  Json out{{"window", measured.window}, {"stride", measured.stride}};
  if (kind == model::ModelKind::kBert)
    out["masked"] = true;
  else
    out["prefix_token"] = measured.prefix ? Json(*measured.prefix) : Json(nullptr);
  return out;
}

// Which tokens the figures count.
std::string note_on(const eval::ModelPerplexity& measured, model::ModelKind kind) {
  switch (kind) {
    case model::ModelKind::kBert:
      return "an encoder: every token is predicted from all others of its window (pseudo-perplexity)";
    case model::ModelKind::kT5:
      return "an encoder-decoder: tokens, words and bytes are those of the targets, with the token that ends "
             "each";
    case model::ModelKind::kGpt:
      break;
  }
  return measured.prefix
             ? fmt::format("every document begins with {}, so that its first token is predicted too",
                           *measured.prefix)
             : "the tokenizer has no beginning-of-text token: the first token of a document is not counted";
}

// From the same weights, decoded, in fp32.
eval::Divergence divergence(const PerplexityArguments& a, const data::TextFile& text, Context& context) {
  constexpr std::int64_t kLongest = 256;
  ModelArguments decoded = a.model;
  decoded.weights.form = infer::QuantisedWeights::kDecoded;
  decoded.dtype = "fp32";
  infer::OpenModel original = decoded.open(), model = a.model.open();
  const std::vector<std::int32_t> ids = calibration_tokens(original, text, a.divergence_tokens + 1);
  infer::EngineUse use{.context = kLongest, .sequences = 1, .pass_tokens = 1, .scored = 1};
  use.cache = DType::kF32;
  const auto first = infer::load_paged_decoder(original, use);
  use.cache = a.cache.type();
  const auto second = infer::load_paged_decoder(model, use);
  const auto room = [](const infer::PassModel& m) {
    return m.limits().longest() - m.limits().virtual_tokens;
  };
  const std::int64_t window = std::min({kLongest, room(*first), room(*second)});
  Progress progress(context.console, "compare", static_cast<double>(ids.size() - 1), "tokens");
  const auto out = eval::measure_divergence(
      *first, *second, ids, window, [&](std::int64_t done) { progress.update(static_cast<double>(done)); });
  progress.finish();
  return out;
}

void perplexity(const PerplexityArguments& a, Context& context, infer::RankTeam* team) {
  require<ConfigError>(!a.window || *a.window >= 1, "--window must be at least 1, got {}",
                       a.window.value_or(0));
  require<ConfigError>(a.divergence_tokens == 0 || team == nullptr,
                       "--divergence compares models on one rank: leave out --tp, --ep and --pp");
  require<ConfigError>(a.pass_tokens >= 1, "--pass-tokens must be at least 1, got {}", a.pass_tokens);
  const data::TextFile text = a.form.file(a.text);
  // A missing file is reported before the model is loaded, which takes long.
  Progress progress(context.console, "read", static_cast<double>(data::describe_input(text.path, {}).bytes),
                    "B");
  const auto begin = Clock::now();
  infer::OpenModel model = a.model.open();
  a.cache.require_use(model);
  const model::ModelKind kind = model.kind();
  const eval::ModelPerplexity measured =
      eval::model_perplexity(model, text, {a.window, a.stride, a.pass_tokens, a.plain, a.cache.type(), team},
                             [&](double bytes) { progress.update(bytes); });
  progress.finish();
  std::optional<eval::Divergence> apart;
  if (a.divergence_tokens > 0) apart = divergence(a, text, context);
  const eval::PerplexityResult& r = measured.result;
  const double rate = static_cast<double>(r.read_tokens) / std::max(1e-9, measured.model_seconds);
  if (a.json) {
    Json answer{{"model", a.model.model}, {"text", a.text},   {"documents", r.documents},
                {"tokens", r.tokens},     {"words", r.words}, {"bytes", r.bytes}};
    answer.update(settings_of(measured, kind));
    answer["dtype"] = name_of(measured.dtype);
    answer["loss"] = r.loss();
    answer["perplexity"] = r.perplexity();
    answer["word_perplexity"] = r.words > 0 ? Json(r.word_perplexity()) : Json(nullptr);
    answer["bits_per_byte"] = r.bits_per_byte();
    answer["tokens_read"] = r.read_tokens;
    answer["tokens_per_second"] = rate;
    if (apart) {
      answer["kl_divergence"] = apart->kl();
      answer["top_agreement"] = apart->top_agreement();
    }
    answer["seconds"] = seconds_since(begin);
    return print_json_line(answer);
  }
  print(fmt::format(
      "loss {:.4f} nats per token | perplexity {:.3f} | word perplexity {} | {:.4f} bits per byte\n"
      "{} tokens, {} words, {} bytes in {} document{} | {}: {} tokens read, {} tokens/s\n"
      "{}\n",
      r.loss(), r.perplexity(), r.words > 0 ? fmt::format("{:.3f}", r.word_perplexity()) : "none (no words)",
      r.bits_per_byte(), r.tokens, r.words, r.bytes, r.documents, r.documents == 1 ? "" : "s",
      settings_text(measured, kind), r.read_tokens, format_count(rate), note_on(measured, kind)));
  if (apart)
    print(
        fmt::format("from the decoded weights in fp32: KL divergence {:.6f} nats | same first choice {:.2f} "
                    "% | {} tokens\n",
                    apart->kl(), 100 * apart->top_agreement(), apart->tokens));
}

}  // namespace

void add_eval_perplexity(CLI::App& eval, Context& context) {
  auto a = std::make_shared<PerplexityArguments>();
  CLI::App* c = eval.add_subcommand(
      "perplexity",
      "Loss per token, word perplexity and bits per byte of a text. A window "
      "slides over the tokens; each token counts once, with the longest context in its window. Encoders read "
      "the window once for every token, with that token masked (pseudo-perplexity). Encoder-decoders score "
      "lines of source, tab, target. Example: stoa "
      "eval perplexity runs/shakespeare --text held-out.txt");
  a->model.add_to(*c);
  a->model.weights.add_to(*c);
  a->team.add_to(*c);
  a->cache.add_to(*c);
  c->add_option("--text", a->text, ".txt or .jsonl, also .gz or .zst")->required();
  c->add_option("--window", a->window,
                "Window size in tokens (default: the model's positions); not for encoder-decoders")
      ->check(between(1, 1 << 24));
  c->add_option("--stride", a->stride,
                "Tokens by which the window moves; equal to the window: disjoint windows, twice as fast "
                "(default: half the window)")
      ->check(between(1, 1 << 24));
  c->add_option("--pass-tokens", a->pass_tokens, "Windows are packed into passes of this many tokens")
      ->capture_default_str()
      ->check(between(1, 1 << 24));
  c->add_option(
       "--divergence", a->divergence_tokens,
       "For decoders: also compare the probabilities of this many tokens with those of the same weights "
       "decoded to fp32")
      ->check(between(1, 1 << 24));
  a->form.add_to(*c);
  c->add_flag("--plain", a->plain, "Special tokens in the text are encoded as text");
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a, &context] {
    a->team.run(a->model.machine, context, [&](const TeamArguments::Run& run) {
      a->model.machine = run.machine;
      perplexity(*a, context, run.team);
    });
  });
}

}  // namespace stoa::cli
