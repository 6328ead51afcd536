// Rows of labelled text. Ids are those of Hugging Face's tokenizers 0.23.3 with truncation to 12 tokens.
#include "run/labelled_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "run/question_windows.h"
#include "run/tag_spans.h"

namespace stoa::run {
namespace {

using data::LabelValue;
using testing::ElementsAre;

const data::LabelledSource kSource{"x.jsonl", 7};

token::Tokenizer bert() {
  return token::Tokenizer::load(STOA_SOURCE_DIR "/tests/fixtures/token/bert/tokenizer.json");
}

TEST(LabelledRows, PairsAreCutAsHuggingFaceCutsThem) {
  const token::Tokenizer tokenizer = bert();
  model::BertConfig config;
  config.labels = {"no", "yes"};
  const RowEncoder encoder(tokenizer, config, 12);
  const std::string longer = "a light under seven trees and much more than that is";
  auto row =
      encoder.text({"the river and the stone", "a light under seven trees", LabelValue("yes")}, kSource);
  EXPECT_THAT(row.tokens, ElementsAre(2, 560, 51, 386, 398, 3, 34, 287, 723, 563, 587, 3));
  EXPECT_THAT(row.token_types, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1));
  ASSERT_EQ(row.labels.size(), 1u);
  EXPECT_EQ(row.labels[0].token, 0);
  EXPECT_EQ(row.labels[0].label, 1);
  row = encoder.text({"the", longer, {}}, kSource);
  EXPECT_THAT(row.tokens, ElementsAre(2, 560, 3, 34, 287, 723, 563, 587, 300, 398, 586, 3));
  row = encoder.text({longer, "the", {}}, kSource);
  EXPECT_THAT(row.tokens, ElementsAre(2, 34, 287, 723, 563, 587, 300, 398, 586, 3, 560, 3));
  row = encoder.text({longer, {}, {}}, kSource);
  EXPECT_THAT(row.tokens, ElementsAre(2, 34, 287, 723, 563, 587, 300, 398, 586, 53, 616, 3));
  EXPECT_EQ(row.file, "x.jsonl");
  EXPECT_EQ(row.line, 7);
}

TEST(LabelledRows, WordsHaveTheLabelOnTheirFirstToken) {
  const token::Tokenizer tokenizer = bert();
  model::BertConfig config;
  config.labels = {"O", "X"};
  const RowEncoder encoder(tokenizer, config, 10);
  // "trees" has several tokens; the last word has no room.
  const data::LabelledWords words{{"the", "trees", "\u200b", "under", "trees", "trees", "trees", "seven"},
                                  std::vector<LabelValue>{1, 0, 1, 1, 0, 0, 0, 1}};
  const auto encoded = encoder.words(words, kSource);
  EXPECT_LE(encoded.row.tokens.size(), 10u);
  EXPECT_EQ(encoded.row.tokens.front(), 2);
  EXPECT_EQ(encoded.row.tokens.back(), 3);
  EXPECT_EQ(encoded.first[0], 1);
  EXPECT_EQ(encoded.first[2], -1);  // no token
  EXPECT_EQ(encoded.first.back(), -1);
  std::size_t labelled = 0;
  for (const std::int32_t token : encoded.first) labelled += token >= 0;
  EXPECT_EQ(encoded.row.labels.size(), labelled);
  EXPECT_EQ(encoded.row.labels[0].label, 1);
}

TEST(LabelledRows, LabelsBeyondTheClassesAreRefused) {
  EXPECT_THROW(data::label_number(LabelValue(std::int64_t{2}), {"a", "b"}, kSource), DataError);
  EXPECT_THROW(data::label_number(LabelValue(std::int64_t{-1}), {"a", "b"}, kSource), DataError);
  EXPECT_THROW(data::label_number(LabelValue("c"), {"a", "b"}, kSource), DataError);
  EXPECT_THROW(data::parse_labelled_words(R"({"words": ["a", "b"], "tags": ["O"]})", kSource), DataError);
  EXPECT_THROW(data::parse_labelled_text(R"({"text": 3})", kSource), DataError);
  EXPECT_THROW(data::parse_labelled_text(R"({"text": "a", "label": 0.5})", kSource), DataError);
}

TEST(QuestionWindows, OverlapAndKnowTheirPieces) {
  const token::Tokenizer tokenizer = bert();
  const model::BertConfig config;
  const RowEncoder encoder(tokenizer, config, 14);
  // "trees," is a word and a mark; é counts as one character.
  data::LabelledQuestion question = data::parse_labelled_question(
      R"({"question": "the stone", "context": "é the river, and the seven trees.",
        "answers": {"text": ["the seven"], "answer_start": [17]}})",
      kSource);
  ASSERT_TRUE(question.labelled);
  EXPECT_EQ(question.context.substr(question.answers[0].begin, 9), "the seven");
  const EncodedQuestion encoded = encode_question(encoder, 3, question, kSource);
  ASSERT_GE(encoded.windows.size(), 2u);
  std::size_t answered = 0;
  std::vector<std::int32_t> seen;
  for (const QuestionWindow& w : encoded.windows) {
    EXPECT_LE(w.row.tokens.size(), 14u);
    EXPECT_EQ(w.row.tokens[static_cast<std::size_t>(w.first) - 1], 3);  // [SEP]
    EXPECT_EQ(w.row.token_types[static_cast<std::size_t>(w.first)], 1);
    ASSERT_EQ(w.row.labels.size(), 1u);
    seen.insert(seen.end(), w.piece.begin(), w.piece.end());
    const std::int32_t from = w.row.labels[0].label, to = w.row.second_label;
    if (from == 0) {
      EXPECT_EQ(to, 0);
      continue;
    }
    ++answered;
    const auto piece = [&](std::int32_t token) {
      return encoded.pieces[static_cast<std::size_t>(w.piece[static_cast<std::size_t>(token - w.first)])];
    };
    EXPECT_EQ(question.context.substr(piece(from).begin, piece(to).end - piece(from).begin), "the seven");
  }
  EXPECT_GE(answered, 1u);
  EXPECT_EQ(*std::max_element(seen.begin(), seen.end()),
            static_cast<std::int32_t>(encoded.pieces.size()) - 1);
}

TEST(QuestionWindows, AnswersThatAreNotThereAreRefused) {
  const auto parse = [](const std::string& answers) {
    return data::parse_labelled_question(R"({"question": "q", "context": "abc", "answers": )" + answers + "}",
                                         kSource);
  };
  EXPECT_TRUE(parse(R"({"text": [], "answer_start": []})").answers.empty());
  EXPECT_THROW(parse(R"({"text": ["b"], "answer_start": [2]})"), DataError);
  EXPECT_THROW(parse(R"({"text": ["b"], "answer_start": [9]})"), DataError);
  EXPECT_THROW(parse(R"({"text": ["b"], "answer_start": []})"), DataError);
  EXPECT_THROW(parse(R"(["b"])"), DataError);
}

TEST(QuestionWindows, BestSpanEndsWhereItMay) {
  // Ends best at 0, begins best at 2: a span does not end before it begins.
  const std::vector<float> logits{0, 9, 1, 1, 5, 0, 0, 3};
  const SpanChoice all = best_span(logits, 0, 4), later = best_span(logits, 1, 3);
  EXPECT_EQ(all.first, 0);
  EXPECT_EQ(all.last, 0);
  EXPECT_EQ(later.first, 2);
  EXPECT_EQ(later.last, 3);
  EXPECT_EQ(later.score, 8);
}

// Sang and De Meulder 2003: an I- after another type begins a span.
TEST(TagSpans, AreThoseOfConll) {
  const std::vector<std::string> labels{"O", "B-A", "I-A", "B-B", "I-B"};
  EXPECT_TRUE(are_span_tags(labels));
  EXPECT_FALSE(are_span_tags({"noun", "verb"}));
  const std::vector<std::int32_t> tags{1, 2, 1, 0, 4, 4, 2, 0, 0, 3};
  EXPECT_THAT(tag_spans(tags, labels), ElementsAre(TagSpan{0, 2, "A"}, TagSpan{2, 3, "A"}, TagSpan{4, 6, "B"},
                                                   TagSpan{6, 7, "A"}, TagSpan{9, 10, "B"}));
}

}  // namespace
}  // namespace stoa::run
