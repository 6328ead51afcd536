// From `data_prefix` lists, splits and sample counts to the train, validation and test data sets.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "data/bert_dataset.h"
#include "data/dataset.h"
#include "data/gpt_dataset.h"
#include "data/index_cache.h"
#include "data/sentence_span_dataset.h"
#include "data/span_dataset.h"
#include "data/splits.h"

namespace stoa::data {

// `[w1, p1, w2, p2, …]` or, without weights, `[p1, p2, …]`.
struct Blend {
  std::vector<fs::path> prefixes;
  std::vector<double> weights;  // empty, or one per prefix
};
// ConfigError when weights and prefixes do not alternate.
Blend parse_data_prefix(const std::vector<std::string>& items);

struct BuildOptions {
  std::vector<std::string> data_prefix;  // cut by splits_string …
  std::string splits_string = "969,30,1";
  std::array<std::vector<std::string>, 3> split_prefix;  // … or one list per split, whole
  // Samples of train, validation, test: unset = one epoch, 0 = no such data set.
  std::array<std::optional<std::int64_t>, 3> samples;
  std::optional<fs::path> cache_folder;  // unset: `cache` next to the first prefix
  std::string tokenizer_fingerprint;     // "" = not known; else compared with the data's
  std::stop_token stop = {};             // polled while indices are built
  GptOptions gpt;
  std::optional<BertOptions> bert;  // samples of BERT instead; documents are split, not sequences
  // Samples for an encoder-decoder instead, cut from texts of the length that fits the source;
  // gpt.sequence_length is ignored.
  std::optional<SpanOptions> spans;
  std::optional<SentenceSpanOptions> sentence_spans;  // the same from whole sentences; documents are split
};

// A data set is null when its share or its number of samples is 0.
struct DatasetTriple {
  std::shared_ptr<const Dataset> train, validation, test;
  // What the training data was built from, to be shown and compared between runs: weight, file name without
  // folder and checksum of the index of each source.
  std::vector<std::string> sources = {};
};

// ConfigError, IoError, DataError (a tokenizer that is not the data's, an empty split that was asked for).
DatasetTriple build_datasets(const BuildOptions& options, const Notice& notice = {});

// How many samples a run needs: train = steps * batch; validation = (steps / interval + 1) * eval_steps *
// batch; test = eval_steps * batch (Megatron's get_train_valid_test_num_samples). An interval of 0 means no
// validation during the run.
std::array<std::optional<std::int64_t>, 3> samples_of_run(std::int64_t train_samples,
                                                          std::int64_t train_steps,
                                                          std::int64_t eval_interval, std::int64_t eval_steps,
                                                          std::int64_t global_batch);

}  // namespace stoa::data
