#include "tune/contrastive.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace stoa::tune {
namespace {

constexpr double kShortest = 1e-12;  // vectors that are no longer than it have no direction

// Vectors scaled to length 1.
struct Directions {
  std::vector<double> values, lengths;
};

Directions directions_of(const ComparedVectors& vectors) {
  Directions out{{vectors.values.begin(), vectors.values.end()}, {}};
  const auto width = static_cast<std::size_t>(vectors.width);
  for (std::size_t at = 0; at < out.values.size(); at += width) {
    const std::span<double> own = std::span(out.values).subspan(at, width);
    const double length = std::sqrt(std::inner_product(own.begin(), own.end(), own.begin(), 0.0));
    out.lengths.push_back(std::max(length, kShortest));
    for (double& x : own) x /= out.lengths.back();
  }
  return out;
}

// Gradients by directions become those by the vectors: what lies along a vector has no effect.
void through_lengths(std::vector<double>& gradients, const Directions& of, std::size_t width) {
  for (std::size_t i = 0; i < of.lengths.size(); ++i) {
    const auto g = std::span(gradients).subspan(i * width, width);
    const auto u = std::span(of.values).subspan(i * width, width);
    const double along = std::inner_product(g.begin(), g.end(), u.begin(), 0.0);
    for (std::size_t c = 0; c < width; ++c) g[c] = (g[c] - along * u[c]) / of.lengths[i];
  }
}

}  // namespace

ContrastiveLoss contrastive_loss(const ComparedVectors& vectors, double temperature, bool gradients) {
  const auto width = static_cast<std::size_t>(vectors.width), texts = static_cast<std::size_t>(vectors.texts),
             groups = static_cast<std::size_t>(vectors.groups()), all = groups * texts;
  require<InternalError>(texts >= 2 && all * width == vectors.values.size(),
                         "{} values of vectors of {} in groups of {}", vectors.values.size(), width, texts);
  const Directions of = directions_of(vectors);
  const auto direction = [&](std::size_t text) { return std::span(of.values).subspan(text * width, width); };
  ContrastiveLoss out;
  if (gradients) out.gradients.assign(vectors.values.size(), 0.0);
  std::vector<std::size_t> candidates;  // all texts but the queries
  for (std::size_t text = 0; text < all; ++text)
    if (text % texts != 0) candidates.push_back(text);
  std::vector<double> cosines(all), shares(all);
  for (std::size_t query = 0; query < all; query += texts) {
    const auto q = direction(query);
    double nearest = -2;
    for (const std::size_t text : candidates) {
      const auto c = direction(text);
      cosines[text] = std::inner_product(q.begin(), q.end(), c.begin(), 0.0);
      nearest = std::max(nearest, cosines[text]);
    }
    double sum = 0, added = 0;
    for (const std::size_t text : candidates) {
      sum += shares[text] = std::exp((cosines[text] - nearest) / temperature);
      added += cosines[text];
    }
    const double own = cosines[query + 1];
    const auto other = static_cast<double>(candidates.size() - 1);
    out.loss += std::log(sum) + (nearest - own) / temperature;
    out.right += own >= nearest ? 1 : 0;
    out.positive += own;
    if (other > 0) out.others += (added - own) / other;
    if (!gradients) continue;
    const auto by_query = std::span(out.gradients).subspan(query * width, width);
    for (const std::size_t text : candidates) {
      const double slope = (shares[text] / sum - (text == query + 1 ? 1 : 0)) / temperature;
      const auto c = direction(text);
      const auto by_text = std::span(out.gradients).subspan(text * width, width);
      for (std::size_t i = 0; i < width; ++i) {
        by_query[i] += slope * c[i];
        by_text[i] += slope * q[i];
      }
    }
  }
  if (gradients) through_lengths(out.gradients, of, width);
  return out;
}

}  // namespace stoa::tune
