#include "plan/error_band.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_paths.h"
#include "plan/csv.h"
#include "plan/rows.h"
#include "plan/software_profiles.h"

namespace stoa::plan {
namespace {

class ErrorBands : public ::testing::Test {
 protected:
  static fs::path configs() { return test::source_dir() / "configs"; }

  void SetUp() override {
    rows_ =
        read_rows(read_csv(configs() / "planner/published_rows.csv"), load_clusters(configs() / "clusters"),
                  SoftwareProfiles::load(configs() / "planner/software_profiles.yaml"));
    for (const Row& row : rows_)
      if (row.problem.empty() && row.seconds && row.independent) used_.push_back(&row);
  }
  const Row& row_of(const std::string& model, const std::string& family) const {
    for (const Row* row : used_)
      if (row->model.find(model) != std::string::npos && row->cluster.device.family == family) return *row;
    throw std::runtime_error("no row of " + model);
  }

  std::vector<Row> rows_;
  RowList used_;
  const Calibration shipped_ = load_calibration(configs() / "planner/calibration.yaml");
};

// Each source is predicted by what the others say, with the band that a user would be told.
TEST_F(ErrorBands, HoldFourOfFiveRowsOfSourcesThatWereLeftOut) {
  std::map<std::pair<std::string, std::string>, RowList> sources;
  const auto program = [](const Row* row) { return program_of(row->workload.software.release); };
  for (const Row* row : used_) sources[{program(row), row->cluster.device.family}].push_back(row);
  int inside = 0, all = 0;
  for (const auto& [key, own] : sources) {
    const std::string& family = key.second;
    RowList others;
    for (const Row* row : used_)
      if (program(row) != key.first && row->cluster.device.family == family) others.push_back(row);
    // What `plan calibrate` would know without the source: what the other programs have in common.
    Calibration left;
    left.unlike = shipped_.unlike;
    Calibration::Entry entry;
    for (const Row* row : others)
      for (const std::string& kind : model_kinds(row->workload.model)) entry.kinds.push_back(kind);
    entry.constants = fit_population(others, {}).mean;
    left.families[family] = entry;
    for (const Row* row : own) {
      const ErrorBand band = error_band(row->workload, row->cluster, left);
      const double ratio = 1 / (1 + error_of(*row, entry.constants));  // measured over predicted
      inside += band.low <= ratio && ratio <= band.high;
      ++all;
    }
  }
  EXPECT_GE(all, 340);
  EXPECT_GE(inside, all * 8 / 10) << inside << " of " << all;
  EXPECT_LE(inside, all * 97 / 100) << "a band that holds everything says nothing";
}

TEST_F(ErrorBands, WidenByWhatWasNotMeasured) {
  const Row& nemo = row_of("Llama", "H100");
  const ErrorBand known = error_band(nemo.workload, nemo.cluster, shipped_);
  EXPECT_EQ(known.why, "");
  Workload other = nemo.workload;
  other.software.release = "something else";
  const ErrorBand program = error_band(other, nemo.cluster, shipped_);
  EXPECT_THAT(program.why, ::testing::HasSubstr("no run of this program"));
  EXPECT_LT(program.low, known.low);
  EXPECT_GT(program.high, known.high);
  other.model.latent_rank = 512;
  const ErrorBand kind = error_band(other, nemo.cluster, shipped_);
  EXPECT_THAT(kind.why, ::testing::HasSubstr("latent attention"));
  EXPECT_LT(kind.low, program.low);
  EXPECT_GT(kind.high, program.high);
  Cluster unknown = nemo.cluster;
  unknown.device.family = "X900";
  unknown.device.name = "X900";
  const ErrorBand device = error_band(nemo.workload, unknown, shipped_);
  EXPECT_THAT(device.why, ::testing::HasSubstr("no run on X900"));
  EXPECT_LT(device.low, known.low);
  // Experts were measured on H100, not on A100.
  Workload experts = row_of("GPT", "A100").workload;
  experts.model.experts = 8;
  EXPECT_THAT(error_band(experts, row_of("GPT", "A100").cluster, shipped_).why,
              ::testing::HasSubstr("no model with experts was measured on A100"));
}

}  // namespace
}  // namespace stoa::plan
