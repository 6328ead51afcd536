// For tests of bits: a model whose logits are kept, its machine, its weights, and the comparison of logits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/host/host_device.h"
#include "infer/engine/pass_plan.h"
#include "infer/machine.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::infer {

// Keeps the logits of every token that a pass gives.
class RecordedModel final : public PassModel {
 public:
  explicit RecordedModel(PassModel& model) : model_(model) {}
  const PassLimits& limits() const override { return model_.limits(); }
  std::span<const float> run(const PassPlan& plan) override {
    const auto logits = model_.run(plan);
    const auto width = static_cast<std::size_t>(limits().vocabulary);
    std::size_t row = 0;
    for (const PassSegment& s : plan.segments)
      for (std::int64_t i = std::ssize(s.tokens) - s.scored; i < std::ssize(s.tokens); ++i, ++row) {
        const auto values = logits.subspan(row * width, width);
        rows[{s.sequence, s.begin + i}] = {values.begin(), values.end()};
      }
    return logits;
  }
  void share_out(std::int64_t n, const std::function<void(std::int64_t)>& body) override {
    model_.share_out(n, body);
  }
  std::map<std::pair<SequenceId, std::int64_t>, std::vector<float>> rows;

 private:
  PassModel& model_;
};

inline Machine machine_with_rows_apart(int threads) {
  Machine machine;
  machine.pool = std::make_unique<WorkerPool>(threads);
  machine.device = std::make_unique<HostDevice>();
  machine.backend =
      std::make_unique<ops::cpu::CpuBackend>(*machine.pool, ops::cpu::best_instruction_set(), true);
  machine.stream = machine.device->create_stream();
  return machine;
}

// Values that depend on `salt` and the place in the tensor.
inline void fill_by_formula(TensorView weights, std::int64_t salt) {
  dispatch_float(weights.dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < weights.elements(); ++i)
      weights.as<T>()[i] = T(0.3F * std::sin(static_cast<float>(i * i % 1009 * 7 + salt * 31 + 1)));
  });
}

// By request and position.
using RequestLogits = std::map<std::pair<std::size_t, std::int64_t>, std::vector<float>>;

// That rows are the bits of those which a request has alone. `what`: how they were computed, for messages.
inline void expect_rows_of(const RequestLogits& alone, const RequestLogits& other, const std::string& what) {
  std::size_t different = 0;
  for (const auto& [key, row] : other) {
    const auto it = alone.find(key);
    ASSERT_NE(it, alone.end()) << what;
    different += it->second != row;
  }
  EXPECT_EQ(different, 0u) << what << ", of " << other.size();
}

}  // namespace stoa::infer
