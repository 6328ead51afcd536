#include "plan/near_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace stoa::plan {
namespace {

// The model of a device: "H100 PCIe" and "H100-SXM-80GB" have "h100".
std::string model_of(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      if (!out.empty()) break;
      continue;
    }
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// 0: the same; 1: one letter differs or is missing; 2: anything else.
int difference(const std::string& a, const std::string& b) {
  if (a == b) return 0;
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const std::string rest_a(left, a.end()), rest_b(right, b.end());
  const auto tail = [](const std::string& rest) { return rest.substr(rest.empty() ? 0 : 1); };
  return tail(rest_a) == tail(rest_b) || tail(rest_a) == rest_b || rest_a == tail(rest_b) ? 1 : 2;
}

}  // namespace

std::vector<std::string> near_devices(std::span<const Cluster> clusters, const std::string& name) {
  constexpr std::size_t kMost = 4;
  const std::string model = model_of(name);
  std::vector<std::pair<int, std::string>> near;
  for (const Cluster& cluster : clusters) {
    std::vector<std::string> names = cluster.device.aliases;
    names.push_back(cluster.device.name);
    int least = 2;
    bool same_series = false;  // by the first letter
    for (const std::string& known : names) {
      least = std::min(least, difference(model, model_of(known)));
      same_series = same_series || model_of(known).substr(0, 1) == model.substr(0, 1);
    }
    if (least < 2)
      near.emplace_back(2 * least + (same_series ? 0 : 1),
                        fmt::format("{} (--cluster {})", cluster.device.name, cluster.name));
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(near.size(), kMost); ++i) out.push_back(near[i].second);
  return out;
}

}  // namespace stoa::plan
