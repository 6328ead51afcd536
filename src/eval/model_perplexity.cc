#include "eval/model_perplexity.h"

#include <algorithm>
#include <chrono>

#include "base/timing.h"
#include "infer/engine/text_losses.h"
#include "infer/masked_losses.h"
#include "token/encoder.h"

namespace stoa::eval {
namespace {

using Clock = std::chrono::steady_clock;
using Told = std::function<void(double bytes)>;

template <class Call>
void timed(ModelPerplexity& out, const Call& call) {
  const auto begin = Clock::now();
  call();
  out.model_seconds += seconds_since(begin);
}

// `positions`: the longest window that the model reads; `usual`: the default window.
void choose_window(ModelPerplexity& out, const ReadingOptions& options, std::int64_t positions,
                   std::int64_t usual) {
  require<ConfigError>(!options.window || *options.window <= positions,
                       "--window {}: the model has {} positions", options.window.value_or(0), positions);
  out.window = options.window.value_or(usual);
  out.stride = options.stride.value_or(std::max<std::int64_t>(1, out.window / 2));
}

ModelPerplexity of_decoder(infer::OpenModel& model, const data::TextFile& text, const ReadingOptions& reading,
                           const Told& at) {
  const model::ModelConfig& config = model.model().config;
  const std::int64_t virtual_tokens = config.peft.virtual_count();
  ModelPerplexity out;
  choose_window(out, reading, infer::usable_positions(config) - virtual_tokens,
                config.max_positions() - virtual_tokens);
  const infer::EngineUse use = infer::use_for_losses(
      model, {.text_tokens = out.window, .pass_tokens = reading.pass_tokens, .cache = reading.cache});
  const auto rank = infer::load_passes(model, use, {}, reading.team);
  const token::Tokenizer& tokenizer = model.tokenizer();
  PerplexityOptions options;
  options.window = out.window;
  options.stride = out.stride;
  options.pass_tokens = std::max(out.window, reading.pass_tokens);
  options.prefix = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eod_id();
  if (options.prefix) out.prefix = tokenizer.id_to_token(*options.prefix);

  std::uint64_t position = 0, before = 0;
  // Tokens handed over and not read yet, for an even progress within a long document.
  std::int64_t waiting = 0, document_tokens = 0;
  PerplexityMeter meter(options, [&](auto tokens, auto labels, auto lengths, auto losses) {
    timed(out, [&] { infer::text_losses(*rank, tokens, labels, lengths, losses); });
    waiting += static_cast<std::int64_t>(tokens.size());
    const double overlap = static_cast<double>(options.window) / static_cast<double>(options.stride);
    const double share =
        document_tokens > 0
            ? std::min(1.0, static_cast<double>(waiting) / overlap / static_cast<double>(document_tokens))
            : 1.0;
    at(static_cast<double>(before) + share * static_cast<double>(position - before));
  });
  token::Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  data::each_document(text, [&](std::string_view document, std::uint64_t now) {
    ids.clear();
    encoder.encode(document, {.plain = reading.plain, .add_special = false}, ids);
    if (now != position) before = position, position = now, waiting = 0, document_tokens = 0;
    document_tokens += static_cast<std::int64_t>(ids.size());
    meter.add(document, ids);
  });
  out.result = meter.finish();
  out.dtype = model.precision().compute;
  return out;
}

ModelPerplexity of_encoder(infer::OpenModel& model, const data::TextFile& text, const ReadingOptions& reading,
                           const Told& at) {
  require<ConfigError>(reading.team == nullptr,
                       "--tp, --ep and --pp are for decoders and encoder-decoders, and this is an encoder");
  const auto rank = infer::load_encoder(model, {.masks = infer::kMasksAtOnce});
  const token::Tokenizer& tokenizer = model.tokenizer();
  const token::TokenId mask = infer::mask_id(model);
  MaskedPerplexityOptions options;
  options.begin = tokenizer.cls_id();
  options.end = tokenizer.sep_id();
  const std::int64_t around = options.begin.has_value() + options.end.has_value();
  require<ConfigError>(!reading.window || *reading.window > around,
                       "--window {}: {} of its tokens begin and end it, expected at least {}",
                       reading.window.value_or(0), around, around + 1);
  const std::int64_t longest = rank->options().longest;
  ModelPerplexity out;
  choose_window(out, reading, longest, longest);
  options.window = out.window - around;
  options.stride = out.stride = reading.stride.value_or(std::max<std::int64_t>(1, options.window / 2));
  MaskedPerplexityMeter meter(options, [&](auto tokens, auto rows, auto losses) {
    timed(out, [&] { infer::masked_losses(*rank, mask, tokens, rows, losses); });
  });
  token::Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  data::each_document(text, [&](std::string_view document, std::uint64_t now) {
    ids.clear();
    encoder.encode(document, {.plain = reading.plain, .add_special = false}, ids);
    meter.add(document, ids);
    at(static_cast<double>(now));
  });
  meter.result().require_tokens();
  out.result = meter.result();
  out.dtype = rank->options().precision.compute;
  return out;
}

ModelPerplexity of_pairs(infer::OpenModel& model, data::TextFile text, const ReadingOptions& reading,
                         const Told& at) {
  require<ConfigError>(!reading.window && !reading.stride,
                       "--window and --stride: an encoder-decoder reads source and target without windows");
  ModelPerplexity out;
  std::vector<infer::TokenPair> pairs;
  text.split = data::TextSplit::kLine;
  data::each_document(text, [&](std::string_view line, std::uint64_t) {
    pairs.push_back(
        infer::pair_of(line, std::ssize(pairs) + 1, model.model().config,
                       [&](std::string_view side) { return infer::ids_with_end(model.tokenizer(), side); }));
    out.result.add_text(line.substr(line.find('\t') + 1));
  });
  require<DataError>(!pairs.empty(), "'{}' holds no pair", text.path.string());
  out.pairs = std::ssize(pairs);
  const infer::EngineUse use =
      infer::use_for_pairs(model, pairs, {.pass_tokens = reading.pass_tokens, .cache = reading.cache});
  const auto rank = infer::load_passes(model, use, {}, reading.team);
  out.dtype = model.precision().compute;
  const auto bytes = static_cast<double>(data::describe_input(text.path, {}).bytes);
  constexpr std::size_t kAtOnce = 128;
  for (std::size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
    end = std::min(begin + kAtOnce, pairs.size());
    const auto window = std::span(pairs).subspan(begin, end - begin);
    timed(out, [&] {
      for (const auto& losses : infer::pair_losses(*rank, window)) out.result.add_losses(losses);
    });
    for (const infer::TokenPair& pair : window)
      out.result.read_tokens += std::ssize(pair.source) + std::ssize(pair.target);
    at(bytes * static_cast<double>(end) / static_cast<double>(pairs.size()));
  }
  return out;
}

}  // namespace

ModelPerplexity model_perplexity(infer::OpenModel& model, const data::TextFile& text,
                                 const ReadingOptions& options, const std::function<void(double)>& at) {
  switch (model.kind()) {
    case model::ModelKind::kBert:
      return of_encoder(model, text, options, at);
    case model::ModelKind::kT5:
      return of_pairs(model, text, options, at);
    case model::ModelKind::kGpt:
      break;
  }
  return of_decoder(model, text, options, at);
}

}  // namespace stoa::eval
