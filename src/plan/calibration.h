// The constants of the time model that no datasheet gives: at most 18 per device type, with physical bounds.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "plan/cluster.h"

namespace stoa::plan {

// What each constant is, its unit, bounds and prior: calibration.cc, kConstantInfo.
enum class Constant {
  kGemm,             // share of the 16-bit peak that large products reach
  kGemmFp8,          // the same in fp8
  kGemmRamp,         // how fast smaller products fall behind
  kAttention,        // share of the 16-bit peak of fused attention
  kAttentionTriton,  // of the first fused kernels
  kMemory,           // share of memory bandwidth of element-wise kernels
  kIsland,           // share of the island's bandwidth that collectives reach
  kNetwork,          // share of the network's
  kTensorExposed,    // part of tensor-parallel traffic that stays visible with overlap
  kDataExposed,      // part of gradient and parameter traffic that stays visible with overlap
  kPipelineExposed,  // part of stage-to-stage traffic that stays visible
  kHostLayer,        // host time of a layer and microbatch, forward
  kHostStep,         // fixed time of a step
  kLogit,            // bytes moved per logit, forward and backward
  kScore,            // bytes moved per score of unfused attention, forward
  kAccumulate,       // bytes moved per weight and microbatch to add up its gradient
  kOptimizer,        // bytes per parameter of the optimizer's shard
  kStraggler,        // growth of the step per doubling of nodes
  kCount
};
inline constexpr int kConstants = static_cast<int>(Constant::kCount);

struct ConstantInfo {
  std::string_view name, unit, help;
  double low, high;  // physical bounds
  double prior;      // what holds without a calibration: the same for all devices
  double deviation;  // of the prior, in natural logarithms
};
const ConstantInfo& info(Constant c);

struct Constants {
  std::array<double, kConstants> value;
  Constants();  // priors
  double operator[](Constant c) const { return value[static_cast<std::size_t>(c)]; }
  double& operator[](Constant c) { return value[static_cast<std::size_t>(c)]; }
};

// The release under which a calibration holds what programs without measurements are taken for.
inline constexpr const char* kOtherRelease = "other";

// Sets of constants by device family, and by family and release where data determine some of them.
struct Calibration {
  struct Entry {
    Constants constants;
    std::vector<Constant> fitted;  // the others are priors, or the family's
    int rows = 0;                  // of measurements behind it
    double low = 0.75,
           high = 1.35;  // measured over predicted, 10th and 90th percentile, widened for few rows
    std::vector<std::string> kinds;  // of a family: kinds of models that were measured (plan/error_band)
  };
  struct Range {
    double low = 0.75, high = 1.35;
  };
  // Measured over predicted where a program, a kind of model or a device is not among the measurements.
  struct Unlike {
    Range program, model, device;
  };
  std::string name = "datasheet";
  std::map<std::string, Entry> families;                          // "A100"
  std::map<std::pair<std::string, std::string>, Entry> releases;  // ("H100", "nemo-24.11")
  Unlike unlike;

  // The most specific entry: release, other releases, family, else the priors. `why` says which.
  const Entry& find(const std::string& family, const std::string& release, std::string* why = nullptr) const;
};

// YAML. ConfigError for unknown constants and values out of bounds.
Calibration load_calibration(const fs::path& file);
std::string write_calibration(const Calibration& calibration);
// As its file gives it: rounded, and without what the measurements do not determine.
Calibration as_written(const Calibration& calibration);

}  // namespace stoa::plan
