#include "data/sentence_span_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "data/pair_row.h"

namespace stoa::data {
namespace {

// Most tokens of a text: two are left for a beginning and an end, which samples do not have.
std::int64_t longest_text(const SentenceSpanOptions& options) { return options.source_length - 2; }

// Most tokens that any sample hides.
std::int64_t most_hidden(const SentenceSpanOptions& options) {
  const std::int64_t text = longest_text(options);
  return static_cast<std::int64_t>(most_chosen(text, text, options.ngrams.probability));
}

// Where every n-gram is of one token, hidden tokens take most of a target.
std::int64_t longest_target(std::int64_t hidden) { return 2 * hidden + 1; }

const SentenceSpanOptions& checked(const SentenceSpanOptions& options) {
  require<ConfigError>(options.source_length >= 4, "sources of {} tokens; expected 4 or more",
                       options.source_length);
  require<ConfigError>(!options.sentinels.empty(),
                       "the tokenizer has no sentinels (<extra_id_0> ...), which replace the spans removed "
                       "from a source; train it with --sentinels {}",
                       most_hidden(options));
  require<ConfigError>(options.eos_id >= 0,
                       "the tokenizer has no end-of-text token (</s>), which ends targets");
  const std::int64_t hidden = most_hidden(options);
  require<ConfigError>(
      options.target_length >= hidden + 2,
      "targets of {} tokens are too short: of sources of {} tokens up to {} are removed, each span after a "
      "sentinel; give t5.seq_length_dec of at least {}, or {} to fit every random sample",
      options.target_length, options.source_length, hidden, hidden + 2, longest_target(hidden));
  return options;
}

// One sequence of a document would be cut off after the length of a source, and the rest never read.
std::shared_ptr<const IndexedDataset> with_sentences(std::shared_ptr<const IndexedDataset> data,
                                                     std::int64_t longest) {
  std::int64_t worst = 0;
  for (std::int64_t d = 0; d < data->documents(); ++d) {
    const std::int64_t begin = data->document_start(d), sentences = data->document_start(d + 1) - begin;
    if (sentences > 1) return data;
    if (sentences == 1) worst = std::max<std::int64_t>(worst, data->length(begin));
  }
  require<DataError>(worst <= longest,
                     "'{}' has no sentence boundaries: each document is one sequence, of up to {} tokens, of "
                     "which a source takes {}; prepare the text with --split-sentences",
                     data->prefix().string(), worst, longest);
  return data;
}

}  // namespace

SentenceSpanDataset::SentenceSpanDataset(std::shared_ptr<const IndexedDataset> data, std::int64_t first,
                                         std::int64_t last, std::optional<std::int64_t> samples,
                                         const SentenceSpanOptions& options, std::string_view split,
                                         const IndexCache& cache)
    : options_(checked(options)),
      rows_(
          with_sentences(std::move(data), longest_text(options)),
          {nullptr, first, last, samples, longest_text(options), options.short_probability, 1, options.seed},
          "T5Dataset", "T5MaskedWordPieceDataset", split, cache) {}

void SentenceSpanDataset::read(std::int64_t k, BatchRow row) const {
  const SentenceRows::Row s = rows_.row(k);
  std::vector<std::int32_t> text =
      rows_.tokens(s.begin, s.end, static_cast<std::int64_t>(options_.continues.size()));
  text.resize(std::min(text.size(), static_cast<std::size_t>(s.target)));
  Words words;
  for (std::uint32_t i = 0; i < text.size(); ++i)
    words.add(i, options_.continues[static_cast<std::size_t>(text[i])] != 0);

  struct Span {
    std::size_t begin, end;
  };
  std::vector<Span> spans;
  NumpyRandom random(
      static_cast<std::uint32_t>(std::uint64_t{options_.seed} + static_cast<std::uint64_t>(k)));
  choose_ngrams(words,
                most_chosen(static_cast<std::int64_t>(text.size()), s.target, options_.ngrams.probability),
                options_.ngrams, random, [&](auto positions) {
                  spans.push_back({positions.front(), positions.back() + 1});
                });
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  require<DataError>(
      spans.size() <= options_.sentinels.size(),
      "sample {} of '{}' hides {} spans, but the tokenizer has {} sentinels (<extra_id_0> ...); "
      "{} are enough for every sample: train it with --sentinels {}",
      k, rows_.name(), spans.size(), options_.sentinels.size(), most_hidden(options_), most_hidden(options_));

  std::vector<std::int32_t> source, labels;
  const auto append = [&](std::vector<std::int32_t>& to, std::size_t begin, std::size_t end) {
    to.insert(to.end(), text.begin() + static_cast<std::ptrdiff_t>(begin),
              text.begin() + static_cast<std::ptrdiff_t>(end));
  };
  std::size_t from = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    append(source, from, spans[i].begin);
    source.push_back(options_.sentinels[i]);
    labels.push_back(options_.sentinels[i]);
    append(labels, spans[i].begin, spans[i].end);
    from = spans[i].end;
  }
  append(source, from, text.size());
  labels.push_back(options_.eos_id);
  require<DataError>(static_cast<std::int64_t>(labels.size()) <= options_.target_length,
                     "sample {} of '{}' has a target of {} tokens in {} spans, but targets have {}; {} are "
                     "enough for every sample: t5.seq_length_dec",
                     k, rows_.name(), labels.size(), spans.size(), options_.target_length,
                     longest_target(most_hidden(options_)));
  write_pair(source, labels, static_cast<std::size_t>(options_.source_length), options_.start_id, row);
}

}  // namespace stoa::data
