// N-gram models: what is estimated is modified Kneser-Ney and sums up to one, and what is scored is what
// KenLM scores (tests/oracle/make_ngram_fixtures.py).
#include "curate/language_model/ngram_model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <span>
#include <sstream>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "curate/language_model/kneser_ney.h"
#include "curate/language_model/model_words.h"
#include "curate/language_model/ngram_scorer.h"
#include "curate/text/space_words.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

using ::testing::HasSubstr;

const fs::path kNgramFolder = test::source_dir() / "tests/fixtures/curate/ngrams";

std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (const SpaceWord& word : split_at_white_space(text)) out.push_back(word.text);
  return out;
}

std::uint64_t train_on(const fs::path& corpus, int order, const fs::path& output,
                       std::uint64_t memory = 1 << 26) {
  KneserNeyTrainer trainer(order, memory, fs::path(output) += ".sort");
  std::istringstream in(read_text(corpus));
  for (std::string line; std::getline(in, line);) trainer.add(pieces_of(line));
  return trainer.write(output).runs;
}

// The lines of an ARPA file, each with its numbers rounded, in any order.
std::multiset<std::string> rounded_lines(const fs::path& path) {
  std::multiset<std::string> out;
  std::istringstream in(read_text(path));
  for (std::string line; std::getline(in, line);) {
    const auto pieces = pieces_of(line);
    if (pieces.empty()) continue;
    std::string rounded;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const bool number =
          line.find('\t') != line.npos &&
          (i == 0 || (i + 1 == pieces.size() && std::count(line.begin(), line.end(), '\t') == 2));
      rounded += number ? fmt::format("{:.4f} ", std::stod(std::string(pieces[i])) + 0.0)
                        : std::string(pieces[i]) + " ";
    }
    out.insert(rounded == "" ? line : rounded);
  }
  return out;
}

TEST(KneserNey, EstimatesAreThoseOfTheFormulas) {
  const TestFolder folder;
  train_on(kNgramFolder / "corpus.txt", 5, folder / "m.arpa");
  const auto expected = rounded_lines(kNgramFolder / "model.arpa"), made = rounded_lines(folder / "m.arpa");
  std::vector<std::string> missing, extra;
  std::set_difference(expected.begin(), expected.end(), made.begin(), made.end(),
                      std::back_inserter(missing));
  std::set_difference(made.begin(), made.end(), expected.begin(), expected.end(), std::back_inserter(extra));
  EXPECT_GT(expected.size(), 1000u);
  // A value that lies between two roundings may fall to either side.
  EXPECT_LE(missing.size(), expected.size() / 500) << missing.front() << "\n"
                                                   << (extra.empty() ? "" : extra.front());
  EXPECT_EQ(missing.size(), extra.size());
}

TEST(KneserNey, SortedOnDiskAModelHasTheSameBytes) {
  const TestFolder folder;
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < 60'000; ++i) {
    const double place = static_cast<double>(random()) * 0x1p-32;
    text += fmt::format("w{}{}", static_cast<int>(400 * place * place * place), i % 11 == 10 ? "\n" : " ");
  }
  write_text(folder / "corpus.txt", text);
  for (const int order : {2, 3, 6}) {
    EXPECT_EQ(train_on(folder / "corpus.txt", order, folder / "held.arpa"), 0U);
    const std::uint64_t runs = train_on(folder / "corpus.txt", order, folder / "sorted.arpa", 200'000);
    EXPECT_GT(runs, order == 2 ? 4U : 100U);
    EXPECT_EQ(read_text(folder / "held.arpa"), read_text(folder / "sorted.arpa"));
    EXPECT_FALSE(fs::exists(folder / "sorted.arpa.sort"));
    fs::remove(folder / "sorted.arpa");
    fs::remove(folder / "held.arpa");
  }
  try {
    train_on(folder / "corpus.txt", 2, folder / "m.arpa", 50'000);
    FAIL() << "the vocabulary does not fit";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("more different words than fit into memory"));
  }
  EXPECT_FALSE(fs::exists(folder / "m.arpa.sort"));
}

TEST(GramSorter, EqualOnesAreAddedUpWhereverTheyWereWritten) {
  const TestFolder folder;
  std::mt19937 random(3);
  std::map<std::array<std::uint32_t, kMostGramWords>, std::uint64_t> expected;
  GramSorter sorter(folder / "runs", 0, true);
  GramSorter rotated(folder / "rotated", 0, false, 2);
  for (int i = 0; i < 300'000; ++i) {
    Gram gram;
    for (const std::size_t place : {0, 1}) gram.words[place] = static_cast<std::uint32_t>(random() % 700);
    gram.count = 1 + random() % 3;
    if (expected[gram.words] == 0) rotated.add(gram);
    expected[gram.words] += gram.count;
    sorter.add(gram);
  }
  auto at = expected.begin();
  sorter.each([&](const Gram& gram) {
    ASSERT_NE(at, expected.end());
    EXPECT_EQ(gram.words, at->first);
    EXPECT_EQ(gram.count, at->second);
    ++at;
  });
  EXPECT_EQ(at, expected.end());
  EXPECT_GT(sorter.runs_written(), 128U) << "also runs of runs";
  std::pair<std::uint32_t, std::uint32_t> before;
  std::size_t seen = 0;
  rotated.each([&](const Gram& gram) {
    const std::pair now(gram.words[1], gram.words[0]);
    EXPECT_TRUE(seen == 0 || before < now);
    before = now;
    ++seen;
  });
  EXPECT_EQ(seen, expected.size());
}

TEST(NgramModel, ScoresAreThoseOfKenLm) {
  const NgramModel model(kNgramFolder / "model.arpa");
  EXPECT_EQ(model.order(), 5);
  std::istringstream in(read_text(kNgramFolder / "kenlm.jsonl"));
  int sentences = 0;
  for (std::string line; std::getline(in, line); ++sentences) {
    const auto expected = nlohmann::json::parse(line);
    const auto text = expected["text"].get<std::string>();
    const auto words = pieces_of(text);
    const auto logarithms = model.logarithms(words);
    ASSERT_EQ(logarithms.size(), expected["scores"].size());
    for (std::size_t i = 0; i < logarithms.size(); ++i)
      EXPECT_NEAR(logarithms[i], expected["scores"][i].get<double>(), 1e-5) << text << " word " << i;
    const auto score = model.score(words);
    EXPECT_NEAR(
        std::pow(10, -score.log10 / static_cast<double>(score.words)) / expected["perplexity"].get<double>(),
        1, 1e-5);
  }
  EXPECT_GE(sentences, 50);
}

// Words are looked up many at a time: what a sentence scores must not depend on what came before it, nor a
// word's logarithm on how many words follow.
TEST(NgramModel, ScoresDoNotDependOnWhatIsLookedUpTogether) {
  const NgramModel model(kNgramFolder / "model.arpa");
  const std::string corpus = read_text(kNgramFolder / "corpus.txt");
  std::vector<std::string_view> words;
  while (words.size() < 1500)
    for (const auto word : pieces_of(corpus)) words.push_back(word);
  const std::span<const std::string_view> all(words);
  const auto sentence = all.subspan(100, 600);
  const double alone = model.score(sentence).log10;
  for (std::size_t before = 0; before < 1100; before += 73) {
    SentenceScores scores(model);
    scores.add(all.first(before));
    scores.add(sentence);
    scores.add({});
    const NgramModel::Score sum = scores.sum();
    EXPECT_EQ(sum.words, static_cast<std::int64_t>(before + 600 + 3));
    EXPECT_NEAR(sum.log10, model.score(all.first(before)).log10 + alone + model.score({}).log10, 1e-8)
        << before << " words before";
  }
  const auto whole = model.logarithms(all);
  const auto end = model.logarithms(sentence);
  EXPECT_EQ(end.size(), 601U);
  for (std::size_t i = 10; i < 600; ++i)  // beyond the longest context
    EXPECT_EQ(end[i], whole[100 + i]) << "word " << i;
}

// After every context, also those that the text does not have.
TEST(NgramModel, ProbabilitiesSumUpToOne) {
  const TestFolder folder;
  train_on(kNgramFolder / "corpus.txt", 4, folder / "m.arpa");
  const NgramModel model(folder / "m.arpa");
  std::set<std::string> vocabulary{"<unk>"};
  const std::string corpus = read_text(kNgramFolder / "corpus.txt");
  for (const auto word : pieces_of(corpus)) vocabulary.emplace(word);
  EXPECT_EQ(model.size(1), vocabulary.size() + 2);
  for (const std::string context : {"", "the", "the ferry", "harbour the", "the the the the", "never seen"}) {
    auto words = pieces_of(context);
    const std::size_t at = words.size();
    double sum = std::pow(10, model.logarithms(words).back());
    words.emplace_back();
    for (const std::string& word : vocabulary) {
      words.back() = word;
      sum += std::pow(10, model.logarithms(words)[at]);
    }
    EXPECT_NEAR(sum, 1, 1e-5) << "after '" << context << "'";
  }
}

TEST(NgramModel, FilesThatAreWrongAreNamedWithTheLine) {
  const TestFolder folder;
  const std::string good =
      "\\data\\\nngram 1=3\nngram "
      "2=1\n\n\\1-grams:\n-1\t<s>\t-0.3\n-1\t</s>\n-0.5\ta\t-0.2\n\n\\2-grams:\n-0.1\t<s> a\n\n\\end\\\n";
  const auto refusal = [&](std::string text, const std::string& what, const std::string& by) {
    if (!what.empty()) text.replace(text.find(what), what.size(), by);
    write_text(folder / "m.arpa", text);
    try {
      const NgramModel model(folder / "m.arpa");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_EQ(refusal(good, "", ""), "read");
  EXPECT_THAT(refusal("hello\n", "", ""), HasSubstr("no ARPA file"));
  EXPECT_THAT(refusal(good, "ngram 2=1", "ngram 2=2"), HasSubstr("1 2-grams where 2 are announced"));
  EXPECT_THAT(refusal(good, "<s> a", "<s> b"), HasSubstr("m.arpa:11: 'b' is no unigram"));
  EXPECT_THAT(refusal(good, "-0.1", "0.1"), HasSubstr("no logarithm of a probability"));
  EXPECT_THAT(refusal(good, "\\end\\\n", ""), HasSubstr("\\end\\ is expected"));
  EXPECT_THAT(refusal(good, "</s>", "<s>"), HasSubstr("'<s>' appears twice"));
  EXPECT_THAT(refusal(good, "\\2-grams", "\\3-grams"), HasSubstr("\\2-grams: is expected"));
  EXPECT_THAT(refusal("mmap lm http://kheafield.com/code format version 5\n" + std::string(3, '\0'), "", ""),
              HasSubstr("a binary of KenLM; give the ARPA file"));
}

// KenLM takes both names for words that are not in the vocabulary; IRSTLM and CMU's toolkit write capitals.
TEST(NgramModel, TheUnknownWordMayBeWrittenInCapitals) {
  const TestFolder folder;
  for (const char* unknown : {"<unk>", "<UNK>"}) {
    write_text(folder / "m.arpa",
               fmt::format("\\data\\\nngram 1=4\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-0.5\ta\n"
                           "-2\t{}\n\n\\end\\\n",
                           unknown));
    const NgramModel model(folder / "m.arpa");
    const std::vector<std::string_view> words{"zebra"};
    EXPECT_FLOAT_EQ(static_cast<float>(model.logarithms(words).front()), -2) << unknown;
  }
}

// Pieces of all lengths, so that white space stands at every place of the blocks that are looked through.
TEST(SpaceWords, AreWhatLiesBetweenWhiteSpaceOfAnyKind) {
  constexpr std::string_view kPieces[] = {" ",      "\n",     "\t\x0b\x0c\r", "\x1c\x1f", "\u0085", "\u00a0",
                                          "\u1680", "\u2003", "\u2028",       "\u3000",   "a",      "Â",
                                          "ሀ",      "‹",      "〈",           "word",     "\x01",   "\x7f",
                                          "🚢",      "\u200b"};
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    std::vector<std::string> expected;
    bool in_word = false;
    for (std::size_t n = random() % 60; n > 0; --n) {
      const std::size_t k = random() % std::size(kPieces);
      text += kPieces[k];
      if (k >= 10 && !in_word) expected.emplace_back();
      if (k >= 10) expected.back() += kPieces[k];
      in_word = k >= 10;
    }
    std::vector<std::string_view> words;
    split_at_white_space(text, words);
    EXPECT_TRUE(std::equal(words.begin(), words.end(), expected.begin(), expected.end())) << text;
  }
}

// tests/oracle/make_ngram_fixtures.py prints what CCNet's text_normalizer gives.
TEST(ModelWords, TextsAreNormalizedAsByCcnet) {
  EXPECT_EQ(ccnet_model_form("  «Été» 1995 – “Où?”… 東京（Tokyo）、50％ "),
            "\"ete\" 0000 - \"ou?\"... 東京(tokyo),00%");
  const ModelWords words({"", true});
  ModelWords::Line line;
  words.split("The FERRY\tleft", line);
  EXPECT_THAT(line.words, ::testing::ElementsAre("the", "ferryleft")) << "control characters go, as in CCNet";
}

}  // namespace
}  // namespace stoa::curate
