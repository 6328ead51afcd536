#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/utf8.h"

namespace stoa::eval {
std::vector<Window> plan_windows(std::int64_t inputs, std::int64_t window, std::int64_t stride) {
  require<InternalError>(stride >= 1 && stride <= window, "a window of {} cannot move by {}", window, stride);
  std::vector<Window> out;
  for (std::int64_t begin = 0, done = 0; done < inputs; begin += stride) {
    const std::int64_t end = std::min(begin + window, inputs);
    out.push_back({begin, done, end});
    done = end;
  }
  return out;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t space = leading_white_space(text.substr(i, 3));
    if (space == 0 && !inside) ++words;
    inside = space == 0;
    i += std::max<std::size_t>(1, space);
  }
  return words;
}

double PerplexityResult::perplexity() const { return std::exp(loss()); }
double PerplexityResult::word_perplexity() const { return std::exp(loss_sum / static_cast<double>(words)); }
double PerplexityResult::bits_per_byte() const {
  return loss_sum / static_cast<double>(bytes) / std::numbers::ln2;
}

void PerplexityResult::add_text(std::string_view text) {
  ++documents;
  words += count_words(text);
  bytes += static_cast<std::int64_t>(text.size());
}

void PerplexityResult::add_losses(std::span<const float> losses) {
  double sum = 0;
  for (const float loss : losses) sum += loss;
  require<NumericsError>(std::isfinite(sum), "the model's loss is not finite ({}) near token {} of the text",
                         sum, tokens);
  loss_sum += sum;
  tokens += static_cast<std::int64_t>(losses.size());
}

void PerplexityResult::require_tokens() const {
  require<DataError>(tokens > 0, "the text has no token to predict");
}

namespace {

void check_window(std::int64_t window, std::int64_t stride) {
  require<ConfigError>(window >= 1, "the window must hold at least 1 token, got {}", window);
  require<ConfigError>(stride >= 1 && stride <= window,
                       "the stride must be between 1 and the window of {}, got {}: tokens would be left out",
                       window, stride);
}

}  // namespace

PerplexityMeter::PerplexityMeter(const PerplexityOptions& options, Model model)
    : options_(options), model_(std::move(model)) {
  check_window(options.window, options.stride);
  require<InternalError>(options.pass_tokens >= options.window,
                         "a pass of {} tokens does not hold a window of {}", options.pass_tokens,
                         options.window);
}

void PerplexityMeter::add(std::string_view text, std::span<const std::int32_t> ids) {
  result_.add_text(text);
  sequence_.clear();
  if (options_.prefix) sequence_.push_back(*options_.prefix);
  sequence_.insert(sequence_.end(), ids.begin(), ids.end());
  const std::int64_t inputs = static_cast<std::int64_t>(sequence_.size()) - 1;
  for (const Window& window : plan_windows(inputs, options_.window, options_.stride)) push(sequence_, window);
}

void PerplexityMeter::push(std::span<const std::int32_t> sequence, const Window& window) {
  const auto count = static_cast<std::size_t>(window.end - window.begin),
             begin = static_cast<std::size_t>(window.begin);
  if (tokens_.size() + count > static_cast<std::size_t>(options_.pass_tokens)) flush();
  const auto inputs = sequence.subspan(begin, count), labels = sequence.subspan(begin + 1, count);
  tokens_.insert(tokens_.end(), inputs.begin(), inputs.end());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  lengths_.push_back(window.end - window.begin);
  skipped_.push_back(window.scored - window.begin);
}

void PerplexityMeter::flush() {
  if (tokens_.empty()) return;
  losses_.resize(tokens_.size());
  model_(tokens_, labels_, lengths_, losses_);
  std::size_t at = 0;
  for (std::size_t w = 0; w < lengths_.size(); ++w) {
    result_.add_losses(std::span(losses_).subspan(at + static_cast<std::size_t>(skipped_[w]),
                                                  static_cast<std::size_t>(lengths_[w] - skipped_[w])));
    at += static_cast<std::size_t>(lengths_[w]);
  }
  result_.read_tokens += static_cast<std::int64_t>(tokens_.size());
  ++result_.passes;
  tokens_.clear();
  labels_.clear();
  lengths_.clear();
  skipped_.clear();
}

const PerplexityResult& PerplexityMeter::finish() {
  flush();
  result_.require_tokens();
  return result_;
}

MaskedPerplexityMeter::MaskedPerplexityMeter(const MaskedPerplexityOptions& options, Model model)
    : options_(options), model_(std::move(model)) {
  check_window(options.window, options.stride);
}

void MaskedPerplexityMeter::add(std::string_view text, std::span<const std::int32_t> ids) {
  result_.add_text(text);
  const auto offset = static_cast<std::int32_t>(options_.begin.has_value());
  for (const Window& window :
       plan_windows(static_cast<std::int64_t>(ids.size()), options_.window, options_.stride)) {
    std::vector<std::int32_t> tokens, rows;
    if (options_.begin) tokens.push_back(*options_.begin);
    const auto inside = ids.subspan(static_cast<std::size_t>(window.begin),
                                    static_cast<std::size_t>(window.end - window.begin));
    tokens.insert(tokens.end(), inside.begin(), inside.end());
    if (options_.end) tokens.push_back(*options_.end);
    for (std::int64_t i = window.scored; i < window.end; ++i)
      rows.push_back(static_cast<std::int32_t>(i - window.begin) + offset);
    std::vector<float> losses(rows.size());
    model_(tokens, rows, losses);
    result_.add_losses(losses);
    result_.read_tokens += static_cast<std::int64_t>(tokens.size() * rows.size());
    ++result_.passes;
  }
}

}  // namespace stoa::eval
