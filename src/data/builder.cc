#include "data/builder.h"

#include <charconv>
#include <cmath>
#include <numeric>

#include "base/checksum.h"
#include "base/error.h"
#include "data/blend.h"

namespace stoa::data {
namespace {

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

void check_tokenizer(const IndexedDataset& data, const BuildOptions& options, const Notice& notice) {
  const std::string& wanted = options.tokenizer_fingerprint;
  if (wanted.empty()) return;
  const auto& p = data.provenance();
  if (!p || p->tokenizer_fingerprint.empty()) {
    if (notice)
      notice(fmt::format("'{}' does not say which tokenizer made it; only the range of its ids is checked",
                         data.prefix().string()));
    return;
  }
  require<DataError>(
      p->tokenizer_fingerprint == wanted,
      "'{}' was prepared with another tokenizer (fingerprint {}, {} entries) than this run has (fingerprint "
      "{}); prepare it again or name its tokenizer",
      data.prefix().string(), p->tokenizer_fingerprint, p->vocabulary, wanted);
}

class Builder {
 public:
  Builder(const BuildOptions& options, const Notice& notice, const fs::path& first_prefix)
      : options_(options),
        notice_(notice),
        cache_(
            options.cache_folder ? *options.cache_folder : default_cache_folder(dataset_prefix(first_prefix)),
            notice, options.stop) {}

  // Describes each data set of `blend` that is open: weight, name and checksum.
  std::vector<std::string> sources(const Blend& blend) const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < blend.prefixes.size(); ++i)
      for (const auto& data : open_)
        if (data->prefix() == dataset_prefix(blend.prefixes[i]))
          out.push_back(
              fmt::format("{}{} {}", blend.weights.empty() ? "" : fmt::format("{} x ", blend.weights[i]),
                          data->prefix().filename().string(), checksum_text(data->index_checksum())));
    return out;
  }

  std::shared_ptr<const Dataset> build(const Blend& blend, const SplitFractions& fractions,
                                       std::size_t split) {
    const auto& samples = options_.samples[split];
    if (samples && *samples == 0) return nullptr;
    if (fractions[split] == 0) return nullptr;
    if (blend.prefixes.size() == 1 && blend.weights.empty())
      return part(blend.prefixes[0], fractions, split, samples);
    std::vector<double> weights;
    if (!blend.weights.empty()) weights = normalize_weights(blend.weights);
    require<ConfigError>(weights.empty() || samples.has_value(),
                         "a weighted blend needs the number of {} samples", kSplitNames[split]);
    std::vector<std::shared_ptr<const Dataset>> parts;
    std::vector<double> kept;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < blend.prefixes.size(); ++i) {
      std::optional<std::int64_t> share;
      if (!weights.empty()) {
        if (weights[i] == 0) continue;
        share = blend_share_with_surplus(*samples, weights[i]);
        total += blend_share(*samples, weights[i]);
        kept.push_back(weights[i]);
      }
      parts.push_back(part(blend.prefixes[i], fractions, split, share));
    }
    return std::make_shared<BlendedDataset>(std::move(parts), std::move(kept), total, kSplitNames[split],
                                            cache_);
  }

 private:
  std::shared_ptr<const Dataset> part(const fs::path& prefix, const SplitFractions& fractions,
                                      std::size_t split, std::optional<std::int64_t> samples) {
    const auto data = open(prefix);
    const bool of_sentences = options_.bert || options_.sentence_spans;
    const std::int64_t documents = of_sentences ? data->documents() : data->sequences();
    const auto [first, last] = split_ranges(fractions, documents)[split];
    require<DataError>(
        first < last,
        "the {} split of '{}' is empty: {} documents, of which it gets {:.3g} %; change splits_string or "
        "prepare the text as more documents",
        kSplitNames[split], prefix.string(), documents, 100 * fractions[split]);
    if (options_.bert)
      return std::make_shared<BertDataset>(data, first, last, samples, *options_.bert, kSplitNames[split],
                                           cache_);
    if (options_.sentence_spans)
      return std::make_shared<SentenceSpanDataset>(data, first, last, samples, *options_.sentence_spans,
                                                   kSplitNames[split], cache_);
    GptOptions gpt = options_.gpt;
    if (options_.spans) {
      const SpanOptions& spans = *options_.spans;
      gpt.sequence_length = fitting_spans(spans.source_length, spans.density, spans.mean_length).tokens;
      gpt.add_extra_token = false;
    }
    auto text = std::make_shared<GptDataset>(data, first, last, samples, gpt, kSplitNames[split], cache_);
    if (!options_.spans) return text;
    return std::make_shared<SpanDataset>(std::move(text), *options_.spans);
  }

  std::shared_ptr<const IndexedDataset> open(const fs::path& prefix) {
    for (const auto& data : open_)
      if (data->prefix() == dataset_prefix(prefix)) return data;
    auto data = std::make_shared<IndexedDataset>(prefix);
    check_tokenizer(*data, options_, notice_);
    open_.push_back(data);
    return data;
  }

  const BuildOptions& options_;
  const Notice& notice_;
  IndexCache cache_;
  std::vector<std::shared_ptr<const IndexedDataset>> open_;
};

}  // namespace

Blend parse_data_prefix(const std::vector<std::string>& items) {
  require<ConfigError>(!items.empty(), "data_prefix is empty; expected [PREFIX] or [WEIGHT, PREFIX, …]");
  Blend blend;
  const bool weighted = items.size() >= 2 && as_number(items[0]).has_value();
  if (!weighted) {
    for (const auto& item : items) {
      require<ConfigError>(
          !as_number(item),
          "data_prefix: '{}' is a weight in a list of prefixes; expected [WEIGHT, PREFIX, …]", item);
      blend.prefixes.emplace_back(item);
    }
    return blend;
  }
  require<ConfigError>(items.size() % 2 == 0, "data_prefix has {} items; expected pairs [WEIGHT, PREFIX, …]",
                       items.size());
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const auto weight = as_number(items[i]);
    require<ConfigError>(weight.has_value() && !as_number(items[i + 1]),
                         "data_prefix: '{}', '{}' are not a weight and a prefix", items[i], items[i + 1]);
    blend.weights.push_back(*weight);
    blend.prefixes.emplace_back(items[i + 1]);
  }
  return blend;
}

DatasetTriple build_datasets(const BuildOptions& options, const Notice& notice) {
  const bool apart = std::any_of(options.split_prefix.begin(), options.split_prefix.end(),
                                 [](const auto& list) { return !list.empty(); });
  require<ConfigError>(apart != !options.data_prefix.empty(),
                       "give either one data_prefix list, divided by splits_string, or a list per split{}",
                       apart ? ", not both" : "; both are empty");
  std::array<std::shared_ptr<const Dataset>, 3> built;
  std::vector<std::string> sources;
  if (apart) {
    for (std::size_t split = 0; split < 3; ++split) {
      if (options.split_prefix[split].empty()) continue;
      const Blend blend = parse_data_prefix(options.split_prefix[split]);
      SplitFractions whole{0, 0, 0};
      whole[split] = 1;
      Builder builder(options, notice, blend.prefixes[0]);
      built[split] = builder.build(blend, whole, split);
      if (split == 0) sources = builder.sources(blend);
    }
  } else {
    const Blend blend = parse_data_prefix(options.data_prefix);
    const SplitFractions fractions = parse_splits(options.splits_string);
    Builder builder(options, notice, blend.prefixes[0]);
    for (std::size_t split = 0; split < 3; ++split) built[split] = builder.build(blend, fractions, split);
    sources = builder.sources(blend);
  }
  return {built[0], built[1], built[2], std::move(sources)};
}

std::array<std::optional<std::int64_t>, 3> samples_of_run(std::int64_t train_samples,
                                                          std::int64_t train_steps,
                                                          std::int64_t eval_interval, std::int64_t eval_steps,
                                                          std::int64_t global_batch) {
  const std::int64_t rounds = eval_interval > 0 ? train_steps / eval_interval + 1 : 0;
  return {train_samples, rounds * eval_steps * global_batch, eval_steps * global_batch};
}

}  // namespace stoa::data
