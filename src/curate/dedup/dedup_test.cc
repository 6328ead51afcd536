#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "curate/dedup/clusters.h"
#include "curate/dedup/record_sorter.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

TEST(RecordSorter, SortsWhatDoesNotFitIntoMemory) {
  std::mt19937_64 random(3);
  std::vector<KeyRecord> records(50'000);
  for (auto& r : records) r = {random() % 1000, random() % 1000};
  const data::TestFolder folder;
  for (const std::size_t memory : {std::size_t{1} << 24, std::size_t{1} << 10}) {
    RecordSorter sorter(folder.path(), memory);
    for (const auto& r : records) sorter.add(r);
    std::vector<KeyRecord> sorted;
    sorter.each([&](const KeyRecord& r) { sorted.push_back(r); });
    EXPECT_EQ(sorter.runs() > 1, memory == 1 << 10);
    ASSERT_EQ(sorted.size(), records.size());
    auto expected = records;
    std::sort(expected.begin(), expected.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      ASSERT_EQ(sorted[i].key, expected[i].key);
      ASSERT_EQ(sorted[i].document, expected[i].document);
    }
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Clusters, JoinedDocumentsShareTheFirstOne) {
  Clusters clusters(6);
  clusters.join(4, 2);
  clusters.join(5, 4);
  clusters.join(0, 3);
  EXPECT_EQ(clusters.root(5), 2U);
  EXPECT_EQ(clusters.root(3), 0U);
  EXPECT_EQ(clusters.root(1), 1U);
  const std::vector<std::uint32_t> lengths = {5, 1, 7, 6, 9, 9};
  EXPECT_THAT(find_removed(clusters, Survivor::kFirst, lengths),
              ::testing::ElementsAre(false, false, false, true, true, true));
  EXPECT_THAT(find_removed(clusters, Survivor::kLongest, lengths),
              ::testing::ElementsAre(true, false, true, false, false, true));
}

}  // namespace
}  // namespace stoa::curate
