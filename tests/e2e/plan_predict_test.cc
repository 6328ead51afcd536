// The planner's times, as a user asks for them.
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

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

// One truth about memory: all commands count, and a GPU has 4 GB that Stoa does not allocate.
TEST_F(PlanPredict, MemoryIsThatOfPlanMemory) {
  const auto same = [&](const Arguments& config, const char* cluster, double reserve) {
    const auto planned = json_of(Arguments{"plan", "memory", "--json"} + config);
    const auto predicted = json_of(Arguments{"plan", "predict", "--json", "--cluster", cluster} + config);
    EXPECT_EQ(predicted["memory"], "counted");
    EXPECT_EQ(predicted["whose_bytes"], "Stoa's own bytes, counted");
    EXPECT_EQ(predicted["memory_bytes"]["total"], planned["total_bytes"]);
    EXPECT_EQ(predicted["reserved_bytes"], reserve);
    EXPECT_EQ(predicted["fits"], predicted["memory_bytes"]["total"] <= predicted["limit_bytes"]);
    const auto advice =
        json_of(Arguments{"plan", "advise", "--json", "--cluster", cluster, "--times", "1"} + config)["fits"];
    EXPECT_EQ(advice["memory_bytes"], planned["total_bytes"]);
    EXPECT_EQ(advice["limit_bytes"], predicted["limit_bytes"]);
    EXPECT_EQ(advice["whose_bytes"], predicted["whose_bytes"]);
    EXPECT_EQ(advice["fits"], predicted["fits"]);
  };
  same({"tiny"}, "laptop-cpu", 0);
  same({"gpt-20b", "--ranks", "64", "model.pipeline_model_parallel_size=4",
        "model.tensor_model_parallel_size=2", "model.global_batch_size=256"},
       "dgx-h100", 4e9);
  same({"mixtral-8x7b", "--ranks", "64", "model.expert_model_parallel_size=8", "model.global_batch_size=256"},
       "dgx-h100", 4e9);
  same({"mixtral-8x7b", "--ranks", "64", "model.expert_model_parallel_size=8", "model.global_batch_size=256",
        "model.zero_stage=1", "model.moe_expert_capacity_factor=1.25",
        "model.activations_checkpoint_granularity=selective"},
       "dgx-h100", 4e9);
}

// The layout that a search finds needs what the other commands say of it.
TEST_F(PlanPredict, MemoryIsThatOfPlanSearch) {
  for (const char* model : {"gpt-5b", "llama3-8b", "mixtral-8x7b"}) {
    const auto found = json_of({"plan", "search", model, "--cluster", "dgx-h100", "--gpus", "64", "--target",
                                "stoa", "--top", "1", "--json", "--output", model});
    const auto& best = found["runs"][0]["best"][0];
    EXPECT_EQ(found["whose_bytes"], "Stoa's own bytes, counted");
    const std::string plan = std::string(model) + "/plan.yaml";
    EXPECT_EQ(json_of({"plan", "memory", plan, "--json"})["total_bytes"], best["memory_bytes"]) << model;
    EXPECT_EQ(json_of({"plan", "predict", plan, "--cluster", "dgx-h100", "--json"})["memory_bytes"]["total"],
              best["memory_bytes"])
        << model;
  }
}

// Another program's bytes are estimated, by all commands alike, and said to be.
TEST_F(PlanPredict, EstimatesOfOtherProgramsAgree) {
  for (const Arguments& config :
       {Arguments{"gpt-20b", "--ranks", "64", "model.pipeline_model_parallel_size=4",
                  "model.tensor_model_parallel_size=2", "model.global_batch_size=256"},
        Arguments{"mixtral-8x7b", "--ranks", "64", "model.expert_model_parallel_size=8",
                  "model.zero_stage=1"}})
    for (const char* target : {"megatron", "torchtitan"}) {
      const Arguments asked = config + Arguments{"--cluster", "dgx-h100", "--target", target, "--json"};
      const auto predicted = json_of(Arguments{"plan", "predict"} + asked);
      const auto advice = json_of(Arguments{"plan", "advise", "--times", "1"} + asked)["fits"];
      EXPECT_EQ(predicted["memory"], "estimated");
      EXPECT_THAT(predicted["whose_bytes"].get<std::string>(), ::testing::HasSubstr("estimated for"));
      EXPECT_EQ(advice["whose_bytes"], predicted["whose_bytes"]);
      EXPECT_NEAR(advice["memory_bytes"].get<double>(), predicted["memory_bytes"]["total"].get<double>(), 10);
    }
}

// Memory for split experts is declared for 1.5 even loads: the plan says what an even load and what the worst
// would take.
TEST_F(PlanPredict, WorstLoadOfExpertsIsShownAsSuch) {
  const Arguments config{"mixtral-8x7b", "--ranks", "64", "model.expert_model_parallel_size=8"};
  const auto planned = json_of(Arguments{"plan", "memory", "--json"} + config);
  const double total = planned["total_bytes"], even = planned["expert_loads"]["even_total_bytes"],
               worst = planned["expert_loads"]["worst_total_bytes"];
  EXPECT_EQ(planned["expert_loads"]["buffer_factor"], 1.5);
  EXPECT_LT(even, total);
  EXPECT_LE(total, 1.6 * even);
  EXPECT_GT(worst, 1.4 * even);
  EXPECT_THAT(stoa_ok(Arguments{"plan", "memory"} + config).out, ::testing::HasSubstr("1.5 x an even load"));
}

// 2412.19437: 2,048 H800, 16 stages, 64 ranks that share experts, ZeRO 1; 2.664 M device-hours for 14.8 T
// tokens.
TEST_F(PlanPredict, DeepSeekV3AsPublished) {
  const Arguments layout{"plan",
                         "predict",
                         "deepseek-v3-671b",
                         "--ranks",
                         "2048",
                         "model.pipeline_model_parallel_size=16",
                         "--cluster",
                         "hgx-h800",
                         "model.expert_model_parallel_size=64",
                         "--json",
                         "model.zero_stage=1",
                         "model.activations_checkpoint_granularity=selective"};
  const auto theirs =
      json_of(layout +
              Arguments{"--program", "DeepSeek-V3", "--precision", "fp8", "model.pipeline_schedule=dualpipev",
                        "model.pipeline_layers=[1,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,"
                        "2,1,1]"});
  EXPECT_EQ(theirs["whose_bytes"], "estimated for DeepSeek-V3");
  EXPECT_TRUE(theirs["fits"].get<bool>()) << theirs["memory_bytes"];
  const double steps = 14.8e12 / (15360 * 4096.0);
  EXPECT_NEAR(theirs["step_seconds"].get<double>() * steps * 2048 / 3600 / 2.664e6, 1, 0.15);
  // Stoa itself, in bf16.
  const auto ours = json_of(layout + Arguments{"model.pipeline_layers=[3,4,4,4,4,4,4,4,4,4,4,4,4,4,4,2]"});
  EXPECT_EQ(ours["whose_bytes"], "Stoa's own bytes, counted");
  EXPECT_TRUE(ours["fits"].get<bool>()) << ours["memory_bytes"];
}

// Table 1 of 2104.04473: 163 TFLOP/s of each of 2,520 and 3,072 A100.
TEST_F(PlanPredict, CommandsOfTheLargestPublishedMegatronRuns) {
  struct Run {
    const char *arguments, *gpus;
    double seconds;
  };
  constexpr const char* kRest =
      " --activations-checkpoint-method uniform --tensor-model-parallel-size 8 --micro-batch-size 1 "
      "--DDP-impl "
      "local --seq-length 2048 --max-position-embeddings 2048 --train-iters 500 --lr 0.0001 --min-lr 0.00001 "
      "--lr-decay-style cosine --lr-warmup-fraction 0.01 --clip-grad 1.0 --fp16 --loss-scale 8192";
  for (const Run& run :
       {Run{"--num-layers-per-virtual-pipeline-stage 1 --pipeline-model-parallel-size 35 --global-batch-size "
            "2520 --num-layers 105 --hidden-size 20480 --num-attention-heads 128",
            "2520", 54.09},
        Run{"--pipeline-model-parallel-size 64 --global-batch-size 3072 --num-layers 128 --hidden-size 25600 "
            "--num-attention-heads 160",
            "3072", 102.6}}) {
    const Arguments command{"--from-megatron", std::string(run.arguments) + kRest, "--cluster",
                            "dgx-a100-80gb", "--json"};
    const auto own = json_of(Arguments{"plan", "predict", "--ranks", run.gpus} + command);
    EXPECT_TRUE(own["fits"].get<bool>()) << run.gpus;
    EXPECT_NEAR(own["step_seconds"].get<double>() / run.seconds, 1, 0.06) << run.gpus;
    const auto found = json_of(Arguments{"plan", "search", "--gpus", run.gpus, "--top", "1"} + command);
    const auto& best = found["runs"][0]["best"][0];
    EXPECT_LE(best["memory_bytes"].get<double>(), found["memory_limit_bytes"].get<double>());
    EXPECT_LE(best["seconds"].get<double>(), own["step_seconds"].get<double>());
  }
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

// A program of one's own beside those that ship: the other entries keep every number.
TEST_F(PlanPredict, CalibratedOntoWhatShips) {
  std::ofstream(directory() / "own.csv")
      << "source,model,layers,hidden,heads,vocab,seq_len,gpu,gpus,tp,pp,micro_batch,global_batch,precision,"
         "seconds_per_step\n"
         "ours,GPT,24,2048,16,50304,2048,H100-SXM-80GB,1,1,1,4,4,bf16,0.2\n"
         "ours,GPT,24,4096,32,50304,2048,H100-SXM-80GB,1,1,1,4,4,bf16,0.7\n";
  const std::string shipped = (test::source_dir() / "configs/planner/calibration.yaml").string();
  const Outcome fitted =
      stoa({"plan", "calibrate", "--rows", "own.csv", "--onto", shipped, "--output", "own.yaml"});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.text();
  YAML::Node before = YAML::LoadFile(shipped), after = YAML::LoadFile((directory() / "own.yaml").string());
  const YAML::Node own = after["families"]["H100"]["releases"]["stoa"];
  ASSERT_TRUE(own) << text_of(directory() / "own.yaml");
  EXPECT_EQ(own["rows"].as<int>(), 2);
  after["families"]["H100"]["releases"].remove("stoa");
  before["families"]["H100"]["releases"].remove("stoa");
  EXPECT_EQ(YAML::Dump(after), YAML::Dump(before));
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
