// Loss of a model on texts, by a window that slides over their tokens, and what people derive from it:
// perplexity per token and per word, bits per byte. MaskedPerplexityMeter: the same of an encoder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace stoa::eval {

// A piece of a text that the model reads at once: inputs [begin, end), of which the tokens after inputs
// [scored, end) count.
struct Window {
  std::int64_t begin = 0, scored = 0, end = 0;
  bool operator==(const Window&) const = default;
};

// Windows of at most `window` inputs that begin `stride` apart, so that every one of `inputs` predictions
// counts exactly once and, after the first window, sees at least window - stride tokens before it. A stride
// of `window` means disjoint windows. Needs 1 <= stride <= window.
std::vector<Window> plan_windows(std::int64_t inputs, std::int64_t window, std::int64_t stride);

// Pieces of `text` between white space (the characters that Python's str.split() cuts at). Bytes that are not
// UTF-8 are letters.
std::int64_t count_words(std::string_view text);

struct PerplexityOptions {
  std::int64_t window = 1024, stride = 512;
  std::int64_t pass_tokens = 4096;     // tokens of one call of the model, at least a window
  std::optional<std::int32_t> prefix;  // precedes every text, so that its first token counts too
};

struct PerplexityResult {
  std::int64_t documents = 0, tokens = 0, words = 0, bytes = 0;  // tokens: those that count
  std::int64_t read_tokens = 0, passes = 0;                      // what the model read, overlaps included
  double loss_sum = 0;                                           // nats

  // Counts a text, before the losses of its tokens.
  void add_text(std::string_view text);
  // NumericsError where a loss is not finite.
  void add_losses(std::span<const float> losses);
  // DataError when no token counted.
  void require_tokens() const;
  double loss() const { return loss_sum / static_cast<double>(tokens); }
  double perplexity() const;       // exp(loss per token)
  double word_perplexity() const;  // exp(loss_sum / words)
  double bits_per_byte() const;    // loss_sum / bytes / ln 2
};

class PerplexityMeter {
 public:
  // losses[t] = -ln p(labels[t] | tokens of the same piece up to t), for pieces of the given lengths that lie
  // back to back.
  using Model = std::function<void(std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
                                   std::span<const std::int64_t> lengths, std::span<float> losses)>;
  // ConfigError for a window, stride or pass that cannot be.
  PerplexityMeter(const PerplexityOptions& options, Model model);

  // `ids` are the tokens of `text`; words and bytes are those of the text. NumericsError where the model's
  // loss is not finite.
  void add(std::string_view text, std::span<const std::int32_t> ids);
  // Runs what still waits for a full pass. DataError when no token counted.
  const PerplexityResult& finish();
  const PerplexityResult& result() const { return result_; }

 private:
  void push(std::span<const std::int32_t> sequence, const Window& window);
  void flush();

  const PerplexityOptions options_;
  const Model model_;
  PerplexityResult result_;
  std::vector<std::int32_t> sequence_, tokens_, labels_;
  std::vector<std::int64_t> lengths_,
      skipped_;  // of every waiting window: its inputs, and those that do not count
  std::vector<float> losses_;
};

struct MaskedPerplexityOptions {
  std::int64_t window = 512,
               stride = 256;  // tokens of a text that are read at once, `begin` and `end` not counted
  std::optional<std::int32_t> begin, end;  // stand before and after every window ([CLS] and [SEP])
};

// Pseudo-perplexity of an encoder (Salazar et al. 2020, Masked Language Model Scoring, section 2.3): every
// token is predicted from all others of its window.
class MaskedPerplexityMeter {
 public:
  // losses[i] = -ln p(tokens[rows[i]] | the tokens with that one hidden).
  using Model = std::function<void(std::span<const std::int32_t> tokens, std::span<const std::int32_t> rows,
                                   std::span<float> losses)>;
  // ConfigError for a window or stride that cannot be.
  MaskedPerplexityMeter(const MaskedPerplexityOptions& options, Model model);

  // As PerplexityMeter's.
  void add(std::string_view text, std::span<const std::int32_t> ids);
  const PerplexityResult& result() const { return result_; }

 private:
  const MaskedPerplexityOptions options_;
  const Model model_;
  PerplexityResult result_;
};

}  // namespace stoa::eval
