// Figures of vectors on known values: of scipy, and of trec_eval's definitions by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/test_folder.h"
#include "eval/embeddings/correlation.h"
#include "eval/embeddings/ranking.h"
#include "eval/embeddings/sentence_pairs.h"

namespace stoa::eval {
namespace {

using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::ThrowsMessage;

TEST(EmbeddingFigures, CorrelationsAreThoseOfScipy) {
  const std::vector<double> a{1, 2, 2, 4}, b{1, 3, 2, 4}, same{5, 5, 5, 5};
  EXPECT_NEAR(pearson(a, b), 0.923380516876627, 1e-12);
  EXPECT_NEAR(spearman(a, b), 0.9486832980505138, 1e-12);
  EXPECT_THAT(mean_ranks(a), ElementsAre(1, 2.5, 2.5, 4));
  EXPECT_TRUE(std::isnan(pearson(a, same)));
  EXPECT_TRUE(std::isnan(spearman(same, b)));
}

TEST(EmbeddingFigures, DistancesCountAgainstASimilarity) {
  const std::vector<float> first{1, 0, 0, 2, 3, 3}, second{1, 0, 1, 2, -3, 3};
  const auto found = agreements(first, second, 2, std::vector<double>{3, 2, 1});
  EXPECT_EQ(found.size(), 4U);
  for (const char* name : {"cosine", "euclidean", "manhattan"})
    EXPECT_NEAR(found.at(name).spearman, 1, 1e-12) << name;
  EXPECT_NEAR(found.at("dot").spearman, 0.5, 1e-12);  // 1, 4, 0
}

TEST(EmbeddingFigures, RanksAreJudgedAsByTrecEval) {
  const Grades grades{{"d1", 2}, {"d2", 1}, {"d7", 3}, {"d9", 0}};
  const std::vector<RankedDocument> ranked{{"d3", 0.9F}, {"d1", 0.8F}, {"d9", 0.7F}, {"d2", 0.6F}};
  const std::vector<std::int64_t> cuts{1, 3, 5};
  const auto found = ranking_figures(ranked, grades, cuts);
  for (const char* name : {"ndcg@1", "map@1", "recall@1", "precision@1", "mrr@1"})
    EXPECT_EQ(found.at(name), 0) << name;
  const double gain = 2 / std::log2(3), best = 3 + gain + 0.5;
  EXPECT_NEAR(found.at("ndcg@3"), gain / best, 1e-12);
  EXPECT_NEAR(found.at("ndcg@5"), (gain + 1 / std::log2(5)) / best, 1e-12);
  EXPECT_NEAR(found.at("map@3"), 0.5 / 3, 1e-12);
  EXPECT_NEAR(found.at("map@5"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(found.at("recall@5"), 2.0 / 3, 1e-12);
  EXPECT_NEAR(found.at("precision@5"), 0.4, 1e-12);
  EXPECT_EQ(found.at("mrr@5"), 0.5);
  // Nothing is relevant, or nothing was found.
  EXPECT_EQ(ranking_figures(ranked, {{"d3", 0}}, cuts).at("ndcg@5"), 0);
  EXPECT_EQ(ranking_figures({}, grades, cuts).at("recall@5"), 0);
}

TEST(EmbeddingFigures, TheBestOfManyDocumentsAreKept) {
  WorkerPool pool(2);
  Ranking ranking({1, 0, 0, 1}, 2, 3, pool);
  for (int group = 0; group < 5; ++group) {
    std::vector<std::string> ids;
    std::vector<float> vectors;
    for (int i = 0; i < 4; ++i) {
      const int n = group * 4 + i;
      ids.push_back("d" + std::to_string(10 + n));
      vectors.push_back(static_cast<float>(n % 7));  // of the first query: 6 at 6 and 13, 5 at 5, 12 and 19
      vectors.push_back(-static_cast<float>(n));
    }
    ranking.show(ids, vectors);
  }
  const auto ids_of = [&](std::size_t query) {
    std::vector<std::string> out;
    for (const RankedDocument& document : ranking.best(query)) out.push_back(document.id);
    return out;
  };
  EXPECT_THAT(ids_of(0), ElementsAre("d23", "d16", "d29"));  // equal ones: the larger id first
  EXPECT_THAT(ids_of(1), ElementsAre("d10", "d11", "d12"));
}

TEST(SentencePairs, AreReadInTheirForms) {
  const TestFolder folder;
  const auto pairs = [&](const std::string& name, const std::string& text) {
    write_text(folder.path() / name, text);
    return read_sentence_pairs(folder.path() / name);
  };
  const auto expect = [](const std::vector<SentencePair>& read) {
    ASSERT_EQ(read.size(), 2U);
    EXPECT_EQ(read[0].first, "a \"plane\"");
    EXPECT_EQ(read[0].second, "one, two");
    EXPECT_EQ(read[0].score, 4.5);
    EXPECT_EQ(read[1].score, 0);
  };
  expect(pairs("glue.tsv",
               "index\tsentence1\tsentence2\tscore\r\n0\ta \"plane\"\tone, two\t4.500\r\n1\tb\tc\t0\r\n"));
  expect(pairs("sts-test.csv",
               "main\tf\t2012\t1\t4.5\ta \"plane\"\tone, two\nmain\tf\t2012\t2\t0\tb\tc\tlicence\n"));
  expect(pairs("hub.jsonl",
               "{\"score\": 4.5, \"sentence1\": \"a \\\"plane\\\"\", \"sentence2\": \"one, two\"}\n"
               "{\"score\": 0, \"sentence1\": \"b\", \"sentence2\": \"c\"}\n"));
  expect(pairs("commas.csv", "sentence1,sentence2,label\n\"a \"\"plane\"\"\",\"one, two\",4.5\nb,c,0\n"));
  const auto refuses = [&](const std::string& name, const std::string& text, const char* words) {
    EXPECT_THAT([&] { pairs(name, text); }, ThrowsMessage<DataError>(HasSubstr(words))) << text;
  };
  refuses("a.tsv", "sentence1\tsentence2\tscore\na\tb\tc\nd\te\t1\n",
          "a.tsv:2: the score 'c' is not a number");
  refuses("b.tsv", "sentence1\tsentence2\tscore\na\tb\n", "b.tsv:2: 2 columns, expected at least 3");
  refuses("c.tsv", "text\tother\n", "expected columns sentence1, sentence2 and score");
  refuses("d.tsv", "sentence1\tsentence2\tscore\na\tb\t1\n", "1 pairs of sentences, expected at least 2");
  refuses("e.jsonl", "{\"sentence1\": 1, \"sentence2\": \"b\", \"score\": 1}\n",
          "a sentence that is not text");
}

}  // namespace
}  // namespace stoa::eval
