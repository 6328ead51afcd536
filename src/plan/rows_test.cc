#include "plan/rows.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_paths.h"
#include "plan/accuracy.h"
#include "plan/fit.h"
#include "plan/nearest_rows.h"
#include "plan/predict.h"

namespace stoa::plan {
namespace {

const fs::path kSource = test::source_dir();

std::vector<Cluster> clusters() { return load_clusters(kSource / "configs/clusters"); }
SoftwareProfiles profiles() {
  return SoftwareProfiles::load(kSource / "configs/planner/software_profiles.yaml");
}

constexpr const char* kHeader =
    "source,model,layers,hidden,heads,seq_len,gpu,gpus,tp,pp,micro_batch,global_batch,recompute,distributed_"
    "optimizer,"
    "precision,seconds_per_step,note\n";

std::vector<Row> rows_of(const std::string& lines) {
  return read_rows(parse_csv(kHeader + lines, "test"), clusters(), profiles());
}

TEST(Csv, QuotesAndLineBreaks) {
  const CsvTable table = parse_csv("a,b\n\"x, \"\"y\"\"\nz\",2\r\n\n3,\n", "t");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0][0], "x, \"y\"\nz");
  EXPECT_EQ(table.rows[1][1], "");
  EXPECT_EQ(write_csv(table), "a,b\n\"x, \"\"y\"\"\nz\",2\n3,\n");
  EXPECT_THROW(parse_csv("a,b\n1\n", "t"), DataError);
  EXPECT_THROW(parse_csv("a,b\n\"1,2\n", "t"), DataError);
  EXPECT_THROW(parse_csv("", "t"), DataError);
}

TEST(Rows, MissingColumnsAreListed) {
  try {
    read_rows(parse_csv("source,model,layers\n", "t"), clusters(), profiles());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("no column hidden, heads, seq_len, gpu"), std::string::npos)
        << error.what();
  }
}

TEST(Rows, BlanksAreFilledAndNoted) {
  const auto rows = rows_of(
      "Zero Bubble,GPT 1.5B (ZB-2p),22,2304,24,1024,A100-SXM-80GB (RoCE),8,1,8,6,384,none,no,,3.2,\n"
      "llm-foundry,MPT-7b,32,4096,32,2048,A100-SXM-80GB,8,1,1,4,,full,FSDP FULL_SHARD,bf16,,MP mode PURE\n"
      "dgxc-benchmarking v25.02,Llama3.1 8B,32,4096,32,8192,H100-SXM-80GB,8,1,1,1,128,\"full (4 of 32 "
      "layers)\",yes,fp8,9,\n"
      "x,y,32,4096,32,2048,abacus,8,1,1,4,32,none,no,bf16,1,\n"
      "x,y,32,4096,32,2048,H100,8,5,1,4,32,none,no,bf16,1,\n");
  EXPECT_EQ(rows[0].workload.schedule, "zb-h2");
  EXPECT_EQ(rows[0].workload.chunk_layers, (std::vector<std::int64_t>{2, 3, 3, 3, 3, 3, 3, 2}));
  EXPECT_EQ(rows[1].workload.zero_stage, 3);
  EXPECT_EQ(rows[1].workload.software.gradient_bytes, 2);
  EXPECT_EQ(rows[1].workload.software.attention, AttentionKernel::kTriton);
  EXPECT_FALSE(rows[1].seconds.has_value());
  EXPECT_NE(
      std::find(rows[1].notes.begin(), rows[1].notes.end(), "global_batch taken as 4 microbatches per stage"),
      rows[1].notes.end());
  EXPECT_EQ(rows[2].workload.format, Format::kFp8);
  EXPECT_TRUE(rows[2].workload.model.gated);
  EXPECT_EQ(rows[2].workload.model.kv_heads, 8);
  EXPECT_EQ(rows[2].workload.recomputed_share, 0.125);
  EXPECT_EQ(rows[2].workload.zero_stage, 1);
  EXPECT_EQ(rows_of("x,Mixtral 8x7B,32,4096,32,2048,A100-SXM-80GB,8,8,1,4,32,none,no,bf16,1,\n")[0]
                .workload.model.vocabulary,
            32 * 8 * 128)
      << "32000, padded for 8 ranks";
  EXPECT_NE(rows[3].problem.find("'abacus' is not known"), std::string::npos);
  EXPECT_NE(rows[4].problem.find("must divide"), std::string::npos);
}

// Rows made by the model itself: the fit finds the constants that they determine.
TEST(Fit, FindsWhatMadeTheRows) {
  std::string lines;
  for (const int micro_batch : {1, 2, 4, 8})
    for (const int tp : {1, 2, 4, 8})
      for (const int hidden : {2048, 4096, 8192})
        lines += fmt::format("x,m,24,{},32,2048,A100-SXM-80GB,8,{},1,{},{},none,no,bf16,1,\n", hidden, tp,
                             micro_batch, micro_batch * (8 / tp) * 4);
  auto rows = rows_of(lines);
  Constants truth;
  truth[Constant::kGemm] = 0.7;
  truth[Constant::kIsland] = 0.45;
  RowList list;
  for (Row& row : rows) {
    ASSERT_EQ(row.problem, "");
    row.seconds = predict_time(row.workload, row.cluster, truth).sum();
    list.push_back(&row);
  }
  const Constants found = fit_constants(list, {}, {.scatter = 0.003});
  EXPECT_NEAR(found[Constant::kGemm], 0.7, 0.01);
  EXPECT_NEAR(found[Constant::kIsland], 0.45, 0.02);
  EXPECT_EQ(found[Constant::kGemmFp8], Constants()[Constant::kGemmFp8]) << "no row says anything about it";
  for (const Row* row : list) EXPECT_LT(std::abs(error_of(*row, found)), 0.01);
}

// Five programs that differ in how much of the island's bandwidth they reach and in nothing else.
TEST(Fit, PopulationLearnsWhereProgramsDiffer) {
  const std::vector<double> reached{0.25, 0.4, 0.6, 1.0, 0.3};
  std::vector<std::vector<Row>> programs;
  RowList list;
  for (std::size_t p = 0; p < reached.size(); ++p) {
    std::string lines;
    for (const int micro_batch : {1, 4})
      for (const int tp : {1, 2, 8})
        for (const int hidden : {2048, 8192})
          lines += fmt::format("x,m,24,{},32,2048,A100-SXM-80GB,8,{},1,{},{},none,no,bf16,1,\n", hidden, tp,
                               micro_batch, micro_batch * (8 / tp) * 4);
    programs.push_back(rows_of(lines));
    Constants truth;
    truth[Constant::kIsland] = reached[p];
    for (Row& row : programs.back()) {
      row.workload.software.release = fmt::format("program-{}", p);
      row.seconds = predict_time(row.workload, row.cluster, truth).sum();
      if (p < 4) list.push_back(&row);
    }
  }
  const Population population = fit_population(list, {});
  const Deviations textbook = textbook_deviations();
  const auto width = [&](Constant c) {
    const auto i = static_cast<std::size_t>(c);
    return population.deviation[i] / textbook[i];
  };
  EXPECT_GT(width(Constant::kIsland), 1.2);
  EXPECT_LT(width(Constant::kGemm), 0.8) << "the same in all of them";
  EXPECT_NEAR(population.mean[Constant::kIsland], 0.52, 0.06) << "between the four's 0.5 and the textbook";
  // The fifth, by one of its rows with tensor parallelism.
  const Row& known = programs[4][5];
  ASSERT_EQ(known.workload.tp, 8);
  const Constants found = fit_member({&known}, population);
  const Constants pooled = fit_constants({&known}, fit_constants(list, {}));
  double error = 0, pooled_error = 0;
  for (const Row& row : programs[4]) {
    error += std::abs(error_of(row, found));
    pooled_error += std::abs(error_of(row, pooled));
  }
  EXPECT_LT(error, pooled_error);
  // A calibration keeps the mean for programs without rows.
  const Calibration calibration = calibrate(list);
  std::string why;
  EXPECT_EQ(calibration.find("A100", "unheard-of", &why).constants[Constant::kIsland],
            calibration.releases.at({"A100", kOtherRelease}).constants[Constant::kIsland]);
  EXPECT_NE(why.find("what programs have in common"), std::string::npos) << why;
}

// Four runs and one that something held up: the others' times are found all the same.
TEST(Fit, OneBadRowOfFiveIsSeenThrough) {
  std::string lines;
  for (const int tp : {1, 2, 8})
    for (const int hidden : {2048, 4096, 8192})
      lines += fmt::format("x,m,24,{},32,2048,A100-SXM-80GB,8,{},1,2,{},none,no,bf16,1,\n", hidden, tp,
                           2 * (8 / tp) * 4);
  auto rows = rows_of(lines);
  const Population textbook{{}, textbook_deviations()};
  Constants truth;
  truth[Constant::kGemm] = 0.7;
  RowList few;
  for (Row& row : rows) {
    row.seconds = predict_time(row.workload, row.cluster, truth).sum();
    if (few.size() < 5) few.push_back(&row);
  }
  const double measured = *rows[1].seconds;
  rows[1].seconds = 1.6 * measured;
  const Constants found = fit_member(few, textbook);
  rows[1].seconds = measured;
  for (const Row& row : rows) EXPECT_LT(std::abs(error_of(row, found)), 0.01) << row.workload.text();
}

TEST(NearestRows, AreLikeTheWorkloadAndSayWhatWasMeasured) {
  const auto rows = rows_of(
      "Azure HPC blog,GPT-3 175B,96,12288,96,2048,A100-SXM-80GB,1024,8,8,2,1536,selective,no,bf16,22.8,\n"
      "Azure HPC blog,GPT-3 5B,24,4096,32,2048,A100-SXM-80GB,16,2,1,4,2160,selective,no,bf16,37.4,\n"
      "Azure HPC blog,GPT-3 5B,24,4096,32,2048,H100-SXM-80GB,16,2,1,4,2160,selective,no,bf16,20,\n");
  EXPECT_EQ(distance_of(rows[0].workload, rows[0].workload), 0);
  EXPECT_GT(distance_of(rows[0].workload, rows[1].workload), 2);
  const auto near = nearest_rows(rows, rows[1].workload, rows[1].cluster, {}, 2);
  ASSERT_EQ(near.size(), 2u);
  EXPECT_TRUE(near[0].starts_with("GPT-3 5B on 16 x A100-SXM-80GB, TP2 DP8, microbatch 4")) << near[0];
  EXPECT_NE(near[0].find("37.4 s measured"), std::string::npos) << near[0];
  EXPECT_TRUE(near[1].starts_with("GPT-3 5B on 16 x H100")) << near[1];
}

TEST(Accuracy, Summary) {
  const ErrorSummary s = summarize({0.1, -0.2, 0.3, -0.4, 0.5});
  EXPECT_NEAR(s.median, 30, 1e-9);
  EXPECT_NEAR(s.mean, 30, 1e-9);
  EXPECT_NEAR(s.p90, 46, 1e-9);
}

// A few published rows of every source, committed: with the calibration that ships none is far off.
TEST(Accuracy, PublishedRowsStayWherePredicted) {
  const auto table = read_csv(kSource / "tests/fixtures/planner/published_rows.csv");
  const auto known = clusters();
  const auto rows = read_rows(table, known, profiles());
  const Calibration calibration = load_calibration(kSource / "configs/planner/calibration.yaml");
  std::vector<double> errors, datasheet;
  for (const Row& row : rows) {
    ASSERT_EQ(row.problem, "") << row.source << " " << row.model;
    errors.push_back(predict(row.workload, row.cluster, calibration).seconds / *row.seconds - 1);
    datasheet.push_back(error_of(row, {}));
    EXPECT_LT(std::abs(errors.back()), 0.3) << row.source << " " << row.model;
  }
  EXPECT_LT(summarize(errors).mean, 6);
  EXPECT_LT(summarize(datasheet).mean, 12);
}

}  // namespace
}  // namespace stoa::plan
