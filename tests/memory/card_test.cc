// Runs on cards with little memory: what is too much is refused before any is taken, and the presets fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_paths.h"
#include "cli/machine_factory.h"
#include "cli/schema.h"
#include "ops/cuda/cuda_backend.h"
#include "plan/memory_plan.h"
#include "train/training_plan.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr, ::testing::Not;

// Products as cuBLASLt does them, as far as memory goes (ops/cuda/libraries/cublaslt_matmul.h).
class LibraryMemory final : public ops::cuda::MatmulLibrary {
 public:
  std::size_t workspace_bytes() const override { return std::size_t{32} << 20; }
  void run(const char*, const ops::cuda::Matmul&, void*, void*) override { FAIL() << "nothing runs here"; }
};

TEST(Cards, PresetsFitOnBothBackends) {
  for (const char* preset : {"card-8gb", "card-16gb", "card-24gb"}) {
    SCOPED_TRACE(preset);
    const auto config =
        cli::load_run_config((test::source_dir() / "configs/").string() + std::string(preset) + ".yaml", {});
    const auto plan = train::plan_training(config, 0);
    infer::Machine cpu = cli::make_planning_machine({.threads = 2}), gpu;
    gpu.backend = std::make_unique<ops::cuda::CudaBackend>(std::make_shared<LibraryMemory>(), nullptr,
                                                           DeviceKind::kCuda);
    for (infer::Machine* machine : {&cpu, &gpu}) {
      infer::Machine meta = infer::make_meta_machine(*machine);
      const auto memory = plan::plan_memory(meta, plan.options);
      ASSERT_TRUE(memory.limit.has_value());
      EXPECT_LE(memory.total, *memory.limit);
      EXPECT_GT(memory.total, *memory.limit * 9 / 10);  // a larger model would not do
      EXPECT_THAT(plan::to_text(memory), HasSubstr("stay free"));
    }
  }
}

class MemoryLimit : public Workplace {};

TEST_F(MemoryLimit, IsHeldToTheByte) {
  const Arguments run{"tiny",
                      "model.encoder_seq_length=32",
                      "model.micro_batch_size=1",
                      "model.global_batch_size=2",
                      "trainer.val_check_interval=0",
                      "--threads",
                      "1"};
  const auto plan = [&](const Arguments& more) {
    return nlohmann::json::parse(stoa_ok(Arguments{"plan", "memory"} + run + more + Arguments{"--json"}).out);
  };
  const auto total = plan({})["total_bytes"].get<std::size_t>();
  const auto limit = [](std::size_t bytes) {
    return Arguments{fmt::format("trainer.memory_limit_gb={:.9f}", static_cast<double>(bytes) / 1e9)};
  };
  EXPECT_EQ(plan(limit(total))["fits"], true);
  EXPECT_EQ(plan(limit(total - 1))["fits"], false);
  const Arguments bench = Arguments{"bench", "train", "--steps", "1", "--warmup", "0"} + run;
  stoa_ok(bench + limit(total));
  const Outcome refused = stoa(bench + limit(total - 1));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("1 B more than trainer.memory_limit_gb allows"));
  EXPECT_THAT(refused.err, HasSubstr("saved activations"));
  EXPECT_THAT(refused.err, Not(HasSubstr("step 1")));
}

}  // namespace
}  // namespace stoa::e2e
