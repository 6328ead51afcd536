#include "eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "infer/engine/single_text.h"
#include "infer/probabilities.h"

namespace stoa::eval {
namespace {

std::ptrdiff_t top_of(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace

double Divergence::perplexity() const { return std::exp(loss_sum / static_cast<double>(tokens)); }
double Divergence::other_perplexity() const { return std::exp(other_loss_sum / static_cast<double>(tokens)); }

Divergence measure_divergence(infer::PassModel& original, infer::PassModel& other,
                              std::span<const std::int32_t> ids, std::int64_t window,
                              const std::function<void(std::int64_t)>& at) {
  require<DataError>(ids.size() >= 2, "a text of {} tokens has none to predict", ids.size());
  Divergence out;
  infer::SingleText text(original), other_text(other);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    if (static_cast<std::int64_t>(i) % window == 0) {
      text.rewind();
      other_text.rewind();
    }
    const auto a = text.feed(ids.subspan(i, 1)), b = other_text.feed(ids.subspan(i, 1));
    const double sum_a = infer::log_of_sum(a), sum_b = infer::log_of_sum(b);
    const auto label = static_cast<std::size_t>(ids[i + 1]);
    out.loss_sum += sum_a - a[label];
    out.other_loss_sum += sum_b - b[label];
    for (std::size_t v = 0; v < a.size(); ++v) {
      const double log_a = a[v] - sum_a, log_b = b[v] - sum_b;
      out.kl_sum += std::exp(log_a) * (log_a - log_b);
    }
    if (top_of(a) == top_of(b)) ++out.same_top;
    ++out.tokens;
    at(out.tokens);
  }
  return out;
}

}  // namespace stoa::eval
