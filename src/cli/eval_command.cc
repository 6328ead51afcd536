#include "cli/eval_command.h"

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/model_argument.h"
#include "cli/text_files.h"
#include "eval/byte_ngram.h"
#include "eval/perplexity.h"
#include "eval/xz_size.h"
#include "token/encoder.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct PerplexityArguments {
  ModelArguments model;
  TextArguments form;
  std::string text;
  std::optional<std::int64_t> window, stride;
  std::int64_t pass_tokens = 4096;
  bool plain = false, json = false;
};

void print(const Json& answer) {
  std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

void perplexity(const PerplexityArguments& a, Context& context) {
  require<ConfigError>(!a.window || *a.window >= 1, "--window must be at least 1, got {}",
                       a.window.value_or(0));
  require<ConfigError>(a.pass_tokens >= 1, "--pass-tokens must be at least 1, got {}", a.pass_tokens);
  InterruptScope interrupt;
  (void)data::describe_input(a.text, {});  // refused before a model is loaded
  LoadedModel loaded = load_model(a.model, {.cache = false,
                                            .context = {},
                                            .pass_tokens = a.pass_tokens,
                                            .text_tokens = a.window.value_or(INT64_MAX)});
  const std::int64_t positions = loaded.model.config.max_positions();
  require<ConfigError>(!a.window || *a.window <= positions, "--window {}: the model has {} positions",
                       a.window.value_or(0), positions);
  eval::PerplexityOptions options;
  options.window = a.window.value_or(positions);
  options.stride = a.stride.value_or(std::max<std::int64_t>(1, options.window / 2));
  options.pass_tokens = loaded.rank->decoder().pass_tokens();
  const token::Tokenizer& tokenizer = *loaded.tokenizer;
  options.prefix = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eod_id();

  const TextArguments& form = a.form;
  Progress progress(context.console, "read", static_cast<double>(data::describe_input(a.text, {}).bytes),
                    "B");
  std::uint64_t position = 0;
  std::int64_t waiting =
      0;  // tokens handed over and not read yet, for an even progress within a long document
  std::int64_t document_tokens = 0;
  std::uint64_t before = 0;
  const auto begin = Clock::now();
  double model_seconds = 0;
  eval::PerplexityMeter meter(options, [&](auto tokens, auto labels, auto lengths, auto losses) {
    if (interrupt.token().stop_requested()) throw Interrupted("interrupted: nothing was measured");
    const auto start = Clock::now();
    loaded.rank->losses(tokens, labels, lengths, losses);
    model_seconds += std::chrono::duration<double>(Clock::now() - start).count();
    waiting += static_cast<std::int64_t>(tokens.size());
    const double overlap = static_cast<double>(options.window) / static_cast<double>(options.stride);
    const double share =
        document_tokens > 0
            ? std::min(1.0, static_cast<double>(waiting) / overlap / static_cast<double>(document_tokens))
            : 1.0;
    progress.update(static_cast<double>(before) + share * static_cast<double>(position - before));
  });
  token::Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  each_document_of(a.text, form, [&](std::string_view document, std::uint64_t at) {
    ids.clear();
    encoder.encode(document, {.plain = a.plain, .add_special = false}, ids);
    if (at != position) before = position, position = at, waiting = 0, document_tokens = 0;
    document_tokens += static_cast<std::int64_t>(ids.size());
    meter.add(document, ids);
  });
  const eval::PerplexityResult& r = meter.finish();
  progress.finish();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double rate = static_cast<double>(r.read_tokens) / std::max(1e-9, model_seconds);
  const std::string prefix = options.prefix ? tokenizer.id_to_token(*options.prefix) : "";
  if (a.json) {
    Json answer{{"model", a.model.model},   {"text", a.text},          {"documents", r.documents},
                {"tokens", r.tokens},       {"words", r.words},        {"bytes", r.bytes},
                {"window", options.window}, {"stride", options.stride}};
    answer["prefix_token"] = options.prefix ? Json(prefix) : Json(nullptr);
    answer["dtype"] = name_of(loaded.rank->options().precision.compute);
    answer["loss"] = r.loss();
    answer["perplexity"] = r.perplexity();
    answer["word_perplexity"] = r.words > 0 ? Json(r.word_perplexity()) : Json(nullptr);
    answer["bits_per_byte"] = r.bits_per_byte();
    answer["tokens_read"] = r.read_tokens;
    answer["tokens_per_second"] = rate;
    answer["seconds"] = seconds;
    print(answer);
    return;
  }
  std::cout << fmt::format(
      "loss {:.4f} nats per token | perplexity {:.3f} | word perplexity {} | {:.4f} bits per byte\n"
      "{} tokens, {} words, {} bytes in {} document{} | window {}, stride {}: {} tokens read, {} tokens/s\n"
      "{}\n",
      r.loss(), r.perplexity(), r.words > 0 ? fmt::format("{:.3f}", r.word_perplexity()) : "none (no words)",
      r.bits_per_byte(), r.tokens, r.words, r.bytes, r.documents, r.documents == 1 ? "" : "s", options.window,
      options.stride, r.read_tokens, format_count(rate),
      options.prefix
          ? fmt::format("every document begins with {}, so that its first token counts", prefix)
          : "the tokenizer has no token that begins a text: the first token of a document does not count");
}

struct BaselineArguments {
  TextArguments form;
  std::string train, text;
  int order = 5;
  bool json = false;
};

// All documents of a file; a newline between two.
std::string whole_text(const std::string& file, const TextArguments& form) {
  std::string out;
  bool first = true;
  each_document_of(file, form, [&](std::string_view document, std::uint64_t) {
    if (!std::exchange(first, false)) out += '\n';
    out += document;
  });
  return out;
}

void baselines(const BaselineArguments& a, Context& context) {
  eval::ByteNgram ngram(a.order);
  const std::string train = whole_text(a.train, a.form), text = whole_text(a.text, a.form);
  require<DataError>(!text.empty(), "'{}' holds no text", a.text);
  const auto bytes = static_cast<double>(text.size());
  ngram.train(train);
  const double ngram_bits = ngram.bits(text) / bytes;
  const auto alone = eval::xz_size({train});
  std::optional<double> xz_bits;
  if (alone) {
    const auto both = eval::xz_size({train, text});
    require<IoError>(both.has_value(), "'xz' disappeared while it was used");
    xz_bits = 8.0 * static_cast<double>(*both - *alone) / bytes;
  } else {
    context.console.warn("the program 'xz' is not installed: its figure is left out");
  }
  if (a.json) {
    Json answer{{"train", a.train},
                {"text", a.text},
                {"train_bytes", train.size()},
                {"bytes", text.size()},
                {"order", a.order}};
    answer["ngram_bits_per_byte"] = ngram_bits;
    answer["xz_bits_per_byte"] = xz_bits ? Json(*xz_bits) : Json(nullptr);
    print(answer);
    return;
  }
  std::cout << fmt::format(
      "byte {}-gram (Witten-Bell)  {:.4f} bits per byte\nxz -9                     {}\n", a.order, ngram_bits,
      xz_bits ? fmt::format("{:.4f} bits per byte (size of training and held-out text, minus training text)",
                            *xz_bits)
              : "not installed");
}

void add_perplexity(CLI::App& eval, Context& context) {
  auto a = std::make_shared<PerplexityArguments>();
  CLI::App* c = eval.add_subcommand("perplexity",
                                    "Loss per token, word perplexity and bits per byte of a text. A window "
                                    "slides over the tokens; each token counts "
                                    "once, with the longest context that its window gives. Example: stoa "
                                    "eval perplexity runs/shakespeare --text held-out.txt");
  a->model.add_to(*c);
  c->add_option("--text", a->text, ".txt or .jsonl, also .gz or .zst")->required();
  c->add_option("--window", a->window, "Tokens that the model reads at once (default: its positions)");
  c->add_option("--stride", a->stride,
                "Tokens that the window moves by; as many as the window: disjoint, twice as fast (default: "
                "half the window)");
  c->add_option("--pass-tokens", a->pass_tokens, "Windows are packed into passes of so many tokens")
      ->capture_default_str();
  a->form.add_to(*c);
  c->add_flag("--plain", a->plain, "Special tokens written in the text are text");
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a, &context] { perplexity(*a, context); });
}

void add_baselines(CLI::App& eval, Context& context) {
  auto a = std::make_shared<BaselineArguments>();
  CLI::App* c =
      eval.add_subcommand("baselines",
                          "Bits per byte that a byte n-gram and xz -9 reach on a text after a training text. "
                          "Example: stoa eval baselines --train train.txt --text held-out.txt");
  c->add_option("--train", a->train, "The training text: .txt or .jsonl, also .gz or .zst")->required();
  c->add_option("--text", a->text, "The held-out text")->required();
  c->add_option("--order", a->order, "Of the n-gram")
      ->check(CLI::Range(1, eval::ByteNgram::kMaxOrder))
      ->capture_default_str();
  a->form.add_to(*c);
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a, &context] { baselines(*a, context); });
}

}  // namespace

void add_eval_command(CLI::App& app, Context& context) {
  CLI::App* eval = app.add_subcommand("eval", "Measure a model, and baselines, on text");
  eval->require_subcommand(1);
  add_perplexity(*eval, context);
  add_baselines(*eval, context);
}

}  // namespace stoa::cli
