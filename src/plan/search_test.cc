#include "plan/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "device/meta/meta_device.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/meta/meta_backend.h"
#include "plan/emit.h"
#include "plan/search_report.h"
#include "plan/search_space.h"

namespace stoa::plan {
namespace {

using Granularity = model::RecomputeGranularity;
using Method = model::RecomputeMethod;

Cluster small_cluster() {
  Cluster c;
  c.name = "small";
  c.device.name = "device";
  c.device.family = "none";
  c.device.bf16_tflops = c.device.fp16_tflops = 1;
  c.device.fp32_tflops = 0.5;
  c.device.memory_gb = 1;
  c.device.memory_bandwidth_gbs = 50;
  c.links.devices_per_node = c.links.devices_per_island = 4;
  c.links.island_bandwidth_gbs = 10;
  c.links.network_bandwidth_gbs = 1;
  c.links.host_bandwidth_gbs = 2;  // a layer's copies take longer than the layer
  return c;
}

class SearchTest : public ::testing::Test {
 protected:
  SearchTest() {
    machine_.device = std::make_unique<MetaDevice>();
    machine_.backend = std::make_unique<ops::MetaBackend>(cpu_);
    machine_.stream = machine_.device->create_stream();
    model::ModelConfig config;
    config.num_layers = 8;
    config.hidden_size = 256;
    config.num_attention_heads = 8;
    config.encoder_seq_length = 128;
    config.vocab_size = 1024;
    base_.model = model::resolve_model(config);
    base_.precision = {DType::kBF16, DType::kBF16};
    base_.length = 128;
    base_.evaluation = false;
    memory_ = std::make_unique<MemoryModel>(machine_, base_);
    request_.workload.model = shape_of(config, 1024);
    request_.workload.global_batch = 32;
    request_.devices = 8;
    request_.memory = 1e9;
    request_.top = 5;
  }

  SearchResult run() { return search(*memory_, request_, cluster_, constants_); }
  double seconds(const Workload& w) const { return predict_time(w, cluster_, constants_).sum(); }

  // Every layout with every recomputation and offloading, one by one.
  std::optional<double> best_of_all() {
    std::optional<double> best;
    for (const Workload& w : layouts(request_, cluster_)) {
      std::vector<model::RecomputeConfig> all{{}, {Granularity::kSelective, {}, {}}};
      const auto split = w.split();
      const std::int64_t longest = *std::max_element(split.begin(), split.end());
      for (std::int64_t n = 1; n <= longest; ++n) {
        all.push_back({Granularity::kFull, Method::kBlock, n});
        all.push_back({Granularity::kFull, Method::kUniform, n});
      }
      const auto ranks = w.layers_of_ranks();
      for (std::int64_t n = 1; n <= *std::max_element(ranks.begin(), ranks.end()); ++n)
        for (const Granularity granularity : {Granularity::kNone, Granularity::kSelective})
          all.push_back({granularity, {}, {}, {.cpu_offloading = true, .cpu_offloading_num_layers = n}});
      for (const auto& recompute : all) {
        try {
          if (static_cast<double>(memory_->worst(memory_point(w, recompute, memory_->layout())).total) >
              request_.memory)
            continue;
        } catch (const ConfigError&) {
          continue;
        }
        const double time = seconds(with_recompute(w, recompute));
        if (!best || time < *best) best = time;
      }
    }
    return best;
  }

  WorkerPool pool_{1};
  ops::cpu::CpuBackend cpu_{pool_};
  infer::Machine machine_;
  run::TrainingOptions base_;
  std::unique_ptr<MemoryModel> memory_;
  SearchRequest request_;
  Cluster cluster_ = small_cluster();
  Constants constants_;
};

TEST_F(SearchTest, GroupsOfTensorRanksFillNodes) {
  request_.devices = 12;  // in nodes of 4
  request_.workload.model.heads = 12;
  request_.workload.global_batch = 48;
  const auto has = [&](std::int64_t tp) {
    const auto all = layouts(request_, cluster_);
    return std::any_of(all.begin(), all.end(), [&](const Workload& w) { return w.tp == tp; });
  };
  EXPECT_TRUE(has(4));
  EXPECT_FALSE(has(3)) << "ranks 3 to 5 would be in two nodes";
  request_.space.tensor = {3};
  EXPECT_TRUE(has(3)) << "where it is asked for";
}

TEST_F(SearchTest, NothingInTheSpaceIsBetter) {
  std::size_t least = 0;
  {
    request_.memory = 1e12;
    request_.front_within = 1e9;
    const SearchResult all = run();
    ASSERT_FALSE(all.front.empty());
    least = all.front.back().memory.total;
    request_.front_within = 1.25;
  }
  // From plenty to less than any layout needs without recomputation.
  for (const double share : {100.0, 2.0, 1.3, 1.0, 0.85, 0.7, 0.5}) {
    request_.memory = static_cast<double>(least) * share;
    const SearchResult found = run();
    const std::optional<double> best = best_of_all();
    ASSERT_EQ(found.best.empty(), !best) << share;
    if (best) {
      EXPECT_NEAR(found.best.front().seconds / *best, 1, 1e-9) << share;
    }
  }
}

// A layout that cannot run the first batches of a ramp-up is none, however fast it is later.
TEST_F(SearchTest, LayoutsTakeEveryBatchOfTheRampUp) {
  request_.memory = 1e12;
  const auto takes = [&](const Workload& w, std::int64_t batch) {
    return batch % (w.dp * w.micro_batch) == 0 &&
           (w.pp == 1 || takes_microbatches(w.schedule, w.pp, batch / (w.dp * w.micro_batch)));
  };
  const std::int64_t start = request_.workload.global_batch / 4;
  const auto cannot = [&](const std::vector<Workload>& list) {
    return std::count_if(list.begin(), list.end(), [&](const Workload& w) { return !takes(w, start); });
  };
  const auto all = layouts(request_, cluster_);
  ASSERT_GT(cannot(all), 0);
  request_.smaller_batches = {start};
  const auto some = layouts(request_, cluster_);
  EXPECT_EQ(cannot(some), 0);
  EXPECT_EQ(some.size() + static_cast<std::size_t>(cannot(all)), all.size());
  EXPECT_FALSE(some.empty());
}

// What the host link is like decides between moving activations away and making them again.
TEST_F(SearchTest, OffloadsWhereThatIsFasterThanRecomputation) {
  request_.space.tensor = request_.space.pipeline = {1};
  request_.space.micro_batches = {4};
  request_.space.zero_stages = {0};
  const std::size_t kept = run().best.front().memory.total;
  request_.memory = static_cast<double>(kept) * 0.93;
  cluster_.links.host_bandwidth_gbs = 1000;
  const Found quick = run().best.front();
  EXPECT_TRUE(quick.point.recompute.offload.cpu_offloading) << describe(quick);
  EXPECT_EQ(quick.point.recompute.granularity, Granularity::kNone);
  cluster_.links.host_bandwidth_gbs = 0.01;
  const Found slow = run().best.front();
  EXPECT_FALSE(slow.point.recompute.offload.cpu_offloading) << describe(slow);
  cluster_.links.host_bandwidth_gbs = 1000;
  request_.space.recompute = {"none", "selective", "block", "full"};
  EXPECT_FALSE(run().best.front().point.recompute.offload.cpu_offloading);
  request_.space.recompute = {};
  const double needed = static_cast<double>(quick.memory.offloaded) * 4;  // devices of a node
  cluster_.links.host_memory_gb = needed / 0.89e9;
  EXPECT_EQ(run().best.front().memory.offloaded, quick.memory.offloaded);
  cluster_.links.host_memory_gb = needed / 0.91e9;
  EXPECT_LT(run().best.front().memory.offloaded, quick.memory.offloaded) << "others are made again";
  cluster_.links.host_memory_gb = 1e-9;
  EXPECT_FALSE(run().best.front().point.recompute.offload.cpu_offloading);
  cluster_.links.host_memory_gb = {};
  cluster_.links.host_is_device = true;
  EXPECT_FALSE(run().best.front().point.recompute.offload.cpu_offloading);
}

TEST_F(SearchTest, OrdersByTimeAndKeepsTheLimit) {
  const SearchResult found = run();
  ASSERT_FALSE(found.best.empty());
  EXPECT_LE(found.best.size(), 5u);
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    EXPECT_LE(static_cast<double>(found.best[i].memory.total), request_.memory);
    if (i > 0) {
      EXPECT_GE(found.best[i].seconds, found.best[i - 1].seconds);
    }
  }
  for (std::size_t i = 1; i < found.front.size(); ++i)
    EXPECT_LT(found.front[i].memory.total, found.front[i - 1].memory.total);
  EXPECT_GT(found.layouts, 100u);
}

TEST_F(SearchTest, SequenceParallelismIsNeverWorse) {
  // So the space has it wherever tokens divide.
  for (Workload w : layouts(request_, cluster_)) {
    if (w.tp == 1 || !w.sequence_parallel) continue;
    Workload without = w;
    without.sequence_parallel = false;
    EXPECT_LE(seconds(w), seconds(without) * 1.0000001) << w.text();
  }
}

TEST_F(SearchTest, AnyNumberOfDevices) {
  for (const std::int64_t devices : {1, 3, 6, 7, 12, 24}) {
    request_.devices = devices;
    request_.workload.global_batch = 84;
    const SearchResult found = run();
    ASSERT_FALSE(found.best.empty()) << devices;
    EXPECT_EQ(found.best.front().workload.devices(), devices);
  }
}

TEST_F(SearchTest, TheSpaceCanBeNarrowed) {
  request_.space.tensor = {2};
  request_.space.pipeline = {2};
  request_.space.schedules = {"1f1b"};
  request_.space.recompute = {"full"};
  for (const Found& f : run().best) {
    EXPECT_EQ(f.workload.tp, 2);
    EXPECT_EQ(f.workload.pp, 2);
    EXPECT_EQ(f.point.layout.schedule, "1f1b");
    EXPECT_EQ(f.point.recompute.granularity, Granularity::kFull);
  }
}

TEST_F(SearchTest, WhatDoesNotFitNamesTheNearest) {
  request_.memory = 1e5;
  const SearchResult found = run();
  EXPECT_TRUE(found.best.empty());
  ASSERT_TRUE(found.nearest);
  EXPECT_GT(found.nearest->memory.total, 1e5);
}

TEST_F(SearchTest, NeighboursSayWhyTheyAreWorse) {
  const SearchResult found = run();
  const auto near = neighbours(*memory_, request_, cluster_, constants_, found.best.front());
  EXPECT_GE(near.size(), 5u);
  for (const Neighbour& n : near) {
    EXPECT_FALSE(n.verdict.empty());
    if (n.fits) {
      EXPECT_GE(n.seconds, found.best.front().seconds * 0.999) << n.change << ": " << n.verdict;
    }
  }
}

TEST_F(SearchTest, NoLayoutIsThereTwice) {
  request_.space.pipeline = {1, 2, 4};
  request_.workload.model.layers =
      10;  // 4 stages: even with the ends counted as layers is what is even anyway
  std::set<std::string> seen;
  for (const Workload& w : layouts(request_, cluster_)) {
    const std::string text =
        fmt::format("{} {} {} {} {}", w.text(), w.schedule, w.zero_stage, w.ep, fmt::join(w.split(), ","));
    EXPECT_TRUE(seen.insert(text).second) << text;
  }
  EXPECT_GT(seen.size(), 20u);
}

TEST_F(SearchTest, OthersRunOnlyWhatTheyHave) {
  request_.target = SearchTarget::kMegatron;
  for (const Workload& w : layouts(request_, cluster_)) {
    EXPECT_TRUE(w.schedule == "1f1b" || w.schedule == "interleaved") << w.schedule;
    EXPECT_LE(w.zero_stage, 1);
  }
}

TEST_F(SearchTest, SummaryHasTheColumnsOfTheAutoConfigurator) {
  SearchReport report;
  report.model_name = "small";
  report.cluster = cluster_;
  report.memory = request_.memory;
  SearchRun one;
  one.devices = 8;
  one.result = run();
  report.runs.push_back(std::move(one));
  const std::string csv = to_csv(report);
  EXPECT_TRUE(csv.starts_with(
      "Model Name,Model Size,Seq Length,TP,PP,CP,EP,MBS,Act Ckpt Layers,Act Ckpt Micro Batches,"))
      << csv.substr(0, 120);
  const std::string html = to_html(report, report.runs.front());
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_EQ(html.find("href"), std::string::npos) << "needs no other files";
}

}  // namespace
}  // namespace stoa::plan
