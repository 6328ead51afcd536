// Trains vocabularies of byte-level BPE and WordPiece. The result of BPE is that of Hugging Face's BpeTrainer
// for the same texts and settings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {

struct TrainOptions {
  std::int64_t vocab_size = 32768;  // special tokens, 256 bytes and merges together
  std::int64_t min_frequency = 0;   // a pair seen less often is not merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  // ids from 0, in this order
  SplitPattern split = SplitPattern::kGpt2;                     // of BPE
  WordPieceOptions wordpiece = {};                              // of WordPiece
};

// Puts the next text into its argument; false at the end. Texts are split one by one: no word crosses two of
// them.
using TextSource = std::function<bool(std::string&)>;

struct TrainProgress {
  enum class Stage { kCounting, kMerging } stage;
  std::int64_t done, total;  // bytes read (total 0: unknown), or tokens made
};

// What a trained tokenizer was made of.
struct TrainSummary {
  std::int64_t texts = 0, bytes = 0, words = 0, distinct_words = 0;
};

// Counts words in parallel, then merges the most frequent pair (at a tie: the lower ids) until the vocabulary
// is full or no pair is left. DataError for texts without any word; ConfigError for a vocabulary smaller than
// its alphabet. eos is the first special token; the vocabulary may come out smaller than asked.
TokenizerSpec train_bpe(const TextSource& source, const TrainOptions& options, WorkerPool& pool,
                        const std::function<void(const TrainProgress&)>& progress = {},
                        TrainSummary* summary = nullptr);

// The same for WordPiece: pieces by BPE over the characters of words, as Hugging Face's WordPieceTrainer.
// There the ids of the alphabet's continuing characters, which break ties, follow the order of a hash table;
// here they follow the code points. ConfigError unless [PAD], [UNK], [CLS], [SEP] and [MASK] are among the
// special tokens.
TokenizerSpec train_wordpiece(const TextSource& source, const TrainOptions& options, WorkerPool& pool,
                              const std::function<void(const TrainProgress&)>& progress = {},
                              TrainSummary* summary = nullptr);

}  // namespace stoa::token
