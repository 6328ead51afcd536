// Rows of labelled text. Ids are those of Hugging Face's tokenizers 0.23.3 with truncation to 12 tokens.
#include "infer/labelled_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/test_paths.h"
#include "infer/question_windows.h"
#include "infer/tag_spans.h"

namespace stoa::infer {
namespace {

using data::LabelValue;
using ::testing::ElementsAre;

const data::LabelledSource kSource{"x.jsonl", 7};

token::Tokenizer bert() {
  return token::Tokenizer::load(test::source_dir() / "tests/fixtures/token/bert/tokenizer.json");
}

TEST(LabelledRows, PairsAreCutAsHuggingFaceCutsThem) {
  const token::Tokenizer tokenizer = bert();
  model::ModelConfig config;
  config.kind = model::ModelKind::kBert;
  config.task.labels = {"no", "yes"};
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
  model::ModelConfig config;
  config.kind = model::ModelKind::kBert;
  config.task.labels = {"O", "X"};
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

// A decoder reads what the tokenizer's files put around a text, and its last token has seen all others.
TEST(LabelledRows, ADecoderHasItsLabelOnTheLastToken) {
  const token::Tokenizer tokenizer = bert();
  model::ModelConfig config;
  config.task.labels = {"no", "yes"};
  const RowEncoder encoder(tokenizer, config, 12);
  const auto row = encoder.text({"the river and the stone", {}, LabelValue("yes")}, kSource);
  ASSERT_EQ(row.tokens.size(), 12u);  // [CLS] and [SEP], as the files say
  EXPECT_EQ(row.tokens.back(), 3);
  EXPECT_EQ(row.labels.at(0).token, 11);
  EXPECT_EQ(encoder.text_token(row), 11);
  EXPECT_THAT(row.token_types, ::testing::Each(0));
}

TEST(LabelledRows, LabelsBeyondTheClassesAreRefused) {
  EXPECT_THROW(data::label_number(LabelValue(std::int64_t{2}), {"a", "b"}, kSource), DataError);
  EXPECT_THROW(data::label_number(LabelValue(std::int64_t{-1}), {"a", "b"}, kSource), DataError);
  EXPECT_THROW(data::label_number(LabelValue("c"), {"a", "b"}, kSource), DataError);
  EXPECT_THROW(data::parse_labelled_words(R"({"words": ["a", "b"], "tags": ["O"]})", kSource), DataError);
  EXPECT_THROW(data::parse_labelled_text(R"({"text": 3})", kSource), DataError);
  EXPECT_THROW(data::label_number(LabelValue(0.5), {"a", "b"}, kSource), DataError);
}

std::string text_of(const data::LabelledQuestion& question, EncodedQuestion::Bytes bytes) {
  return question.context.substr(bytes.begin, bytes.end - bytes.begin);
}

// XLM-R: SentencePiece's pieces, <s> A </s></s> B </s>.
token::Tokenizer xlm_roberta() {
  token::TokenizerSpec spec = token::parse_tokenizer_json(R"({"version": "1.0", "added_tokens": [
      {"id": 0, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
    "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "</s>", "type_id": 0}}],
      "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "</s>", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
               {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
                         "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}},
    "model": {"type": "Unigram", "unk_id": 3, "vocab": [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0],
      ["<unk>", 0.0], ["\u2581", -5.5], ["\u2581the", -3.0], ["\u2581tree", -4.0], ["s", -4.5], [",", -3.5],
      [".", -3.6], ["\u2581seven", -5.0], ["\u6771", -6.0], ["\u4eac", -6.1], ["\u306b", -6.2], ["'", -6.3]]}})");
  spec.cls = "<s>", spec.sep = "</s>";
  return token::Tokenizer(std::move(spec));
}

TEST(LabelledRows, PairsOfXlmRobertaHaveTwoSeparators) {
  const token::Tokenizer tokenizer = xlm_roberta();
  model::ModelConfig config;
  config.kind = model::ModelKind::kBert;
  const RowEncoder encoder(tokenizer, config, 10);
  const auto row = encoder.text({"the trees", "seven.", {}}, kSource);
  EXPECT_THAT(row.tokens, ElementsAre(0, 5, 6, 7, 2, 2, 10, 9, 2));
  EXPECT_LE(encoder.text({"the trees trees trees", "the seven.", {}}, kSource).tokens.size(), 10u);
}

// The context is encoded as one text: a mark has no blank before it.
TEST(QuestionWindows, OfXlmRobertaAreWhatItsTokenizerMakesOfTheText) {
  const token::Tokenizer tokenizer = xlm_roberta();
  model::ModelConfig config;
  config.kind = model::ModelKind::kBert;
  RowEncoder encoder(tokenizer, config, 20);
  const auto check = [&](const std::string& context, std::size_t start, const std::string& answer,
                         const std::string& words, const std::vector<token::TokenId>& tokens) {
    const nlohmann::json line = {{"question", "the"},
                                 {"context", context},
                                 {"answers", {{"text", {answer}}, {"answer_start", {start}}}}};
    const auto question = data::parse_labelled_question(line.dump(), kSource);
    const EncodedQuestion encoded = encode_question(encoder, 8, question, kSource);
    ASSERT_EQ(encoded.windows.size(), 1u);
    const QuestionWindow& w = encoded.windows[0];
    std::vector<token::TokenId> expected{0, 5, 2, 2};
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(2);
    EXPECT_EQ(w.row.tokens, expected) << context;
    EXPECT_EQ(text_of(question, encoded.answer(w, w.row.labels[0].label, w.row.second_label)), words);
  };
  check("the trees, the seven.", 4, "trees", "trees", {5, 6, 7, 8, 5, 10, 9});
  check("the trees, the seven.", 15, "seven", "seven", {5, 6, 7, 8, 5, 10, 9});
  check("the tree's trees", 4, "tree's", "tree's", {5, 6, 14, 7, 6, 7});
  check("the tree's trees", 11, "tree", "trees", {5, 6, 14, 7, 6, 7});  // whole words
  // Without blanks between words a character is as good as a word.
  check("\u6771\u4eac\u306b trees", 0, "\u6771\u4eac", "\u6771\u4eac", {4, 11, 12, 13, 6, 7});
}

TEST(QuestionWindows, OverlapAndKnowTheirBytes) {
  const token::Tokenizer tokenizer = bert();
  model::ModelConfig config;
  config.kind = model::ModelKind::kBert;
  RowEncoder encoder(tokenizer, config, 14);
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
  std::set<std::size_t> seen;
  for (const QuestionWindow& w : encoded.windows) {
    EXPECT_LE(w.row.tokens.size(), 14u);
    EXPECT_EQ(w.row.tokens[static_cast<std::size_t>(w.first) - 1], 3);  // [SEP]
    EXPECT_EQ(w.row.token_types[static_cast<std::size_t>(w.first)], 1);
    ASSERT_EQ(w.row.labels.size(), 1u);
    for (std::int32_t t = 0; t < w.count; ++t) seen.insert(w.from + static_cast<std::size_t>(t));
    const std::int32_t from = w.row.labels[0].label, to = w.row.second_label;
    if (from == 0) {
      EXPECT_EQ(to, 0);
      continue;
    }
    ++answered;
    EXPECT_EQ(text_of(question, encoded.answer(w, from, to)), "the seven");
  }
  EXPECT_GE(answered, 1u);
  EXPECT_EQ(seen.size(), encoded.tokens.size());
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
}  // namespace stoa::infer
