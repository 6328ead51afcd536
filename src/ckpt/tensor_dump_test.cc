#include "ckpt/tensor_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "base/test_folder.h"

namespace stoa::ckpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

DumpRecord record(std::int64_t step, std::int64_t microbatch, const std::string& tensor) {
  DumpRecord r;
  r.step = step;
  r.microbatch = microbatch;
  r.layer = 0;
  r.tensor = tensor;
  r.global = {8, 2};
  r.begin = {microbatch * 4, 0};
  r.shape = {4, 2};
  return r;
}

std::vector<std::byte> values(float first) {
  std::vector<float> x;
  for (int i = 0; i < 8; ++i) x.push_back(first + static_cast<float>(i));
  std::vector<std::byte> out(x.size() * sizeof(float));
  std::memcpy(out.data(), x.data(), out.size());
  return out;
}

void write_rank(const fs::path& directory, int rank, int ranks, std::int64_t steps = 2) {
  DumpWriter writer(directory, {rank, ranks, "DP2", "fp32", "test", 1, 4});
  for (std::int64_t step = 1; step <= steps; ++step) {
    writer.add(record(step, 0, "x"), values(static_cast<float>(step)));
    writer.add(record(step, 1, "x"), values(static_cast<float>(10 * step)));
    writer.end_step({step, 0, 2.5, 0.125});
  }
}

TEST(TensorDump, ReadsWhatItWrote) {
  const TestFolder work;
  write_rank(work.path(), 0, 2);
  write_rank(work.path(), 1, 2);
  ASSERT_TRUE(DumpReader::exists(work.path()));
  DumpReader reader(work.path());
  EXPECT_EQ(reader.headers().size(), 2u);
  EXPECT_EQ(reader.headers()[1].compute, "fp32");
  EXPECT_THAT(reader.steps(), ElementsAre(1, 2));
  const auto& records = reader.records(2);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[3].rank, 1);
  EXPECT_THAT(records[3].begin, ElementsAre(4, 0));
  const auto bytes = reader.bytes(records[1]);
  EXPECT_EQ(std::memcmp(bytes.data(), values(20).data(), bytes.size()), 0);
  EXPECT_EQ(reader.end(2)->rate, 0.125);
  EXPECT_TRUE(reader.notes().empty());
}

TEST(TensorDump, UnfinishedStepsAreLeftOutAndSaid) {
  const TestFolder work;
  write_rank(work.path(), 0, 1);
  const fs::path index = work.path() / "rank-00000.jsonl";
  const std::string text = read_text(index);
  write_text(index, text.substr(0, text.rfind("{\"end_of_step\"") + 10));  // torn in its last line
  DumpReader reader(work.path());
  EXPECT_THAT(reader.steps(), ElementsAre(1));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("0 of 1 ranks finished step 2")));
}

TEST(TensorDump, WhatIsNotADumpIsRefusedWithItsPlace) {
  const TestFolder work;
  const auto open = [&] { DumpReader reader(work.path()); };
  EXPECT_THAT(open, ThrowsMessage<IoError>(HasSubstr("--dump-tensors")));
  const fs::path index = work.path() / "rank-00000.jsonl";
  const auto expect = [&](const std::string& text, const char* message) {
    write_text(index, text);
    EXPECT_THAT(open, ThrowsMessage<DataError>(HasSubstr(message))) << text;
  };
  write_rank(work.path(), 0, 1, 1);
  const std::string good = read_text(index), head = good.substr(0, good.find('\n') + 1);
  expect("", "empty");
  expect("{\"name\": \"something else\"}\n", "not the head of a tensor dump");
  expect("[1, 2]\n", "rank-00000.jsonl:1: is not a JSON object");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  expect(changed("\"version\":1", "\"version\":9"), "version 9");
  expect(changed("\"ranks\":1", "\"ranks\":3"), "rank-00001.jsonl' is missing");
  expect(changed("\"begin\":[0,0]", "\"begin\":[5,0]"), ":2: 'x': 4 from 5 on is beyond the 8");
  expect(changed("\"begin\":[0,0]", "\"begin\":[-1,0]"), "holds -1");
  expect(changed("\"global\":[8,2]", "\"global\":[9007199254740992,4096]"), "too large");
  expect(changed("\"dtype\":\"F32\"", "\"dtype\":\"Q4\""), "dtype 'Q4'");
  expect(changed("\"phase\":\"forward\"", "\"phase\":\"sideways\""), "phase 'sideways'");
  expect(changed("\"file\":\"step", "\"file\":\"../step"), "not within the dump");
  expect(changed("\"tensors\":2", "\"tensors\":3"), "step 1 has 2 tensors, its end says 3");
}

TEST(TensorDump, FilesThatDoNotHoldWhatTheIndexSaysAreNamed) {
  const TestFolder work;
  write_rank(work.path(), 0, 1, 1);
  const fs::path index = work.path() / "rank-00000.jsonl";
  std::string text = read_text(index);
  const auto read = [&] {
    DumpReader reader(work.path());
    reader.bytes(reader.records(1).front());
  };
  EXPECT_NO_THROW(read());
  const std::string key = "forward/0/x";
  std::string other = text;
  other.replace(other.find(key), key.size(), "forward/7/x");
  write_text(index, other);
  EXPECT_THAT(read, ThrowsMessage<DataError>(HasSubstr("forward/7/x")));
  other = text;
  other.replace(other.find("F32"), 3, "I32");
  write_text(index, other);
  EXPECT_THAT(read, ThrowsMessage<DataError>(HasSubstr("the index says I32")));
  write_text(index, text);
  const fs::path data = work.path() / "step-0000001/rank-00000-0000.safetensors";
  fs::resize_file(data, fs::file_size(data) - 4);
  EXPECT_THAT(read, ThrowsMessage<DataError>(HasSubstr("rank-00000-0000.safetensors")));
  fs::remove(data);
  EXPECT_THROW(read(), IoError);
}

}  // namespace
}  // namespace stoa::ckpt
