// The suite that every backend must pass: each operation over types and odd shapes, against the reference.
// Its tests stand in backend_test.cc; a backend joins with INSTANTIATE_TEST_SUITE_P(Name, BackendTest,
// ::testing::Values(BackendCase{...})).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "ops/backend.h"

namespace stoa::ops::testing {

// Of activations.
constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

struct BackendCase {
  std::string name;
  std::function<std::shared_ptr<Backend>()> make;
  bool rounds_bias = false;  // a bias is rounded to the output's type before it is added
  // FP8 products are added with about 14 bits, as tensor cores of Hopper do (DeepSeek-V3, arXiv:2412.19437, 3.3.2).
  bool short_fp8_sums = false;
};
inline void PrintTo(const BackendCase& backend, std::ostream* out) { *out << backend.name; }

class BackendTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override { backend_ = GetParam().make(); }
  Backend& backend() { return *backend_; }

 private:
  std::shared_ptr<Backend> backend_;
};

struct BackendCaseName {
  std::string operator()(const ::testing::TestParamInfo<BackendCase>& info) const { return info.param.name; }
};

}  // namespace stoa::ops::testing
