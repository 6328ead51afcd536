#include "ckpt/viewed_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/error.h"

namespace stoa::ckpt {
namespace {

using ::testing::ElementsAre, testing::ThrowsMessage, ::testing::HasSubstr;

// One tensor of 32-bit integers 0, 1, 2, …
class Counting final : public TensorSource {
 public:
  explicit Counting(std::vector<std::int64_t> shape) : TensorSource("counting") {
    entry_.name = "numbers";
    entry_.type = StorageType::kI32;
    entry_.shape = std::move(shape);
    values_.resize(static_cast<std::size_t>(entry_.elements()));
    std::iota(values_.begin(), values_.end(), 0);
    set_entries({&entry_});
  }
  std::size_t file_count() const override { return 1; }
  std::span<const std::byte> elements(const TensorEntry&, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>&) const override {
    return std::as_bytes(std::span(values_))
        .subspan(static_cast<std::size_t>(begin) * 4, static_cast<std::size_t>(end - begin) * 4);
  }
  const TensorEntry& numbers() const { return entry_; }

 private:
  TensorEntry entry_;
  std::vector<std::int32_t> values_;
};

ViewedTensor viewed(std::vector<std::int64_t> shape, std::vector<ViewedPart> parts) {
  ViewedTensor out;
  out.entry.name = "view";
  out.entry.type = StorageType::kI32;
  out.entry.shape = std::move(shape);
  out.parts = std::move(parts);
  return out;
}

std::vector<std::int32_t> values_of(const TensorSource& source, std::int64_t begin, std::int64_t end) {
  std::vector<std::byte> scratch;
  const auto bytes = source.elements(source.entry("view"), begin, end, scratch);
  std::vector<std::int32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(ViewedSource, PutsColumnsOfTwoPartsTogether) {
  const auto left = std::make_shared<Counting>(std::vector<std::int64_t>{3, 2});
  const auto right = std::make_shared<Counting>(std::vector<std::int64_t>{3, 1});
  const ViewedSource view("dir",
                          {viewed({3, 3}, {{left.get(), &left->numbers(), 3, 2, 0, 2, 0, 3},
                                           {right.get(), &right->numbers(), 3, 1, 0, 1, 2, 3}})},
                          {left, right});
  EXPECT_EQ(view.file_count(), 2u);
  EXPECT_THAT(values_of(view, 0, 9), ElementsAre(0, 1, 0, 2, 3, 1, 4, 5, 2));
  const auto all = values_of(view, 0, 9);
  for (std::int64_t begin = 0; begin < 9; ++begin)
    for (std::int64_t end = begin; end <= 9; ++end)
      EXPECT_EQ(values_of(view, begin, end),
                std::vector<std::int32_t>(all.begin() + begin, all.begin() + end))
          << begin << " to " << end;
}

TEST(ViewedSource, ReordersRowsAndTransposes) {
  const auto from = std::make_shared<Counting>(std::vector<std::int64_t>{4, 2});
  const ViewedSource rows("dir",
                          {viewed({4, 2}, {{from.get(), &from->numbers(), 2, 2, 0, 4, 0, 2},
                                           {from.get(), &from->numbers(), 2, 2, 2, 4, 4, 2}})},
                          {from});
  EXPECT_THAT(values_of(rows, 0, 8), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  std::vector<ViewedPart> columns;
  for (std::int64_t c = 0; c < 2; ++c)
    columns.push_back({from.get(), &from->numbers(), 4, 1, c, 2, c * 4, 1});
  const ViewedSource turned("dir", {viewed({2, 4}, columns)}, {from});
  EXPECT_THAT(values_of(turned, 0, 8), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_THAT(values_of(turned, 3, 5), ElementsAre(6, 1));
}

TEST(ViewedSource, RefusesPartsThatDoNotFit) {
  const auto from = std::make_shared<Counting>(std::vector<std::int64_t>{4, 2});
  const auto refused = [&](const ViewedPart& part, const char* message) {
    EXPECT_THAT(
        [&] {
          ViewedSource("dir", {viewed({4, 2}, {part})}, {from});
        },
        ThrowsMessage<DataError>(HasSubstr(message)));
  };
  refused({from.get(), &from->numbers(), 1, 7, 0, 0, 0, 0}, "has 7 elements in its parts");
  refused({from.get(), &from->numbers(), 1, 8, 1, 0, 0, 0}, "does not fit");
  refused({from.get(), &from->numbers(), 2, 4, 0, std::int64_t{1} << 62, 0, 4}, "does not fit");
}

}  // namespace
}  // namespace stoa::ckpt
