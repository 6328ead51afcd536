#include "token/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <numeric>

#include "token/encoder.h"
#include "token/test_support.h"

namespace stoa::token {
namespace {

std::vector<TokenId> bytes_as_ids() {
  std::vector<TokenId> ids(256);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// Lowest rank first, leftmost first, by the book.
std::vector<TokenId> naive(std::string_view word, std::span<const Merge> merges) {
  std::vector<TokenId> ids;
  for (const char c : word) ids.push_back(static_cast<std::uint8_t>(c));
  while (true) {
    std::size_t best = merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      for (std::size_t r = 0; r < best; ++r) {
        if (merges[r].left == ids[i] && merges[r].right == ids[i + 1]) best = r, at = i;
      }
    }
    if (best == merges.size()) return ids;
    ids[at] = merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// Random merges over a small alphabet; `ordered`: parts always exist before they are merged.
std::vector<Merge> random_merges(test::Random& random, std::size_t count, bool ordered) {
  std::vector<Merge> merges;
  const auto part = [&](std::size_t known) -> TokenId {
    const std::size_t i = random.below(4 + known);
    return static_cast<TokenId>(i < 4 ? 'a' + i : 256 + i - 4);
  };
  while (merges.size() < count) {
    const std::size_t known = ordered ? merges.size() : count;
    const Merge m{part(known), part(known), static_cast<TokenId>(256 + merges.size())};
    bool fresh = true;
    for (const Merge& o : merges) fresh = fresh && (o.left != m.left || o.right != m.right);
    if (fresh) merges.push_back(m);
  }
  return merges;
}

TEST(Bpe, AllWaysGiveWhatTheDefinitionGives) {
  test::Random random(7);
  for (int table = 0; table < 40; ++table) {
    const bool ordered = table % 2 == 0;
    const auto merges = random_merges(random, 30, ordered);
    const Bpe bpe(bytes_as_ids(), merges);
    EXPECT_TRUE(!ordered || bpe.ascending());
    MergeScratch scratch;
    for (int n = 0; n < 50; ++n) {
      std::string word(random.below(n < 40 ? 48 : 300), 'a');
      for (char& c : word) c = static_cast<char>('a' + random.below(4));
      const auto expected = naive(word, merges);
      std::vector<TokenId> found;
      bpe.encode(word, scratch, found);
      EXPECT_EQ(found, expected) << word;
      found.clear();
      bpe.encode_heap(word, scratch, found);
      EXPECT_EQ(found, expected) << word;
      if (!bpe.ascending()) continue;
      found.clear();
      bpe.encode_buckets(word, scratch, found);
      EXPECT_EQ(found, expected) << word;
    }
  }
}

TEST(Bpe, ATableWithTwoWaysToOneTokenIsNotAscending) {
  const std::vector<Merge> merges = {
      {'a', 'b', 256}, {'b', 'c', 257}, {256, 'c', 258}, {258, 'd', 259}, {'a', 257, 258}};
  EXPECT_FALSE(Bpe(bytes_as_ids(), merges).ascending());
}

TEST(Bpe, TheLaterOfTwoEqualPairsCounts) {
  const std::vector<Merge> merges = {{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 256}};
  MergeScratch scratch;
  std::vector<TokenId> ids;
  Bpe(bytes_as_ids(), merges).encode("abc", scratch, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{'a', 257}));
}

// Processor time: another program's does not count.
double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// One word of a megabyte takes at most a few times what a word of an eighth takes per byte.
TEST(Bpe, TimeIsLinearInTheLengthOfAWord) {
  const auto tokenizer = Tokenizer::load(test::fixture("gpt2"));
  Encoder encoder(tokenizer);
  test::Random random(3);
  for (const int kind : {0, 1, 2}) {
    const auto seconds = [&](std::size_t size) {
      std::string text(size, kind == 0 ? 'a' : ' ');
      if (kind == 2) {
        for (char& c : text) c = "etaoinshrdlu"[random.below(12)];
      }
      double best = 1e9;
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<TokenId> ids;
        const double start = thread_seconds();
        encoder.encode(text, {}, ids);
        best = std::min(best, thread_seconds() - start);
        EXPECT_EQ(tokenizer.decode(ids), text);
      }
      return best;
    };
    EXPECT_LT(seconds(std::size_t{1} << 20), 8 * 6 * seconds(std::size_t{1} << 17)) << "kind " << kind;
  }
}

}  // namespace
}  // namespace stoa::token
