#include "plan/predict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "model/model_spec.h"
#include "plan/layer_time.h"
#include "plan/pipeline_time.h"
#include "plan/predict_text.h"
#include "schedule/generators.h"

namespace stoa::plan {
namespace {

const fs::path kConfigs = test::source_dir() / "configs";

Cluster cluster(const std::string& name) { return load_cluster(name, kConfigs / "clusters"); }

ModelShape gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelShape m;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = heads;
  m.head_size = hidden / heads;
  m.ffn = 4 * hidden;
  m.vocabulary = 51200;
  m.sequence = 2048;
  return m;
}

Workload workload_175b() {
  Workload w;
  w.model = gpt(96, 12288, 96);
  w.tp = 8;
  w.pp = 8;
  w.vpp = 3;
  w.global_batch = 64;
  w.sequence_parallel = true;
  w.recompute = Recompute::kSelective;
  w.software.attention = AttentionKernel::kUnfused;
  return w;
}

template <class F>
std::string error_text(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Workload workload_of_pairs() {
  Workload w;
  w.model = gpt(24, 1024, 16);
  w.model.sequence = 512;
  w.model.target = 128;
  w.model.encoder_layers = 12;
  w.micro_batch = 8;
  w.global_batch = 64;
  return w;
}

// 2 FLOPs for each weight and each pair of tokens that attend; a target's layer has two attentions.
TEST(EncoderDecoders, FlopsAreThoseOfSourcesAndTargets) {
  const Workload w = workload_of_pairs();
  const double h = 1024, s = 512, t = 128, layer = 12 * h * h;
  const double weights = 12 * s * layer + 12 * (t * layer + 2 * (s + t) * h * h) + t * 51200 * h,
               scores = 12 * 2 * s * s * h + 12 * (t * t * h + 2 * s * t * h);
  EXPECT_NEAR(model_flops(w) / (64 * 6 * (weights + scores)), 1, 1e-12);
  EXPECT_EQ(w.tokens(), 64 * 640);
}

// Layers of a target of one token cost little; with a target as long as the source, more than those of a
// decoder that reads both as one text would without attention to the source.
TEST(EncoderDecoders, TimeFollowsTheLengthOfTheTarget) {
  const Cluster c = cluster("dgx-h100");
  Workload w = workload_of_pairs();
  const Constants constants =
      load_calibration(kConfigs / "planner/calibration.yaml").find("H100", "stoa").constants;
  const auto linear = [&](std::int64_t target) {
    w.model.target = target;
    return predict_time(w, c, constants, nullptr).linear;
  };
  Workload encoder = w;
  encoder.model.layers = 12;
  encoder.model.encoder_layers = 0;
  encoder.model.target = 0;
  const double of_encoder = predict_time(encoder, c, constants, nullptr).linear;
  EXPECT_LT(linear(1), 1.6 * of_encoder);
  EXPECT_LT(linear(1), linear(128));
  EXPECT_NEAR(linear(512) / of_encoder, 2 + 4.0 / 12, 0.1);
}

TEST(EncoderDecoders, StagesOfTheEncoderTakeLonger) {
  Workload w = workload_of_pairs();
  w.micro_batch = 64;
  w.pp = 4;
  std::vector<StageTime> stages;
  const Constants constants =
      load_calibration(kConfigs / "planner/calibration.yaml").find("H100", "stoa").constants;
  (void)predict_time(w, cluster("dgx-h100"), constants, &stages);
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_GT(stages[1].busy, 1.5 * stages[2].busy);
}

TEST(EncodersAlone, AttendToAllTokens) {
  Workload w = workload_of_pairs();
  w.model.encoder_layers = w.model.target = 0;
  const double causal = model_flops(w);
  w.model.causal = false;
  EXPECT_NEAR(model_flops(w) - causal, 64 * 6.0 * 24 * 512 * 512 * 1024, 1e6);
}

TEST(Clusters, AllThatShipAreCompleteAndFound) {
  const auto all = load_clusters(kConfigs / "clusters");
  EXPECT_GE(all.size(), 18u);
  for (const Cluster& c : all) {
    EXPECT_FALSE(c.source.empty()) << c.name;
    EXPECT_GT(c.peak(c.device.bf16_tflops > 0 ? Format::kBf16 : Format::kFp16), 1e11) << c.name;
  }
  EXPECT_EQ(find_device(all, "A100-SXM-80GB (Jean Zay)").name, "jean-zay-a100");
  EXPECT_EQ(find_device(all, "H100-SXM-80GB (somewhere)").name, "dgx-h100");
  EXPECT_EQ(find_device(all, "H20").name, "hgx-h20");
  EXPECT_EQ(find_device(all, "H800").name, "hgx-h800");
  EXPECT_EQ(find_device(all, "MI325X").name, "mi325x-oam");
  EXPECT_EQ(find_device(all, "H100-SXM-80GB (Grand Teton)").name, "grand-teton-h100-80gb");
  EXPECT_NE(error_text([&] { find_device(all, "abacus"); }).find("Known are"), std::string::npos);
}

// A device of a similar name may have other figures.
TEST(Clusters, AnUnknownDeviceIsNotTakenAsASimilarOne) {
  const auto all = load_clusters(kConfigs / "clusters");
  for (const auto& [name, near] : {std::pair{"MI300Y", "MI300X"}, {"H2000", "H200"}, {"H201", "H20"}}) {
    const std::string error = error_text([&] { find_device(all, name); });
    EXPECT_NE(error.find(fmt::format(
                  "device '{}' is not known, and is not taken as a similar one; the nearest {}", name, near)),
              std::string::npos)
        << error;
  }
  const std::string pcie = error_text([&] { find_device(all, "H100 PCIe"); });
  EXPECT_NE(pcie.find("; the nearest H100-SXM"), std::string::npos) << pcie;
  EXPECT_EQ(error_text([&] { find_device(all, "abacus"); }).find("nearest"), std::string::npos);
}

TEST(Clusters, TheNameOfADeviceLeadsToItsClusters) {
  EXPECT_NE(error_text([] { cluster("H20"); }).find("H20-SXM-96GB (--cluster hgx-h20)"), std::string::npos);
  EXPECT_NE(error_text([] { cluster("b100"); }).find("B200-SXM-180GB (--cluster dgx-b200)"),
            std::string::npos);
  EXPECT_NE(error_text([] { cluster("dgx-h10"); }).find("did you mean 'dgx-h100'"), std::string::npos);
  EXPECT_NE(error_text([] { cluster("abacus"); }).find("presets: "), std::string::npos);
}

TEST(Clusters, WhatIsMissingIsNamed) {
  Cluster c = cluster("dgx-a100-80gb");
  c.links.network_bandwidth_gbs.reset();
  Workload w = workload_175b();
  EXPECT_NE(error_text([&] { predict(w, c, {}); }).find("no link between its nodes"), std::string::npos);
  w.format = Format::kFp8;
  EXPECT_NE(error_text([&] {
              predict(w, cluster("dgx-a100-80gb"), {});
            }).find("has no fp8; it has fp32, bf16, fp16"),
            std::string::npos);
}

TEST(Workloads, ContradictionsNameTheNearestChoice) {
  Workload w = workload_175b();
  w.tp = 97;
  EXPECT_NE(error_text([&] { validate(w); }).find("96 attention heads are fewer than"), std::string::npos);
  w = workload_175b();
  w.dp = 3;
  EXPECT_NE(error_text([&] { validate(w); }).find("the nearest is 63"), std::string::npos);
  w = workload_175b();
  w.pp = 64;
  EXPECT_NE(error_text([&] { validate(w); }).find("fewer than"), std::string::npos);
}

TEST(Workloads, TheRankWithMostHeadsSetsThePace) {
  Workload w = workload_175b();
  w.model.kv_heads = w.model.heads = 95;  // 11 or 12 on a rank of 8
  const Cluster c = cluster("dgx-a100-80gb");
  const double uneven = predict_time(w, c, {}).attention;
  w.model.kv_heads = w.model.heads = 96;
  EXPECT_EQ(uneven, predict_time(w, c, {}).attention);
}

TEST(Workloads, FlopsOfThePaper) {  // 2205.05198, equation of model FLOPs, whose attention is not causal
  const Workload w = workload_175b();
  const double b = 64, l = 96, s = 2048, h = 12288, v = 51200;
  const double paper = 72 * b * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  const double attention = 72 * b * l * s * h * h * s / (6 * h);
  EXPECT_NEAR(model_flops(w) / (paper - attention / 2), 1, 1e-12);
}

TEST(Workloads, WeightsOfLatentAttention) {
  for (const bool latent_queries : {false, true}) {
    model::ModelConfig c;
    c.position_embedding_type = model::PositionEmbedding::kRope;
    c.normalization = model::Normalization::kRmsNorm;
    c.bias = model::BiasKind::kNone;
    c.latent.multi_latent_attention = true;
    if (latent_queries) c.latent.q_lora_rank = 96;
    c.vocab_size = 1024;
    const double counted = static_cast<double>(model::parameter_count(model::resolve_model(c)));
    EXPECT_NEAR(shape_of(c, 1024).parameters() / counted, 1, 1e-3);
  }
}

// 2205.05198, tables 2 and figures 1 and 7: bytes per rank in GiB.
TEST(Memory, ActivationsOfThePaper) {
  struct Case {
    std::int64_t layers, hidden, heads, pp, vpp, micro_batch;
    double baseline, present;
  };
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  for (const Case& c :
       {Case{48, 6144, 64, 1, 1, 4, 59.25, 9.5625}, Case{96, 12288, 96, 8, 3, 1, 66.84375, 12.3515625},
        Case{105, 20480, 128, 35, 3, 1, 114.0234375, 23.076171875},
        Case{128, 25600, 160, 64, 1, 1, 131.25, 26.5625}}) {
    Workload w;
    w.model = gpt(c.layers, c.hidden, c.heads);
    w.tp = 8;
    w.pp = c.pp;
    w.vpp = c.vpp;
    w.micro_batch = c.micro_batch;
    const auto layers_only = [&] {
      const PaperActivations paper = paper_activations(w);
      return (paper.total - paper.extras) / kGiB;
    };
    EXPECT_NEAR(layers_only(), c.baseline, 1e-9) << c.hidden;
    w.sequence_parallel = true;
    w.recompute = Recompute::kSelective;
    EXPECT_NEAR(layers_only(), c.present, 1e-9) << c.hidden;
  }
}

TEST(Pipeline, ClosedFormsFollowTheSimulator) {
  struct Case {
    const char* schedule;
    int stages, chunks, microbatches;
    double tolerance;
  };
  for (const Case& c :
       {Case{"1f1b", 4, 1, 8, 1e-9}, Case{"1f1b", 8, 1, 3, 1e-9}, Case{"1f1b", 16, 1, 64, 1e-9},
        Case{"gpipe", 4, 1, 8, 1e-9}, Case{"interleaved", 4, 2, 8, 1e-9}, Case{"interleaved", 8, 3, 32, 1e-9},
        Case{"zb-h1", 4, 1, 8, 0.02}, Case{"zb-h1", 8, 1, 32, 0.02}, Case{"zb-h2", 8, 1, 32, 0.12}}) {
    const StageWork work{1, 1, 1, 0};
    const std::vector<StageWork> stages(static_cast<std::size_t>(c.stages), work);
    const auto lists = schedule::generate(
        {.name = c.schedule, .stages = c.stages, .chunks = c.chunks, .microbatches = c.microbatches});
    schedule::Durations durations;
    const double share = 1.0 / c.chunks;
    durations.forward = durations.backward_input = durations.backward_weight = share;
    const auto times = schedule::simulate(lists, durations);
    const bool own_steps = std::string(c.schedule) == "zb-h2";  // ranks take the optimizer step on their own
    const double simulated = own_steps ? times.span : times.makespan;
    EXPECT_NEAR(pipeline_seconds(c.schedule, stages, c.microbatches, c.chunks) / simulated, 1, c.tolerance)
        << c.schedule << " " << c.stages << " x " << c.microbatches;
  }
}

// With few microbatches the first stage waits for gradients; passes of unlike lengths.
TEST(Pipeline, FewMicrobatchesWaitForTheFirstGradients) {
  const StageWork work{1.5, 1.4, 0.9, 0.1};
  schedule::Durations durations;
  durations.communication = work.send;
  durations.forward = work.forward;
  durations.backward_input = work.backward_input;
  durations.backward_weight = work.backward_weight;
  for (const auto& [stages, microbatches] : {std::pair{4, 3}, {8, 2}, {8, 8}, {8, 12}, {16, 16}}) {
    const auto lists =
        schedule::generate({.name = "zb-h2", .stages = stages, .chunks = 0, .microbatches = microbatches});
    const std::vector<StageWork> all(static_cast<std::size_t>(stages), work);
    EXPECT_NEAR(pipeline_seconds("zb-h2", all, microbatches, 1) / schedule::simulate(lists, durations).span,
                1, 0.02)
        << stages << " x " << microbatches;
  }
}

TEST(Pipeline, TheSlowestStageSetsThePace) {
  std::vector<StageWork> stages(4, {1, 1, 1, 0});
  stages.back() = {1.5, 1.5, 1.5, 0};  // with the head
  const auto lists = schedule::one_forward_one_backward(4, 16);
  schedule::Durations durations;
  durations.chunk_weight = {1, 1, 1, 1.5};
  EXPECT_NEAR(pipeline_seconds("1f1b", stages, 16, 1), schedule::simulate(lists, durations).makespan, 1e-9);
}

// Schedules without a closed form: what few microbatches take grows evenly to what many take.
TEST(Pipeline, ManyMicrobatchesTakeWhatFewRepeat) {
  for (const char* schedule : {"zb-v", "dualpipev", "v-half", "v-min", "interleaved-zb"}) {
    for (const int p : {2, 3, 4, 8}) {
      std::vector<StageWork> stages;
      for (int r = 0; r < p; ++r)
        stages.push_back({1 + 0.03 * ((5 * r) % 7), 1.2 + 0.05 * ((3 * r) % 5), 0.7 + 0.02 * (r % 3), 0.05});
      stages.front().forward += 0.4;
      for (const int m : {2 * p, 4 * p, 9 * p, 21 * p}) {
        const auto lists =
            schedule::generate({.name = schedule, .stages = p, .chunks = 2, .microbatches = m});
        schedule::Durations durations;
        durations.communication = 0.05;
        for (const int rank : lists.placement.rank_of_chunk) {
          const StageWork& work = stages[static_cast<std::size_t>(rank)];
          durations.chunks.push_back({work.forward / 2, (work.backward_input + work.backward_weight) / 2,
                                      work.backward_input / 2, work.backward_weight / 2});
        }
        const double simulated = schedule::simulate(lists, durations).makespan;
        // DualPipeV of uneven stages takes long to settle.
        const double tolerance = std::string(schedule) == "dualpipev" ? 0.02 : 1e-3;
        EXPECT_NEAR(pipeline_seconds(schedule, stages, m, 2) / simulated, 1, tolerance)
            << schedule << " " << p << " x " << m;
        EXPECT_LE(least_pipeline_seconds(schedule, stages, m, 2), simulated * (1 + 1e-9))
            << schedule << " " << p << " x " << m;
      }
    }
  }
}

// Rank 0 of a V holds both ends of the model, and only one copy of a tied embedding.
TEST(Predict, TheHeadOfAVIsOnTheFirstRank) {
  Workload w = workload_175b();
  w.vpp = 2;
  w.schedule = "zb-v";
  const Prediction p = predict(w, cluster("dgx-a100-80gb"), {});
  EXPECT_GT(p.stages.front().busy, p.stages.back().busy);
  EXPECT_EQ(p.stages[1].busy, p.stages.back().busy);
  w.schedule = "interleaved";
  EXPECT_GT(predict(w, cluster("dgx-a100-80gb"), {}).stages.back().busy, p.stages.back().busy);
}

TEST(Predict, PartsAddUp) {
  const Prediction p = predict(workload_175b(), cluster("dgx-a100-80gb"), {});
  EXPECT_NEAR(p.time.sum(), p.seconds, 1e-9 * p.seconds);
  for (const auto& [name, seconds] : p.time.parts()) EXPECT_GE(seconds, 0) << name;
  EXPECT_EQ(p.stages.size(), 8u);
  EXPECT_GT(p.high, p.seconds);
  EXPECT_LT(p.low, p.seconds);
}

// What must hold whatever the constants are.
TEST(Predict, MovesTheRightWay) {
  const Cluster c = cluster("dgx-h100");
  const Constants k;
  const auto seconds = [&](const Workload& w) { return predict_time(w, c, k).sum(); };
  Workload w = workload_175b();
  w.software.attention = AttentionKernel::kFlash;
  const double base = seconds(w);
  Workload more = w;
  more.global_batch *= 2;
  EXPECT_GT(seconds(more), 1.5 * base);
  more = w;
  more.recompute = Recompute::kFull;
  EXPECT_GT(seconds(more), 1.15 * base);
  more = w;
  more.dp = 2;
  more.global_batch *= 2;
  EXPECT_GE(seconds(more), base);  // gradients travel
  more = w;
  more.format = Format::kFp8;
  EXPECT_LT(seconds(more), base);
  Workload maxima = more;
  maxima.fp8_recipe = model::Fp8Recipe::kTensorwise;
  EXPECT_GT(seconds(maxima), seconds(more));  // tensors are read once more
  EXPECT_LT(seconds(maxima), base);
  more = w;
  more.vpp = 1;
  EXPECT_GT(seconds(more), base);  // the bubble
  more = w;
  more.model.sequence *= 2;
  EXPECT_GT(seconds(more), 1.6 * base);
}

// Two nodes of eight stages each: one boundary crosses.
TEST(Predict, StagesOfOneNodeSendOverItsLinks) {
  Workload w = workload_175b();
  w.tp = 1;
  w.pp = 16;
  w.vpp = 1;
  w.sequence_parallel = false;
  const Prediction p = predict(w, cluster("dgx-a100-80gb"), {});
  EXPECT_GT(p.stages[7].busy, 1.001 * p.stages[6].busy);
  EXPECT_EQ(p.stages[7].busy, p.stages[8].busy);
  EXPECT_EQ(p.stages[3].busy, p.stages[6].busy);
}

TEST(Predict, SlicesOfABoundaryTakeLessAndAreGathered) {
  Workload w = workload_175b();
  w.sequence_parallel = false;
  const Cluster c = cluster("dgx-a100-80gb");
  const auto sends = [&](const Workload& of) { return predict_time(of, c, {}).pipeline; };
  const double whole = sends(w);
  w.software.sliced_sends = true;
  EXPECT_LT(sends(w), 0.5 * whole);
  Workload parallel = w;
  parallel.sequence_parallel = true;
  EXPECT_GT(sends(w), sends(parallel)) << "which needs no whole tensor";
}

TEST(Predict, GathersIn8BitsHalveHalfOfTheTraffic) {
  const Cluster c = cluster("dgx-h100");
  Workload w = workload_175b();
  w.software.attention = AttentionKernel::kFlash;
  w.micro_batch = 8;  // long messages: latency stays
  const auto traffic = [&](Format format, bool gathers) {
    w.format = format;
    w.software.gathers_fp8 = gathers;
    return predict_time(w, c, {}).tensor;
  };
  EXPECT_NEAR(traffic(Format::kFp8, true) / traffic(Format::kFp8, false), 0.75, 0.01);
  EXPECT_EQ(traffic(Format::kBf16, true), traffic(Format::kBf16, false));
}

// Sequence parallelism with selective recomputation is worth about 30 % over full recomputation (2205.05198,
// table 5: 29.0 to 32.1 %), and interleaving about 10 % (2104.04473, section 5.3.2).
TEST(Predict, GainsThatPapersState) {
  const Cluster c = cluster("dgx-a100-80gb");
  const Calibration calibration = load_calibration(kConfigs / "planner/calibration.yaml");
  Workload w = workload_175b();
  w.software.release = "megatron-2022";
  const double present = predict(w, c, calibration).seconds;
  Workload full = w;
  full.recompute = Recompute::kFull;
  full.sequence_parallel = false;
  EXPECT_NEAR(predict(full, c, calibration).seconds / present, 1.30, 0.08);
  Workload plain = w;
  plain.vpp = 1;
  EXPECT_NEAR(predict(plain, c, calibration).seconds / present, 1.08, 0.05);
}

// Frozen weights have no gradient, layers before the first that is trained no backward pass.
TEST(Predict, FrozenLayersCostLess) {
  const Cluster c = cluster("dgx-a100-80gb");
  Workload w = workload_175b(), upper = w, adapted = w;
  upper.trained = {48, 1, 0, 1};
  adapted.trained = {0, 0, 0, 0};
  for (const char* schedule : {"interleaved", "zb-v"}) {
    for (Workload* each : {&w, &upper, &adapted}) {
      each->schedule = schedule;
      each->vpp = std::string_view(schedule) == "zb-v" ? 2 : 3;
    }
    std::vector<StageTime> all, half, none;
    const TimeSplit whole = predict_time(w, c, {}, &all), above = predict_time(upper, c, {}, &half),
                    frozen = predict_time(adapted, c, {}, &none);
    EXPECT_LT(above.attention, 0.85 * whole.attention) << schedule;
    EXPECT_NEAR(frozen.linear / whole.linear, 2.0 / 3, 0.05);
    EXPECT_LT(above.optimizer, whole.optimizer);
    EXPECT_EQ(none[3].forward, all[3].forward);
    EXPECT_EQ(none[3].backward_weight, 0);
  }
  EXPECT_NEAR(model_flops(upper) / model_flops(w), 2.0 / 3, 0.01);
  EXPECT_NEAR(model_flops(adapted) / model_flops(w), 2.0 / 3, 0.01);
  w.vpp = upper.vpp = 1;
  w.schedule = upper.schedule = "1f1b";
  std::vector<StageTime> stages;
  predict_time(upper, c, {}, &stages);
  EXPECT_EQ(stages[0].backward_input, 0);
  EXPECT_GT(stages[4].backward_weight, 0);
  EXPECT_EQ(upper.backward_layers(), (std::vector<std::int64_t>{0, 0, 0, 0, 12, 12, 12, 12}));
  EXPECT_LT(stage_memory(upper, 0).sum(), 0.4 * stage_memory(w, 0).sum());
}

TEST(Predict, TextAndTraces) {
  const Workload w = workload_175b();
  const Cluster c = cluster("dgx-a100-80gb");
  const Prediction p = predict(w, c, {});
  const std::string text = to_text(p, w, c, "a title");
  for (const char* part : {"a title", "64 devices", "where the time goes", "bubble", "not calibrated"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const StepTimeline timeline = timeline_of(p, w);
  EXPECT_NEAR(schedule::simulate(timeline.schedule, timeline.durations).makespan, p.seconds,
              0.15 * p.seconds);
  EXPECT_NE(to_chrome_trace(timeline).find("\"ph\":\"X\""), std::string::npos);
  EXPECT_NE(to_json(p, w, c).find("\"step_seconds\""), std::string::npos);
}

TEST(Calibrations, RoundTripAndRefuse) {
  Calibration calibration;
  Calibration::Entry entry;
  entry.constants[Constant::kGemm] = 0.8125;
  entry.fitted = {Constant::kGemm};
  entry.rows = 12;
  calibration.families["A100"] = entry;
  entry.constants[Constant::kIsland] = 0.5;
  entry.fitted = {Constant::kIsland};
  calibration.releases[{"A100", "nemo-22"}] = entry;
  const TestFolder folder;
  const fs::path file = folder / "calibration.yaml";
  write_text(file, write_calibration(calibration));
  const Calibration back = load_calibration(file);
  std::string why;
  EXPECT_EQ(back.find("A100", "nemo-22", &why).constants[Constant::kIsland], 0.5);
  EXPECT_EQ(back.find("A100", "nemo-22").constants[Constant::kGemm], 0.8125)
      << "what a release lacks is its family's";
  EXPECT_EQ(back.find("A100", "other", &why).rows, 12);
  EXPECT_NE(back.find("V100", "other", &why).rows, 12);
  EXPECT_NE(why.find("not calibrated"), std::string::npos);
  const auto refused = [&](const std::string& constants) {
    write_text(file, "families: {A100: {constants: {" + constants + "}}}\n");
    return error_text([&] { load_calibration(file); });
  };
  EXPECT_NE(refused("gem: 0.8").find("did you mean 'gemm'"), std::string::npos);
  EXPECT_NE(refused("gemm: 1.3").find("outside its physical bounds"), std::string::npos);
}

TEST(Calibrations, TheOneThatShipsIsWithinTheRules) {
  const Calibration calibration = load_calibration(kConfigs / "planner/calibration.yaml");
  EXPECT_LE(kConstants, 18);
  EXPECT_FALSE(calibration.families.empty());
  for (const auto& [name, entry] : calibration.releases)
    EXPECT_LE(entry.fitted.size(), static_cast<std::size_t>(std::max(1, entry.rows) * 2)) << name.second;
}

}  // namespace
}  // namespace stoa::plan
