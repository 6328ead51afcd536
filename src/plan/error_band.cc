#include "plan/error_band.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

namespace stoa::plan {
namespace {

// Unlike in several ways: independent factors, whose logarithms add in squares.
class Widths {
 public:
  void add(const Calibration::Range& r) {
    low_ += std::pow(std::min(0.0, std::log(r.low)), 2);
    high_ += std::pow(std::max(0.0, std::log(r.high)), 2);
  }
  double low() const { return std::exp(-std::sqrt(low_)); }
  double high() const { return std::exp(std::sqrt(high_)); }

 private:
  double low_ = 0, high_ = 0;
};

const std::string& device_family(const Row& row) { return row.cluster.device.family; }

}  // namespace

std::vector<std::string> model_kinds(const ModelShape& model) {
  std::vector<std::string> kinds;
  if (model.experts > 0) kinds.emplace_back("experts");
  if (model.latent_rank > 0) kinds.emplace_back("latent attention");
  if (model.linear_layers > 0) kinds.emplace_back("linear attention");
  if (model.state_layers > 0) kinds.emplace_back("state-space layers");
  return kinds;
}

Calibration::Range range_of(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double share) {
    return errors[static_cast<std::size_t>(std::lround(share * static_cast<double>(errors.size() - 1)))];
  };
  return {std::min(0.98, 1 / (1 + at(0.9))), std::max(1.02, 1 / (1 + at(0.1)))};
}

std::string program_of(const std::string& release) {
  for (std::size_t at = 0; (at = release.find('-', at)) != std::string::npos; ++at)
    if (at + 1 < release.size() && std::isdigit(static_cast<unsigned char>(release[at + 1])))
      return release.substr(0, at);
  return release;
}

ErrorBand error_band(const Workload& w, const Cluster& c, const Calibration& calibration) {
  const std::string& device = c.device.family;
  const Calibration::Entry& entry = calibration.find(device, w.software.release);
  std::vector<std::string> missing;
  Widths widths;
  const auto of_device = calibration.families.find(device);
  if (of_device == calibration.families.end()) {
    missing.push_back(fmt::format("no run on {} was measured", c.device.name));
    widths.add(calibration.unlike.device);
  } else if (!calibration.releases.contains({device, w.software.release})) {
    missing.push_back(
        fmt::format("no run of this program ({}) on {} was measured", w.software.release, device));
    widths.add(calibration.unlike.program);
  } else {
    widths.add({entry.low, entry.high});
  }
  if (of_device != calibration.families.end()) {
    std::vector<std::string> kinds = model_kinds(w.model);
    const auto& seen = of_device->second.kinds;
    std::erase_if(kinds, [&](const auto& k) { return std::find(seen.begin(), seen.end(), k) != seen.end(); });
    if (!kinds.empty()) {
      missing.push_back(fmt::format("no model with {} was measured on {}", fmt::join(kinds, ", "), device));
      widths.add(calibration.unlike.model);
    }
  } else if (!model_kinds(w.model).empty()) {
    widths.add(calibration.unlike.model);
  }
  return {widths.low(), widths.high(), fmt::format("{}", fmt::join(missing, "; "))};
}

Calibration::Unlike measure_unlike(const RowList& rows) {
  Calibration::Unlike out;
  const Constants prior;
  std::vector<double> program, model, device;
  std::map<std::pair<std::string, std::string>, RowList> programs;
  std::map<std::string, RowList> plain, special;  // by family: dense models, and others
  for (const Row* row : rows) {
    device.push_back(error_of(*row, prior));
    programs[{program_of(row->workload.software.release), device_family(*row)}].push_back(row);
    (model_kinds(row->workload.model).empty() ? plain : special)[device_family(*row)].push_back(row);
  }
  for (const auto& [key, own] : programs) {
    RowList others;
    for (const Row* row : rows)
      if (device_family(*row) == key.second && program_of(row->workload.software.release) != key.first)
        others.push_back(row);
    if (others.empty()) continue;
    const Constants mean = fit_population(others, prior).mean;
    for (const Row* row : own) program.push_back(error_of(*row, mean));
  }
  for (const auto& [name, own] : special) {
    const auto dense = plain.find(name);
    if (dense == plain.end()) continue;
    const Constants fitted = fit_constants(dense->second, prior);
    for (const Row* row : own) model.push_back(error_of(*row, fitted));
  }
  if (!program.empty()) out.program = range_of(program);
  if (!model.empty()) {
    // One source: it may as well have been as far off the other way.
    const Calibration::Range range = range_of(model);
    const double high = std::max(range.high, 1 / range.low);
    out.model = {1 / high, high};
  }
  if (!device.empty()) out.device = range_of(device);
  return out;
}

}  // namespace stoa::plan
