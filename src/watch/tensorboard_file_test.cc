#include "watch/tensorboard_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "watch/crc32c.h"
#include "watch/test_run.h"

namespace stoa::watch {
namespace {

// A decoder that knows wire types only, written apart from the encoder.
struct Field {
  std::uint64_t number = 0;  // of wire types 0, 1, 5
  std::string bytes;         // of wire type 2
};

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::uint64_t take_varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(data.at(0));
    data.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}

std::multimap<int, Field> decode(std::string_view data) {
  std::multimap<int, Field> fields;
  while (!data.empty()) {
    const std::uint64_t tag = take_varint(data);
    Field field;
    const auto wire = tag & 7;
    if (wire == 0) {
      field.number = take_varint(data);
    } else {
      const std::size_t size = wire == 1 ? 8 : wire == 5 ? 4 : take_varint(data);
      if (size > data.size()) throw std::out_of_range("field beyond the message");
      if (wire == 2)
        field.bytes = data.substr(0, size);
      else
        field.number = little_endian(data.substr(0, size));
      data.remove_prefix(size);
    }
    fields.emplace(static_cast<int>(tag >> 3), field);
  }
  return fields;
}

const Field& only(const std::multimap<int, Field>& fields, int number) {
  EXPECT_EQ(fields.count(number), 1U) << "field " << number;
  return fields.find(number)->second;
}

std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    const auto size = little_endian(file.substr(0, 8));
    EXPECT_EQ(little_endian(file.substr(8, 4)), mask_crc(crc32c(file.substr(0, 8))));
    records.emplace_back(file.substr(12, size));
    EXPECT_EQ(little_endian(file.substr(12 + size, 4)), mask_crc(crc32c(file.substr(12, size))));
    file.remove_prefix(16 + size);
  }
  return records;
}

std::map<std::string, float> scalars_of(std::string_view event) {
  std::map<std::string, float> scalars;
  const auto summary = decode(only(decode(event), 5).bytes);
  for (auto [it, end] = summary.equal_range(1); it != end; ++it) {
    const auto value = decode(it->second.bytes);
    scalars[only(value, 1).bytes] = std::bit_cast<float>(static_cast<std::uint32_t>(only(value, 2).number));
  }
  return scalars;
}

TEST(Crc32c, KnownVectors) {  // RFC 3720 B.4 and the check value of the catalogue
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string rising(32, '\0');
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(TensorboardFile, BytesOfTheFirstRecord) {
  // What TensorFlow's and tensorboardX's writers put first, for the same time.
  const std::string event = version_event(1.5);
  EXPECT_EQ(event, std::string("\x09\x00\x00\x00\x00\x00\x00\xf8\x3f\x1a\x0d"
                               "brain.Event:2",
                               24));
  EXPECT_EQ(records_of(frame_record(event)), std::vector<std::string>{event});
}

TEST(TensorboardFile, ScalarsDecode) {
  TestFolder directory;
  TensorboardFile file(directory.path());
  file.on_start(test::small_start());
  EXPECT_THAT(file.path().filename().string(),
              ::testing::MatchesRegex("events\\.out\\.tfevents\\.[0-9]+\\..+"));
  file.on_step(test::step_report(9));  // not logged
  StepReport step = test::step_report(300);
  step.gradient_norm = std::numeric_limits<double>::infinity();
  file.on_step(step);
  ValidationReport validation;
  validation.step = 300;
  validation.loss = 2.5;
  file.on_validation(validation);

  const auto records = records_of(read_text(file.path()));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(only(decode(records[0]), 3).bytes, "brain.Event:2");
  const auto event = decode(records[1]);
  EXPECT_EQ(only(event, 2).number, 300U);
  EXPECT_GT(std::bit_cast<double>(only(event, 1).number), 1.6e9);
  const auto scalars = scalars_of(records[1]);
  EXPECT_FLOAT_EQ(scalars.at("loss"), static_cast<float>(step.loss));
  EXPECT_FLOAT_EQ(scalars.at("lr"), 6e-4F);
  EXPECT_EQ(scalars.count("grad_norm"), 0U);
  EXPECT_EQ(scalars_of(records[2]), (std::map<std::string, float>{{"val_loss", 2.5F}}));
}

TEST(TensorboardFile, ResumeWritesItsOwnFileAndForgetsLaterSteps) {
  TestFolder directory;
  TensorboardFile first(directory.path()), second(directory.path());
  first.on_start(test::small_start());
  second.on_start(test::resumed_start(400));
  EXPECT_NE(first.path(), second.path());
  const auto records = records_of(read_text(second.path()));
  ASSERT_EQ(records.size(), 2U);
  const auto event = decode(records[1]);
  EXPECT_EQ(only(event, 2).number, 401U);
  EXPECT_EQ(only(decode(only(event, 7).bytes), 1).number, 1U);
}

TEST(TensorboardFile, ReadOnlyDirectoryIsAClearError) {
  TestFolder directory;
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  TensorboardFile file(directory.path());
  const test::NotRoot plain_user;
  try {
    file.on_start(test::small_start());
    FAIL() << "no error";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("Permission denied"));
  }
}

}  // namespace
}  // namespace stoa::watch
