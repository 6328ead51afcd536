// Text that ends where a stop text begins.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::infer {

// Holds text back while it may still become a stop text.
class StopFilter {
 public:
  // `include`: a stop text that ends the answer is part of it.
  explicit StopFilter(std::vector<std::string> stops, bool include = false)
      : stops_(std::move(stops)), include_(include) {}

  // Text that is certain; `stopped` when a stop text has been completed.
  std::string push(std::string_view text, bool& stopped) {
    held_ += text;
    std::size_t cut = std::string::npos, length = 0;
    for (const auto& stop : stops_)
      if (const std::size_t at = stop.empty() ? std::string::npos : held_.find(stop); at < cut)
        cut = at, length = stop.size(), found_ = stop;
    if (cut != std::string::npos) {
      stopped = true;
      return std::exchange(held_, {}).substr(0, cut + (include_ ? length : 0));
    }
    std::size_t keep = 0;  // longest end of the text that begins a stop text
    for (const auto& stop : stops_)
      for (std::size_t n = std::min(stop.size(), held_.size()); n > keep; --n)
        if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
    std::string out = held_.substr(0, held_.size() - keep);
    held_.erase(0, out.size());
    return out;
  }
  std::string finish() { return std::exchange(held_, {}); }
  // The stop text that was completed; empty: none.
  const std::string& found() const { return found_; }

 private:
  const std::vector<std::string> stops_;
  const bool include_;
  std::string held_, found_;
};

}  // namespace stoa::infer
