#include "cli/eval_perplexity.h"

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/encoder_argument.h"
#include "cli/number_checks.h"
#include "cli/pair_argument.h"
#include "cli/print.h"
#include "cli/text_files.h"
#include "cli/timing.h"
#include "eval/perplexity.h"
#include "infer/masked_losses.h"
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

// What is the same for every kind of model: how far the reading is, the model's share of the time.
class Reading {
 public:
  Reading(const PerplexityArguments& arguments, Context& context)
      : bytes_(static_cast<double>(data::describe_input(arguments.text, {}).bytes)),
        progress_(context.console, "read", bytes_, "B") {}

  double bytes() const { return bytes_; }  // of the file

  template <class Call>
  void timed(const Call& call) {
    const auto start = Clock::now();
    call();
    model_seconds_ += seconds_since(start);
  }
  void at(double bytes) { progress_.update(bytes); }
  void finish() { progress_.finish(); }
  double seconds() const { return seconds_since(begin_); }
  double model_seconds() const { return model_seconds_; }

 private:
  const double bytes_;
  Progress progress_;
  const Clock::time_point begin_ = Clock::now();
  double model_seconds_ = 0;
};

struct MeasuredText {
  eval::PerplexityResult result;
  Json settings;              // of the measurement, in the answer
  std::string settings_text;  // the same in words
  std::string note;           // what counts
  DType dtype = DType::kF32;
};

struct WindowSizes {
  std::int64_t window, stride;
  std::string text() const { return fmt::format("window {}, stride {}", window, stride); }
};
// `positions` that the model reads, `usual` ones by default.
WindowSizes window_sizes(const PerplexityArguments& a, std::int64_t positions, std::int64_t usual) {
  require<ConfigError>(!a.window || *a.window <= positions, "--window {}: the model has {} positions",
                       a.window.value_or(0), positions);
  const std::int64_t window = a.window.value_or(usual);
  return {window, a.stride.value_or(std::max<std::int64_t>(1, window / 2))};
}

MeasuredText measure_texts(const PerplexityArguments& a, Reading& reading) {
  LoadedModel loaded = load_model(a.model, {.cache = false,
                                            .context = {},
                                            .pass_tokens = a.pass_tokens,
                                            .text_tokens = a.window.value_or(INT64_MAX)});
  const WindowSizes sizes =
      window_sizes(a, infer::usable_positions(loaded.model.config), loaded.model.config.max_positions());
  eval::PerplexityOptions options;
  options.window = sizes.window;
  options.stride = sizes.stride;
  options.pass_tokens = loaded.rank->decoder().pass_tokens();
  const token::Tokenizer& tokenizer = *loaded.tokenizer;
  options.prefix = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eod_id();

  std::uint64_t position = 0, before = 0;
  // Tokens handed over and not read yet, for an even progress within a long document.
  std::int64_t waiting = 0, document_tokens = 0;
  eval::PerplexityMeter meter(options, [&](auto tokens, auto labels, auto lengths, auto losses) {
    reading.timed([&] { loaded.rank->losses(tokens, labels, lengths, losses); });
    waiting += static_cast<std::int64_t>(tokens.size());
    const double overlap = static_cast<double>(options.window) / static_cast<double>(options.stride);
    const double share =
        document_tokens > 0
            ? std::min(1.0, static_cast<double>(waiting) / overlap / static_cast<double>(document_tokens))
            : 1.0;
    reading.at(static_cast<double>(before) + share * static_cast<double>(position - before));
  });
  token::Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  each_document_of(a.text, a.form, [&](std::string_view document, std::uint64_t at) {
    ids.clear();
    encoder.encode(document, {.plain = a.plain, .add_special = false}, ids);
    if (at != position) before = position, position = at, waiting = 0, document_tokens = 0;
    document_tokens += static_cast<std::int64_t>(ids.size());
    meter.add(document, ids);
  });
  MeasuredText out;
  out.result = meter.finish();
  out.settings_text = sizes.text();
  out.settings = {{"window", sizes.window}, {"stride", sizes.stride}};
  const std::string prefix = options.prefix ? tokenizer.id_to_token(*options.prefix) : "";
  out.settings["prefix_token"] = options.prefix ? Json(prefix) : Json(nullptr);
  out.note =
      options.prefix
          ? fmt::format("every document begins with {}, so that its first token counts", prefix)
          : "the tokenizer has no token that begins a text: the first token of a document does not count";
  out.dtype = loaded.rank->options().precision.compute;
  return out;
}

MeasuredText measure_masked(const PerplexityArguments& a, Reading& reading) {
  LoadedEncoder loaded = load_encoder(a.model, {.masks = kMasksAtOnce});
  const token::Tokenizer& tokenizer = *loaded.tokenizer;
  const token::TokenId mask = loaded.mask_id();
  eval::MaskedPerplexityOptions options;
  options.begin = tokenizer.cls_id();
  options.end = tokenizer.sep_id();
  const std::int64_t around = options.begin.has_value() + options.end.has_value();
  require<ConfigError>(!a.window || *a.window > around,
                       "--window {}: {} of its tokens begin and end it, expected at least {}",
                       a.window.value_or(0), around, around + 1);
  const std::int64_t longest = loaded.rank->options().longest;
  WindowSizes sizes = window_sizes(a, longest, longest);
  options.window = sizes.window - around;
  options.stride = sizes.stride = a.stride.value_or(std::max<std::int64_t>(1, options.window / 2));
  eval::MaskedPerplexityMeter meter(options, [&](auto tokens, auto rows, auto losses) {
    reading.timed([&] { infer::masked_losses(*loaded.rank, mask, tokens, rows, losses); });
  });
  token::Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  each_document_of(a.text, a.form, [&](std::string_view document, std::uint64_t at) {
    ids.clear();
    encoder.encode(document, {.plain = a.plain, .add_special = false}, ids);
    meter.add(document, ids);
    reading.at(static_cast<double>(at));
  });
  meter.result().require_tokens();
  MeasuredText out;
  out.result = meter.result();
  out.settings_text = sizes.text();
  out.settings = {{"window", sizes.window}, {"stride", sizes.stride}, {"masked", true}};
  out.note = "an encoder: every token is predicted from all others of its window (pseudo-perplexity)";
  out.dtype = loaded.rank->options().precision.compute;
  return out;
}

MeasuredText measure_pairs(const PerplexityArguments& a, Reading& reading) {
  require<ConfigError>(!a.window && !a.stride,
                       "--window and --stride: an encoder-decoder reads a source and a target whole");
  PairModel model(a.model);
  MeasuredText out;
  std::vector<TokenPair> pairs;
  TextArguments lines = a.form;
  lines.split = "line";
  each_document_of(a.text, lines, [&](std::string_view line, std::uint64_t) {
    pairs.push_back(model.pair_of(line, static_cast<std::int64_t>(pairs.size()) + 1,
                                  [&](std::string_view text) { return model.ids_of(text); }));
    out.result.add_text(line.substr(line.find('\t') + 1));
  });
  require<DataError>(!pairs.empty(), "'{}' holds no pair", a.text);
  out.dtype = model.load_for(pairs).options().precision.compute;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    reading.timed([&] { out.result.add_losses(model.target_losses(pairs[i])); });
    out.result.read_tokens += static_cast<std::int64_t>(pairs[i].source.size() + pairs[i].target.size());
    reading.at(reading.bytes() * static_cast<double>(i + 1) / static_cast<double>(pairs.size()));
  }
  out.settings = {{"pairs", pairs.size()}};
  out.settings_text = "pairs read whole";
  out.note =
      "an encoder-decoder: tokens, words and bytes are those of the targets, with the token that ends each";
  return out;
}

MeasuredText measure(const PerplexityArguments& a, Reading& reading) {
  switch (kind_of(a.model)) {
    case model::ModelKind::kBert:
      return measure_masked(a, reading);
    case model::ModelKind::kT5:
      return measure_pairs(a, reading);
    case model::ModelKind::kGpt:
      break;
  }
  return measure_texts(a, reading);
}

void perplexity(const PerplexityArguments& a, Context& context) {
  require<ConfigError>(!a.window || *a.window >= 1, "--window must be at least 1, got {}",
                       a.window.value_or(0));
  require<ConfigError>(a.pass_tokens >= 1, "--pass-tokens must be at least 1, got {}", a.pass_tokens);
  Reading reading(a, context);  // a file that is not there is refused before a model is loaded
  const MeasuredText measured = measure(a, reading);
  reading.finish();
  const eval::PerplexityResult& r = measured.result;
  const double rate = static_cast<double>(r.read_tokens) / std::max(1e-9, reading.model_seconds());
  if (a.json) {
    Json answer{{"model", a.model.model}, {"text", a.text},   {"documents", r.documents},
                {"tokens", r.tokens},     {"words", r.words}, {"bytes", r.bytes}};
    answer.update(measured.settings);
    answer["dtype"] = name_of(measured.dtype);
    answer["loss"] = r.loss();
    answer["perplexity"] = r.perplexity();
    answer["word_perplexity"] = r.words > 0 ? Json(r.word_perplexity()) : Json(nullptr);
    answer["bits_per_byte"] = r.bits_per_byte();
    answer["tokens_read"] = r.read_tokens;
    answer["tokens_per_second"] = rate;
    answer["seconds"] = reading.seconds();
    return print_json_line(answer);
  }
  print(fmt::format(
      "loss {:.4f} nats per token | perplexity {:.3f} | word perplexity {} | {:.4f} bits per byte\n"
      "{} tokens, {} words, {} bytes in {} document{} | {}: {} tokens read, {} tokens/s\n"
      "{}\n",
      r.loss(), r.perplexity(), r.words > 0 ? fmt::format("{:.3f}", r.word_perplexity()) : "none (no words)",
      r.bits_per_byte(), r.tokens, r.words, r.bytes, r.documents, r.documents == 1 ? "" : "s",
      measured.settings_text, r.read_tokens, format_count(rate), measured.note));
}

}  // namespace

void add_eval_perplexity(CLI::App& eval, Context& context) {
  auto a = std::make_shared<PerplexityArguments>();
  CLI::App* c = eval.add_subcommand("perplexity",
                                    "Loss per token, word perplexity and bits per byte of a text. A window "
                                    "slides over the tokens; each token counts "
                                    "once, with the longest context that its window gives. Encoders read the "
                                    "window once for every token, which alone is hidden (pseudo-perplexity). "
                                    "Encoder-decoders rate lines of source, tab, target. Example: stoa "
                                    "eval perplexity runs/shakespeare --text held-out.txt");
  a->model.add_to(*c);
  c->add_option("--text", a->text, ".txt or .jsonl, also .gz or .zst")->required();
  c->add_option("--window", a->window,
                "Tokens that the model reads at once (default: its positions); not of encoder-decoders")
      ->check(between(1, 1 << 24));
  c->add_option("--stride", a->stride,
                "Tokens that the window moves by; as many as the window: disjoint, twice as fast (default: "
                "half the window)")
      ->check(between(1, 1 << 24));
  c->add_option("--pass-tokens", a->pass_tokens, "Windows are packed into passes of so many tokens")
      ->capture_default_str()
      ->check(between(1, 1 << 24));
  a->form.add_to(*c);
  c->add_flag("--plain", a->plain, "Special tokens written in the text are text");
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a, &context] { perplexity(*a, context); });
}

}  // namespace stoa::cli
