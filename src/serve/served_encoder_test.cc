#include "serve/served_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <thread>

#include "base/test_paths.h"
#include "device/host/host_device.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::serve {
namespace {

infer::Machine encoder_machine() {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.device = std::make_unique<HostDevice>();
  machine.backend = std::make_unique<ops::cpu::CpuBackend>(*machine.pool);
  machine.stream = machine.device->create_stream();
  return machine;
}

// While an answer of many vectors is made, the encoder reads the texts of others.
TEST(ServedEncoder, WhatBecomesOfVectorsIsNotItsThreadsWork) {
  infer::OpenModel model(test::source_dir() / "tests/fixtures/contrastive", DType::kF32, encoder_machine);
  ServedEncoder encoder(model, {});
  std::promise<std::function<void()>> work;
  std::thread::id caller;
  std::vector<std::vector<float>> vectors;
  EmbeddingListener listener{.elsewhere = [&](std::function<void()> run) { work.set_value(std::move(run)); },
                             .done =
                                 [&](std::vector<std::vector<float>> given, std::int64_t tokens) {
                                   caller = std::this_thread::get_id();
                                   vectors = std::move(given);
                                   EXPECT_GT(tokens, 2);
                                 },
                             .failed = [](const ApiError& error) { FAIL() << error.what(); }};
  encoder.submit({"stone sea", "wind"}, listener);
  const auto waiting = work.get_future().get();
  EXPECT_TRUE(vectors.empty());
  std::promise<void> other;
  encoder.submit({"road"}, {.elsewhere = [](const std::function<void()>& run) { run(); },
                            .done = [&](const auto&, std::int64_t) { other.set_value(); },
                            .failed = [](const ApiError& error) { FAIL() << error.what(); }});
  other.get_future().get();  // it did not wait for the first
  waiting();
  EXPECT_EQ(caller, std::this_thread::get_id());
  ASSERT_EQ(vectors.size(), 2u);
  double squares = 0;
  for (const float x : vectors[0]) squares += std::pow(x, 2);
  EXPECT_NEAR(squares, 1, 1e-6);
}

}  // namespace
}  // namespace stoa::serve
