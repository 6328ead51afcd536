// Checkpoints that DeepSpeed wrote (tests/oracle/make_deepspeed_fixtures.py), beside its own joining of them.
#include "foreign/checkpoint/deepspeed_checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "ckpt/foreign_directory.h"
#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::foreign {
namespace {

using ::testing::HasSubstr;

fs::path deepspeed_fixtures() { return test::source_dir() / "tests/fixtures/deepspeed"; }

class DeepSpeedCheckpoint : public ::testing::TestWithParam<const char*> {
 protected:
  fs::path fixture() const { return deepspeed_fixtures() / GetParam(); }
};

// Every tensor of `found` is bit-equal to DeepSpeed's of that name after `prefix`.
void expect_joined(const ckpt::TensorSource& found, const ckpt::TensorSource& expected,
                   const std::string& prefix) {
  EXPECT_EQ(found.entries().size(), 21u);
  for (const ckpt::TensorEntry* entry : found.entries()) {
    const ckpt::TensorEntry& same = expected.entry(prefix + entry->name);
    EXPECT_EQ(entry->shape, same.shape) << entry->name;
    EXPECT_TRUE(ckpt::same_elements(found, *entry, expected, same)) << prefix << entry->name;
  }
}

TEST_P(DeepSpeedCheckpoint, IsJoinedAsDeepSpeedJoinsIt) {
  ASSERT_TRUE(ckpt::is_foreign_checkpoint(fixture()));
  const ForeignCheckpoint read = open_foreign(fixture());
  const std::string form = GetParam();
  const auto expected =
      ckpt::open_weights(deepspeed_fixtures() / "expected" / form.substr(form.find('_') + 1));
  expect_joined(*read.weights, *expected, "");
  ASSERT_TRUE(read.state.has_value());
  expect_joined(*read.state->master, *expected, "");
  expect_joined(*read.state->exp_avg, *expected, "adam.m/");
  expect_joined(*read.state->exp_avg_sq, *expected, "adam.v/");
  EXPECT_EQ(read.state->iteration, 2);
  EXPECT_EQ(read.state->updates, 2);
  EXPECT_EQ(read.state->samples, 4);
  if (form.starts_with("universal")) return;  // which hold no settings
  ASSERT_TRUE(read.state->adam.has_value());
  EXPECT_DOUBLE_EQ(read.state->adam->learning_rate, 1e-2);
  EXPECT_DOUBLE_EQ(read.state->adam->weight_decay, 0.1);
  EXPECT_DOUBLE_EQ(read.state->adam->beta2, 0.95);
  EXPECT_DOUBLE_EQ(read.state->adam->epsilon, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Of, DeepSpeedCheckpoint,
                         ::testing::Values("zero1", "zero2", "zero3", "universal_zero2", "universal_zero3"),
                         [](const auto& of) { return std::string(of.param); });

std::string refusal_of(const fs::path& directory) {
  try {
    open_foreign(directory);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DeepSpeedCheckpoints, RefuseWhatIsNotWhole) {
  const TestFolder scratch;
  const auto copy = [&](const char* name) {
    fs::path out = scratch.path() / name;
    fs::create_directories(out);
    fs::copy(deepspeed_fixtures() / "zero2", out, fs::copy_options::recursive);
    return out;
  };
  const fs::path no_config = copy("no_config"), no_rank = copy("no_rank"), other_world = copy("other_world"),
                 no_states = copy("no_states");
  fs::remove(no_config / "config.json");
  EXPECT_THAT(refusal_of(no_config), HasSubstr("give it by --config FILE"));
  EXPECT_EQ(
      open_foreign(no_config, {deepspeed_fixtures() / "zero2/config.json", {}}).weights->entries().size(),
      21u);
  const auto partition = [](const fs::path& of, int rank) {
    for (const auto& item : fs::directory_iterator(of / "global_step2"))
      if (item.path().filename().string().ends_with(
              fmt::format("zero_pp_rank_{}_mp_rank_00_optim_states.pt", rank)))
        return item.path();
    return fs::path();
  };
  fs::remove(partition(no_rank, 0));
  EXPECT_THAT(refusal_of(no_rank), HasSubstr("holds 1 of the partitions of ranks 0 to 1"));
  fs::remove(partition(other_world, 1));
  EXPECT_THAT(refusal_of(other_world), HasSubstr("was written by 2 ranks, and holds the partitions of 1"));
  fs::remove(no_states / "global_step2/mp_rank_00_model_states.pt");
  EXPECT_THAT(refusal_of(no_states), HasSubstr("holds no mp_rank_00_model_states.pt"));
}

}  // namespace
}  // namespace stoa::foreign
