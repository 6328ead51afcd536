#include "curate/dedup/nemo_minhash.h"

#include <gmock/gmock.h>

#include <random>

namespace stoa::curate {
namespace {

using ::testing::ElementsAre;

std::vector<std::uint64_t> signature(const NemoMinHash& hash, std::string_view text) {
  std::vector<std::uint64_t> out;
  hash.sign(text, out);
  return out;
}

// Functions of which factor and addend are `first`, `first` + 1, …, under the seed 0.
NemoHashFunctions counting(std::uint64_t first) {
  return {0, {first, first + 1, first + 2}, {first, first + 1, first + 2}};
}

// The values are those that cuDF's own tests expect.
TEST(NemoMinHash, SameMinimaAsCudf) {
  NemoMinHashOptions options;
  options.char_ngrams = 4;
  const NemoMinHash narrow(options, counting(10));
  EXPECT_THAT(signature(narrow, "doc 1"), ElementsAre(1392101586u, 394869177u, 811528444u));
  EXPECT_THAT(signature(narrow, "this is doc 2"), ElementsAre(211415830u, 187088503u, 130291444u));
  EXPECT_THAT(signature(narrow, "d"), ElementsAre(2264583304u, 2920538364u, 3576493424u));
  EXPECT_THAT(signature(narrow, "The quick brown fox jumpéd over the lazy brown dog."),
              ElementsAre(253327882u, 41747273u, 302030804u));
  EXPECT_THAT(signature(narrow, "line ten"), ElementsAre(547084870u, 1748895564u, 656501844u));
  EXPECT_THAT(signature(narrow, ""), ElementsAre(0u, 0u, 0u));
  const NemoMinHash from_20(options, counting(20));
  EXPECT_THAT(signature(from_20, std::string(2 << 10, 'x')),
              ElementsAre(1731998032u, 315359380u, 3193688024u));
  options.use_64_bit_hash = true;
  const NemoMinHash wide(options, counting(10));
  EXPECT_THAT(signature(wide, "doc 1"),
              ElementsAre(827364888116975697u, 1601854279692781452u, 70500662054893256u));
  EXPECT_THAT(signature(wide, "The quick brown fox jumpéd over the lazy brown dog."),
              ElementsAre(65816830624808020u, 43323600380520789u, 63511816333816345u));
  const NemoMinHash wide_from_20(options, counting(20));
  EXPECT_THAT(signature(wide_from_20, std::string(2 << 10, 'x')),
              ElementsAre(1818322427062143853u, 641024893347719371u, 1769570368846988848u));
}

// numpy.random.RandomState(42), a pair of randint(1, p), randint(0, p) after another.
TEST(NemoMinHash, FunctionsAreDrawnAsByNumpy) {
  const NemoHashFunctions narrow = draw_nemo_functions({});
  ASSERT_EQ(narrow.factors.size(), 260u);
  EXPECT_EQ(narrow.factors[0], 1608637543u);
  EXPECT_EQ(narrow.addends[0], 1273642419u);
  EXPECT_EQ(narrow.factors[259], 417369880u);
  EXPECT_EQ(narrow.addends[259], 897299057u);
  EXPECT_EQ(narrow.seed, narrow.factors[0]);
  NemoMinHashOptions options;
  options.use_64_bit_hash = true;
  const NemoHashFunctions wide = draw_nemo_functions(options);
  EXPECT_EQ(wide.factors[0], 2297359619001564596u);
  EXPECT_EQ(wide.addends[259], 468858903895078666u);
}

TEST(NemoMinHash, NearCopiesShareABandAndOtherTextsDoNot) {
  const NemoMinHash hash{NemoMinHashOptions{}};
  std::string text;
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) text += "word" + std::to_string(random() % 900) + " ";
  std::string near = text, other = text;
  near[1500] = '#';
  std::reverse(other.begin(), other.end());
  const auto shared = [&](std::string_view a, std::string_view b) {
    std::vector<std::uint64_t> of_a, of_b;
    hash.band_keys(a, of_a);
    hash.band_keys(b, of_b);
    int count = 0;
    for (std::size_t i = 0; i < of_a.size(); ++i) count += of_a[i] == of_b[i];
    return count;
  };
  EXPECT_EQ(shared(text, text), 20);
  EXPECT_GT(shared(text, near), 5);
  EXPECT_EQ(shared(text, other), 0);
}

}  // namespace
}  // namespace stoa::curate
