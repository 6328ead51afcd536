// Pairs of sentences and how similar people find them, and how well a model's vectors agree: the figures of
// MTEB's STS tasks.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::eval {

struct SentencePair {
  std::string first, second;
  double score = 0;
};
// JSON lines, Parquet, Arrow, CSV or TSV with columns sentence1, sentence2 and score (or label), as data sets
// on the hub and GLUE have them; or the files of the STS benchmark themselves, which have no header: columns
// at tabs, of which the fifth is the score, the sixth and seventh the sentences. TSV has no quotes.
// DataError: columns are missing, a score is not a number, or fewer than two pairs.
std::vector<SentencePair> read_sentence_pairs(const fs::path& path);

struct Agreement {
  double pearson = 0, spearman = 0;  // NaN where all scores or all similarities are equal
};
// By name of the similarity: cosine, dot, euclidean, manhattan (of the last two the negative distance).
// Vectors of first and second sentences, `dimension` numbers each.
std::map<std::string, Agreement> agreements(std::span<const float> first, std::span<const float> second,
                                            std::size_t dimension, std::span<const double> scores);

}  // namespace stoa::eval
