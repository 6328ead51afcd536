#include "infer/cache_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoa::infer {
namespace {

using ::testing::HasSubstr;

template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CacheType, NamesAreThoseThatOtherProgramsHave) {
  EXPECT_FALSE(cache_type_from_name("auto"));
  for (const char* name : {"fp16", "f16", "float16", "half"})
    EXPECT_EQ(cache_type_from_name(name), DType::kF16);
  for (const char* name : {"bf16", "bfloat16"}) EXPECT_EQ(cache_type_from_name(name), DType::kBF16);
  for (const char* name : {"fp32", "f32", "float32"}) EXPECT_EQ(cache_type_from_name(name), DType::kF32);
  for (const char* name : {"int8", "q8_0"}) EXPECT_EQ(cache_type_from_name(name), DType::kU8);
  EXPECT_EQ(cache_type_name(DType::kU8), "int8");
  EXPECT_EQ(cache_type_from_name("BF16"), DType::kBF16);  // as --dtype takes it
  EXPECT_EQ(cache_type_from_name("Q8_0"), DType::kU8);
  EXPECT_FALSE(cache_type_from_name("AUTO"));
  for (const char* name : {"fp8_e4m3", "q4_0", "int4"})
    EXPECT_THAT(refusal([&] { cache_type_from_name(name); }), HasSubstr("nearest to it is int8"));
  EXPECT_THAT(
      refusal([] { cache_type_from_name("big"); }),
      ::testing::EndsWith("--kv-dtype big: keys and values are kept in auto, fp32, bf16, fp16 or int8"));
}

TEST(CacheType, IsChosenByTheModel) {
  const auto chosen = [](DType compute, bool blocks) { return cache_type(compute, std::nullopt, blocks); };
  EXPECT_EQ(chosen(DType::kBF16, false), DType::kBF16);
  EXPECT_EQ(chosen(DType::kF32, false), DType::kF32);
  EXPECT_EQ(chosen(DType::kF32, true), DType::kF16);
  EXPECT_EQ(chosen(DType::kBF16, true), DType::kBF16) << "asked for by --dtype";
}

TEST(CacheType, RefusesWhatIsNotPossible) {
  const auto asked = [](DType compute, DType type) {
    return refusal([&] { cache_type(compute, type, false); });
  };
  EXPECT_EQ(cache_type(DType::kF32, DType::kU8, true), DType::kU8);
  EXPECT_EQ(cache_type(DType::kBF16, DType::kF16, false), DType::kF16);
  EXPECT_EQ(cache_type(DType::kBF16, DType::kBF16, false), DType::kBF16);
  EXPECT_THAT(asked(DType::kBF16, DType::kF32), HasSubstr("give --kv-dtype bf16"));
  EXPECT_THAT(asked(DType::kF64, DType::kF16), HasSubstr("give --kv-dtype auto"));
}

}  // namespace
}  // namespace stoa::infer
