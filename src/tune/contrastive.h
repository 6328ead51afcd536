// The loss of an embedding model (van den Oord et al. 2018; Henderson et al. 2017, the
// MultipleNegativesRankingLoss of sentence-transformers): of all texts of a batch, the one that belongs to a
// query shall be the nearest to it. In fp64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoa::tune {

// A batch of groups of texts: a query, its positive, and as many hard negatives as every group has.
struct ComparedVectors {
  std::span<const double> values;  // [groups, texts, width]
  std::int64_t width = 0, texts = 2;

  std::int64_t groups() const { return std::ssize(values) / (texts * width); }
};

struct ContrastiveLoss {
  double loss = 0;                  // added over the queries
  std::int64_t right = 0;           // queries to which no text is nearer than the positive
  double positive = 0, others = 0;  // cosines with the positive, and the mean of those with all other texts,
                                    // added over the queries
  std::vector<double> gradients;    // of the loss by the values
};

// Every query is compared with the positives and hard negatives of all groups: the cross entropy of the
// cosines, divided by the temperature, where its own positive is right. `gradients`: whether they are needed.
ContrastiveLoss contrastive_loss(const ComparedVectors& vectors, double temperature, bool gradients);

}  // namespace stoa::tune
