#include "plan/calibration.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"
#include "config/value.h"
#include "config/yaml.h"

namespace stoa::plan {
namespace {

// Priors: microbenchmarks and byte counts, none of them taken from a training run.
constexpr std::array<ConstantInfo, kConstants> kConstantInfo{{
    {"gemm", "share of peak", "large products in 16 bit", 0.4, 0.95, 0.78, 0.12},
    {"gemm_fp8", "share of peak", "large products in fp8", 0.3, 0.92, 0.76, 0.15},
    {"gemm_ramp", "rows", "rows, scaled by the device's balance, at which small products fall behind", 5, 500,
     35, 0.8},
    {"attention", "share of peak", "fused attention in 16 bit", 0.1, 0.75, 0.42, 0.3},
    {"attention_triton", "share of peak", "the first fused kernels", 0.05, 0.6, 0.32, 0.35},
    {"memory", "share of bandwidth", "element-wise kernels", 0.3, 1.0, 0.72, 0.25},
    {"island", "share of bandwidth", "collectives inside an island", 0.2, 1.0, 0.65, 0.3},
    {"network", "share of bandwidth", "collectives between nodes", 0.15, 1.0, 0.75, 0.35},
    {"tensor_exposed", "share of time", "tensor-parallel traffic that overlap leaves", 0.02, 1.0, 0.4, 0.5},
    {"data_exposed", "share of time", "gradient and parameter traffic that overlap leaves", 0.02, 1.0, 0.25,
     0.6},
    {"pipeline_exposed", "share of time", "stage-to-stage traffic that is waited for", 0.02, 1.0, 0.5, 0.6},
    {"host_layer", "milliseconds", "host time of a layer and microbatch, forward", 0.01, 1.5, 0.3, 0.8},
    {"host_step", "seconds", "fixed time of a step", 0.001, 0.5, 0.02, 1.0},
    {"logit", "bytes", "moved per logit, forward and backward", 8, 65, 30, 0.4},
    {"score", "bytes", "moved per score of unfused attention, forward", 4, 40, 13, 0.4},
    {"accumulate", "bytes", "moved per weight and microbatch to add up its gradient", 4, 60, 8, 0.5},
    {"optimizer", "bytes", "moved per parameter of the optimizer's shard", 15, 120, 38, 0.4},
    {"straggler", "share per doubling", "growth of the step with the number of nodes", 0.0001, 0.03, 0.004,
     0.8},
}};

}  // namespace

const ConstantInfo& info(Constant c) { return kConstantInfo[static_cast<std::size_t>(c)]; }

Constants::Constants() {
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = kConstantInfo[i].prior;
}

const Calibration::Entry& Calibration::find(const std::string& family, const std::string& release,
                                            std::string* why) const {
  static const Entry kPrior;
  if (const auto at = releases.find({family, release}); at != releases.end()) {
    if (why) *why = fmt::format("{}: {} with {}, {} measurements", name, family, release, at->second.rows);
    return at->second;
  }
  if (const auto at = releases.find({family, kOtherRelease}); at != releases.end()) {
    if (why)
      *why = fmt::format("{}: {}, what programs have in common by {} measurements of others", name, family,
                         at->second.rows);
    return at->second;
  }
  if (const auto own = families.find(family); own != families.end()) {
    if (why) *why = fmt::format("{}: {}, {} measurements of other programs", name, family, own->second.rows);
    return own->second;
  }
  if (why) *why = fmt::format("{} is not calibrated: datasheet and textbook efficiencies", family);
  return kPrior;
}

namespace {

Calibration::Entry read_entry(const config::Node& node, const std::string& where) {
  Calibration::Entry entry;
  std::vector<std::string> names;
  for (const auto& constant : kConstantInfo) names.emplace_back(constant.name);
  for (const auto& [key, value] : node.entries) {
    const auto parsed = value.is_scalar() ? config::parse_real(value.scalar) : std::nullopt;
    const double number = parsed.value_or(0);
    require<ConfigError>(parsed.has_value(), "{}: '{}' of {} is {}, expected a number", value.origin.text(),
                         key, where, value.summary());
    if (key == "rows") {
      entry.rows = static_cast<int>(number);
    } else if (key == "low" || key == "high") {
      (key == "low" ? entry.low : entry.high) = number;
    } else {
      const auto at = std::find(names.begin(), names.end(), key);
      require<ConfigError>(at != names.end(), "{}: no constant '{}'{}", value.origin.text(), key,
                           did_you_mean(key, names));
      const auto c = static_cast<Constant>(at - names.begin());
      require<ConfigError>(number >= info(c).low && number <= info(c).high,
                           "{}: {} of {} is {}, outside its physical bounds {} to {}", value.origin.text(),
                           key, where, number, info(c).low, info(c).high);
      entry.constants[c] = number;
      entry.fitted.push_back(c);
    }
  }
  return entry;
}

config::Node write_entry(const Calibration::Entry& entry) {
  config::Node node = config::Node::map();
  const auto put = [&](std::string_view key, double value) {
    node.entries.emplace_back(std::string(key), config::Node::plain(fmt::format("{:.4g}", value)));
  };
  put("rows", entry.rows);
  put("low", entry.low);
  put("high", entry.high);
  for (const Constant c : entry.fitted)
    put(info(c).name, std::clamp(entry.constants[c], info(c).low, info(c).high));
  return node;
}

}  // namespace

namespace {

Calibration read_calibration(const config::Node& root, const std::string& name, const std::string& file) {
  Calibration calibration;
  calibration.name = name;
  const config::Node* families = root.find("families");
  require<ConfigError>(families && families->is_map(), "{}: a calibration has a mapping 'families'", file);
  if (const config::Node* unlike = root.find("unlike")) {
    const auto range = [&](const char* what, Calibration::Range& to) {
      const config::Node* node = unlike->find(what);
      if (!node || !node->is_map()) return;
      const Calibration::Entry entry = read_entry(*node, what);
      to = {entry.low, entry.high};
    };
    range("program", calibration.unlike.program);
    range("model", calibration.unlike.model);
    range("device", calibration.unlike.device);
  }
  for (const auto& [family, node] : families->entries) {
    Calibration::Entry base;
    if (const config::Node* constants = node.find("constants")) base = read_entry(*constants, family);
    if (const config::Node* kinds = node.find("kinds"))
      for (const config::Node& kind : kinds->items) base.kinds.push_back(kind.scalar);
    if (const config::Node* releases = node.find("releases")) {
      for (const auto& [release, own] : releases->entries) {
        Calibration::Entry entry = read_entry(own, release);
        Calibration::Entry merged = base;  // what a release does not determine is its family's
        for (const Constant c : entry.fitted) merged.constants[c] = entry.constants[c];
        merged.fitted = entry.fitted;
        merged.rows = entry.rows;
        merged.low = entry.low;
        merged.high = entry.high;
        calibration.releases[{family, release}] = std::move(merged);
      }
    }
    calibration.families[family] = std::move(base);
  }
  return calibration;
}

}  // namespace

Calibration load_calibration(const fs::path& file) {
  return read_calibration(config::read_yaml(file), file.stem().string(), file.string());
}

Calibration as_written(const Calibration& calibration) {
  return read_calibration(config::parse_yaml(write_calibration(calibration), calibration.name),
                          calibration.name, calibration.name);
}

std::string write_calibration(const Calibration& calibration) {
  config::Node families = config::Node::map();
  for (const auto& [family, entry] : calibration.families) {
    config::Node node = config::Node::map();
    node.entries.emplace_back("constants", write_entry(entry));
    if (!entry.kinds.empty()) {
      std::vector<config::Node> kinds;
      for (const std::string& kind : entry.kinds) kinds.push_back(config::Node::text(kind));
      node.entries.emplace_back("kinds", config::Node::sequence(std::move(kinds)));
    }
    config::Node releases = config::Node::map();
    for (const auto& [key, own] : calibration.releases)
      if (key.first == family) releases.entries.emplace_back(key.second, write_entry(own));
    if (!releases.entries.empty()) node.entries.emplace_back("releases", std::move(releases));
    families.entries.emplace_back(family, std::move(node));
  }
  config::Node root = config::Node::map();
  root.entries.emplace_back("families", std::move(families));
  const auto range = [](const Calibration::Range& r) {
    config::Node node = config::Node::map();
    node.entries.emplace_back("low", config::Node::plain(fmt::format("{:.4g}", r.low)));
    node.entries.emplace_back("high", config::Node::plain(fmt::format("{:.4g}", r.high)));
    return node;
  };
  config::Node unlike = config::Node::map();
  unlike.entries.emplace_back("program", range(calibration.unlike.program));
  unlike.entries.emplace_back("model", range(calibration.unlike.model));
  unlike.entries.emplace_back("device", range(calibration.unlike.device));
  root.entries.emplace_back("unlike", std::move(unlike));
  return config::write_yaml(root);
}

}  // namespace stoa::plan
