#include "serve/load/load_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/error.h"

namespace stoa::serve {
namespace {

double seconds_of(std::string_view limit, std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  require<ConfigError>(
      error == std::errc{} && std::isfinite(value) && value > 0 && (unit == "s" || unit == "ms"),
      "limit '{}': expected a time such as 1s or 200ms", limit);
  return unit == "s" ? value : value / 1000;
}

}  // namespace

bool LatencyLimits::keeps(const SentRequest& request) const {
  return request.answered() && request.first_token_seconds() <= first_token && request.seconds() <= whole &&
         (request.tokens < 2 || request.seconds_per_token() <= per_token);
}

LatencyLimits parse_limits(const std::string& text) {
  LatencyLimits out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view limit = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), limit.size() + 1));
    const std::size_t equals = limit.find('=');
    const std::string_view name = limit.substr(0, equals);
    double* of = name == "ttft"   ? &out.first_token
                 : name == "tpot" ? &out.per_token
                 : name == "e2e"  ? &out.whole
                                  : nullptr;
    require<ConfigError>(of != nullptr && equals != std::string_view::npos,
                         "limit '{}': expected ttft=TIME, tpot=TIME or e2e=TIME", limit);
    *of = seconds_of(limit, limit.substr(equals + 1));
  }
  return out;
}

Distribution distribution_of(std::vector<double> values) {
  Distribution out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const double place = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(place, 1.0)) - 1];
  };
  out.count = static_cast<std::int64_t>(values.size());
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  out.p50 = rank(0.5);
  out.p90 = rank(0.9);
  out.p99 = rank(0.99);
  out.most = values.back();
  return out;
}

LoadReport report_of(std::span<const SentRequest> requests, double seconds, const LatencyLimits& limits) {
  LoadReport out;
  out.seconds = seconds;
  std::vector<double> first, per_token, gaps, whole;
  for (const SentRequest& request : requests) {
    ++out.sent;
    if (!request.answered()) continue;
    ++out.answered;
    out.good += limits.keeps(request);
    out.prompt_tokens += request.prompt_tokens;
    out.tokens += request.tokens;
    first.push_back(request.first_token_seconds());
    whole.push_back(request.seconds());
    if (request.tokens > 1) per_token.push_back(request.seconds_per_token());
    gaps.insert(gaps.end(), request.gaps.begin(), request.gaps.end());
  }
  out.first_token = distribution_of(std::move(first));
  out.per_token = distribution_of(std::move(per_token));
  out.gap = distribution_of(std::move(gaps));
  out.whole = distribution_of(std::move(whole));
  return out;
}

}  // namespace stoa::serve
