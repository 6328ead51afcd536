#include "train/kept_logits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/test_folder.h"

namespace stoa::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::int64_t kLength = 6;

// Row k has k % 4 + 1 trained tokens; every row is of its own.
class Rows final : public data::Dataset {
 public:
  explicit Rows(std::int64_t count) : count_(count) {}
  std::int64_t size() const override { return count_; }
  std::int64_t sequence_length() const override { return kLength; }
  void read(std::int64_t k, data::BatchRow row) const override {
    for (std::size_t i = 0; i < static_cast<std::size_t>(kLength); ++i) {
      row.tokens[i] = static_cast<std::int32_t>(k * 10) + static_cast<std::int32_t>(i);
      row.labels[i] = row.tokens[i] + 1;
      row.position_ids[i] = static_cast<std::int32_t>(i);
      row.loss_mask[i] = i >= 1 && static_cast<std::int64_t>(i) <= k % 4 + 1 ? 1.0F : 0.0F;
    }
    row.cu_seqlens->insert(row.cu_seqlens->end(), {0, static_cast<std::int32_t>(kLength)});
  }
  std::vector<data::Piece> pieces(std::int64_t) const override { return {}; }

 private:
  const std::int64_t count_;
};

KeptHeader header_of(std::int64_t top, std::int64_t vocabulary, DType type) {
  return {top, vocabulary, type, "teacher", "0123", "words"};
}

KeptToken token_of(std::int64_t row, std::int64_t n, const KeptHeader& h) {
  KeptToken out;
  for (std::int64_t c = 0; c < h.top; ++c)
    out.ids.push_back(static_cast<std::int32_t>(h.vocabulary - 1 - (h.top - 1 - c) * (row + 1)));
  for (std::int64_t c = 0; c <= h.top; ++c)
    out.log_probabilities.push_back(-0.25F * static_cast<float>(1 + c + n) - static_cast<float>(row));
  return out;
}

// Adds rows [first, last).
void add_rows(KeptLogitsWriter& writer, const KeptHeader& h, std::int64_t first, std::int64_t last) {
  data::Batch batch;
  for (std::int64_t k = first; k < last; ++k) {
    data::fill_batch(Rows(last), std::span(&k, 1), batch);
    std::vector<KeptToken> tokens;
    for (std::int64_t n = 0; n < k % 4 + 1; ++n) tokens.push_back(token_of(k, n, h));
    writer.add(checksum_of_row(batch, 0), tokens);
  }
}

void expect_rows(const KeptLogits& kept, const KeptHeader& h, std::int64_t rows) {
  kept.require_rows(Rows(rows), rows, "training");
  data::Batch batch;
  const std::vector<std::int64_t> numbers{rows - 1, 0, rows / 2};
  data::fill_batch(Rows(rows), numbers, batch);
  kept.fill(batch);
  const auto top = static_cast<std::size_t>(h.top);
  for (std::size_t r = 0; r < numbers.size(); ++r)
    for (std::int64_t n = 0; n < numbers[r] % 4 + 1; ++n) {
      const KeptToken expected = token_of(numbers[r], n, h);
      const std::size_t at = r * kLength + 1 + static_cast<std::size_t>(n);
      for (std::size_t c = 0; c < top; ++c) EXPECT_EQ(batch.kept_ids[at * top + c], expected.ids[c]);
      for (std::size_t c = 0; c <= top; ++c)
        EXPECT_EQ(batch.kept_log_probabilities[at * (top + 1) + c], expected.log_probabilities[c]);
    }
}

template <class E>
void expect_error(const std::function<void()>& body, const char* text) {
  try {
    body();
    ADD_FAILURE() << "no error: " << text;
  } catch (const E& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(KeptLogits, ComeBack) {
  const TestFolder folder;
  int number = 0;
  for (const DType type : {DType::kF16, DType::kF32})
    for (const std::int64_t vocabulary : {1000, 70000}) {
      const KeptHeader h = header_of(3, vocabulary, type);
      EXPECT_EQ(h.bytes_per_token(), (vocabulary > 65536 ? 12 : 6) + (type == DType::kF16 ? 8 : 16));
      const fs::path directory = folder / std::to_string(number++);
      KeptLogitsWriter writer(directory, h, 200);  // several files
      add_rows(writer, h, 0, 40);
      add_rows(writer, h, 10, 12);  // they are there
      writer.commit();
      EXPECT_EQ(writer.rows(), 40);
      EXPECT_EQ(writer.tokens(), 100);
      EXPECT_TRUE(fs::exists(directory / "rows-00003.safetensors"));
      const KeptLogits kept(directory);
      EXPECT_EQ(kept.header(), h);
      expect_rows(kept, h, 40);
    }
}

// A writer that is stopped leaves whole files, and another one goes on from them.
TEST(KeptLogits, GoOnAfterAStop) {
  const TestFolder folder;
  const KeptHeader h = header_of(2, 500, DType::kF32);
  const fs::path directory = folder / "kept";
  {
    KeptLogitsWriter stopped(directory, h, 200);
    add_rows(stopped, h, 0, 25);
  }
  expect_error<DataError>([&] { KeptLogits{directory}; }, "was stopped; give the same command again");
  for (const auto& entry : fs::directory_iterator(directory))
    EXPECT_THAT(entry.path().extension().string(), ::testing::AnyOf(".json", ".safetensors"));
  for (const KeptHeader& other : {header_of(3, 500, DType::kF32), header_of(2, 500, DType::kF16),
                                  KeptHeader{2, 500, DType::kF32, "teacher", "4567", "words"}})
    expect_error<ConfigError>([&] { KeptLogitsWriter(directory, other); }, "was begun otherwise");
  {
    KeptLogitsWriter told(directory, h, 200);  // that it will be stopped
    EXPECT_GT(told.rows(), 5);
    EXPECT_LT(told.rows(), 25);
    add_rows(told, h, 0, 25);
    told.flush();
  }
  KeptLogitsWriter writer(directory, h, 200);
  EXPECT_EQ(writer.rows(), 25);
  add_rows(writer, h, 0, 40);
  writer.commit();
  EXPECT_EQ(writer.tokens(), 100);
  expect_rows(KeptLogits(directory), h, 40);
  expect_error<ConfigError>([&] { KeptLogitsWriter(directory, h); },
                            "holds the predictions of teacher already");
}

TEST(KeptLogits, OtherRowsAndPlacesAreRefused) {
  const TestFolder folder;
  const KeptHeader h = header_of(2, 500, DType::kF16);
  {
    KeptLogitsWriter writer(folder / "kept", h);
    add_rows(writer, h, 0, 10);
    writer.commit();
  }
  const KeptLogits kept(folder / "kept");
  kept.require_rows(Rows(12), 10, "training");
  expect_error<DataError>([&] { kept.require_rows(Rows(12), 12, "training"); },
                          "no predictions of training sample 10");
  data::Batch batch;
  const std::int64_t beyond = 10;
  data::fill_batch(Rows(12), std::span(&beyond, 1), batch);
  expect_error<DataError>([&] { kept.fill(batch); },
                          "no predictions of sample 10: they were kept of other data");
  expect_error<DataError>([&] { KeptLogits(folder / "nowhere"); }, "holds no predictions of a teacher");
  write_text(folder / "notes.txt", "mine");
  expect_error<ConfigError>([&] { KeptLogitsWriter(folder.path(), h); }, "is not an empty folder");
}

// Every byte of what is kept counts, and files that do not fit the header are refused.
TEST(KeptLogits, DamageIsFound) {
  const TestFolder folder;
  const KeptHeader h = header_of(2, 500, DType::kF16);
  const fs::path directory = folder / "kept", file = directory / "rows-00000.safetensors",
                 header = directory / "kept_logits.json";
  {
    KeptLogitsWriter writer(directory, h);
    add_rows(writer, h, 0, 8);
    writer.commit();
  }
  const std::string whole = read_text(file), says = read_text(header);
  const auto read_all = [&] {
    const KeptLogits kept(directory);
    kept.require_rows(Rows(8), 8, "training");
    data::Batch batch;
    const std::vector<std::int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};
    data::fill_batch(Rows(8), all, batch);
    kept.fill(batch);
  };
  read_all();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write_text(file, damaged);
    try {
      read_all();
      // Padding of the header, and what its metadata say.
      EXPECT_TRUE(whole[i] == ' ' || i < whole.find("\"checksums\"")) << "byte " << i;
    } catch (const DataError&) {
    }
  }
  write_text(file, std::string_view(whole).substr(0, whole.size() - 1));
  EXPECT_THROW(read_all(), DataError);
  write_text(file, whole);
  auto json = nlohmann::json::parse(says);
  json["top_k"] = 3;
  write_text(header, json.dump());
  expect_error<DataError>(read_all, "expected");
  json = nlohmann::json::parse(says);
  json["rows"] = 9;
  write_text(header, json.dump());
  expect_error<DataError>(read_all, "hold 8 rows");
  for (std::size_t i = 0; i < says.size(); ++i)
    for (const char other : {'9', '-', '"', '}', '\0'}) {
      std::string damaged = says;
      damaged[i] = other;
      write_text(header, damaged);
      try {
        read_all();  // names may be others
      } catch (const DataError&) {
      } catch (const IoError&) {  // of a file that is missing
      }
    }
  write_text(header, "{}");
  expect_error<DataError>(read_all, "cannot be read");
  write_text(header, "not JSON");
  expect_error<DataError>(read_all, "cannot be read");
}

}  // namespace
}  // namespace stoa::train
