// The planner's times, as a user asks for them.
#include <fstream>
#include <sstream>

#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

class PlanPredict : public Workplace {};

std::string text_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST_F(PlanPredict, OfAConfiguration) {
  const Arguments command{"plan",
                          "predict",
                          "gpt-20b",
                          "--cluster",
                          "dgx-a100-80gb",
                          "--ranks",
                          "64",
                          "model.pipeline_model_parallel_size=4",
                          "model.tensor_model_parallel_size=2",
                          "model.global_batch_size=256"};
  const auto plan = json_of(command + Arguments{"--json"});
  EXPECT_EQ(plan["devices"], 64);
  EXPECT_GT(plan["step_seconds"].get<double>(), plan["low_seconds"].get<double>());
  EXPECT_GT(plan["share_of_peak"].get<double>(), 0.2);
  EXPECT_LT(plan["share_of_peak"].get<double>(), 0.7);
  double sum = 0;
  for (const auto& [name, seconds] : plan["seconds"].items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum / plan["step_seconds"].get<double>(), 1, 1e-6);
  EXPECT_EQ(plan["nearest_published"].size(), 3u);
  EXPECT_FALSE(plan.contains("accounting"));
  EXPECT_GT(
      json_of(command + Arguments{"--json", "--accounting", "2205.05198"})["accounting"]["layers_bytes"],
      1e9);
  const Outcome text = stoa(command + Arguments{"--accounting", "2205.05198"});
  EXPECT_NE(text.out.find("s measured, "), std::string::npos) << text.text();
  EXPECT_NE(text.out.find("2205.05198 counts on the first stage"), std::string::npos) << text.text();
  for (const char* kind : {"html", "svg", "json"}) {
    const Outcome drawn = stoa(command + Arguments{"--timeline", std::string("step.") + kind});
    EXPECT_EQ(drawn.exit_code, 0) << drawn.text();
    EXPECT_GT(fs::file_size(directory() / (std::string("step.") + kind)), 1000u);
  }
}

// One truth about memory: both commands count, and a GPU has 4 GB that Stoa does not allocate.
TEST_F(PlanPredict, MemoryIsThatOfPlanMemory) {
  const auto same = [&](const Arguments& config, const char* cluster, double reserve) {
    const auto planned = json_of(Arguments{"plan", "memory", "--json"} + config);
    const auto predicted = json_of(Arguments{"plan", "predict", "--json", "--cluster", cluster} + config);
    EXPECT_EQ(predicted["memory"], "counted");
    EXPECT_EQ(predicted["memory_bytes"]["total"].get<double>(),
              planned["total_bytes"].get<double>() + reserve);
    EXPECT_EQ(predicted["fits"], predicted["memory_bytes"]["total"].get<double>() <= 80e9);
  };
  same({"tiny"}, "laptop-cpu", 0);
  same({"gpt-20b", "--ranks", "64", "model.pipeline_model_parallel_size=4",
        "model.tensor_model_parallel_size=2", "model.global_batch_size=256"},
       "dgx-h100", 4e9);
  same({"mixtral-8x7b", "--ranks", "64", "model.expert_model_parallel_size=8", "model.global_batch_size=256"},
       "dgx-h100", 4e9);
}

// On a link so slow that the copies cannot hide behind the layers.
TEST_F(PlanPredict, CopiesOfOffloadedActivationsAreCounted) {
  std::string cluster = text_of(test::source_dir() / "configs/clusters/dgx-a100-80gb.yaml");
  const std::string link = "host_bandwidth_gbs: 15.75";
  ASSERT_NE(cluster.find(link), std::string::npos);
  cluster.replace(cluster.find(link), link.size(), "host_bandwidth_gbs: 1");
  std::ofstream(directory() / "slow.yaml") << cluster;
  const auto plan = [&](const char* on, const Arguments& more) {
    return json_of(Arguments{"plan", "predict", "gpt-5b", "--cluster", on, "--ranks", "8", "--json",
                             "model.tensor_model_parallel_size=2"} +
                   more);
  };
  const Arguments moved{"model.cpu_offloading=true"};
  const auto kept = plan("slow.yaml", {}), slow = plan("slow.yaml", moved),
             quick = plan("dgx-a100-80gb", moved);
  EXPECT_EQ(kept["seconds"]["activation offload"], 0);
  EXPECT_GT(slow["seconds"]["activation offload"], quick["seconds"]["activation offload"]);
  EXPECT_GT(slow["step_seconds"], kept["step_seconds"]);
  EXPECT_GT(slow["memory_bytes"]["offloaded_to_host"].get<double>(), 1e9);
  EXPECT_LT(slow["memory_bytes"]["activations"], kept["memory_bytes"]["activations"]);

  EXPECT_EQ(quick["fits"], true);
  const std::string host = "host_memory_gb: 2000";
  ASSERT_NE(cluster.find(host), std::string::npos);
  cluster.replace(cluster.find(host), host.size(), "host_memory_gb: 8");
  std::ofstream(directory() / "small.yaml") << cluster;
  const auto small = plan("small.yaml", moved);
  EXPECT_EQ(small["fits"], false);
  EXPECT_NE(small["notes"].dump().find("a device's share of host memory is 0.9 GB"), std::string::npos)
      << small["notes"];
}

TEST_F(PlanPredict, OfRows) {
  const fs::path rows = test::source_dir() / "tests/fixtures/planner/published_rows.csv";
  const Outcome done = stoa({"plan", "predict", "--rows", rows.string(), "--output", "out.csv"});
  ASSERT_EQ(done.exit_code, 0) << done.text();
  EXPECT_NE(done.out.find("absolute error of 41 measured"), std::string::npos) << done.out;
  const std::string out = text_of(directory() / "out.csv");
  EXPECT_NE(out.find(",note,predicted_seconds,predicted_memory_gb,fits,error_percent,notes\n"),
            std::string::npos);
  const Outcome fitted = stoa({"plan", "calibrate", "--rows", rows.string(), "--output", "own.yaml"});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.text();
  const Outcome again =
      stoa({"plan", "predict", "--rows", rows.string(), "--output", "out.csv", "--calibration", "own.yaml"});
  EXPECT_EQ(again.exit_code, 0) << again.text();
}

// One step of each training says little of the machine; the files are those of a longer look.
TEST_F(PlanPredict, OfTheMachineThatWasMeasured) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "its large products take minutes with a sanitizer";
#endif
  const auto measured = json_of({"bench", "calibrate", "--passes", "1", "--steps", "1", "--largest", "256",
                                 "--output", "here", "--json"});
  EXPECT_GE(measured["trainings"].size(), 3u);
  for (const auto& training : measured["trainings"])
    EXPECT_GT(training["measured_seconds"].get<double>(), 0) << training;
  const auto& products = measured["product_tflops"];
  EXPECT_LE(products["slowest"], products["median"]);
  EXPECT_LE(products["median"], products["fastest"]);
  const auto plan = json_of({"plan", "predict", "tiny", "--cluster", "here/cluster.yaml", "--calibration",
                             "here/calibration.yaml", "--json"});
  EXPECT_GT(plan["step_seconds"].get<double>(), 0);
  const Outcome refused = stoa({"bench", "calibrate", "--largest", "100", "--output", "there"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("--largest 100: the smallest training has a hidden size of 256"),
            std::string::npos)
      << refused.text();
  EXPECT_FALSE(fs::exists(path("there")));
}

TEST_F(PlanPredict, BadInputIsNamed) {
  const auto refused = [&](const Arguments& arguments) {
    const Outcome outcome = stoa(arguments);
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.err;
  };
  EXPECT_NE(refused({"plan", "predict", "gpt-5b"}).find("--cluster is missing"), std::string::npos);
  EXPECT_NE(refused({"plan", "predict", "gpt-5b", "--cluster", "dgx-h10"}).find("dgx-h10"),
            std::string::npos);
  EXPECT_NE(refused({"plan", "predict"}).find("either CONFIG (or --from-megatron) or --rows"),
            std::string::npos);
  EXPECT_NE(refused({"plan", "predict", "gpt-5b", "--cluster", "dgx-a100-80gb", "--precision", "fp8"})
                .find("has no fp8; it has"),
            std::string::npos);
  std::ofstream(directory() / "rows.csv") << "source,model,layers\na,b,1\n";
  EXPECT_NE(
      refused({"plan", "predict", "--rows", "rows.csv", "--output", "out.csv"}).find("no column hidden"),
      std::string::npos);
}

}  // namespace
}  // namespace stoa::e2e
