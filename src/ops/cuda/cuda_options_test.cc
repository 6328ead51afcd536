#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/cuda/cuda_machine.h"

namespace stoa::ops::cuda {
namespace {

TEST(CudaOptions, Words) {
  const CudaOptions none = CudaOptions::parse("");
  EXPECT_FALSE(none.tf32 || none.tune || none.deterministic || none.graphs || none.own_attention ||
               none.plain_kernels);
  const CudaOptions some =
      CudaOptions::parse("tf32,graphs,device=3,own-attention,plain-kernels,deterministic");
  EXPECT_TRUE(some.tf32 && some.graphs && some.own_attention && some.plain_kernels && some.deterministic);
  EXPECT_EQ(some.device, 3);
}

TEST(CudaOptions, Errors) {
  EXPECT_THROW(CudaOptions::parse("grahps"), ConfigError);
  EXPECT_THROW(CudaOptions::parse("device=x"), ConfigError);
  EXPECT_THROW(CudaOptions::parse("tune,deterministic"), ConfigError);
}

}  // namespace
}  // namespace stoa::ops::cuda
