#include "data/sentences.h"

#include <gtest/gtest.h>

#include <string>

namespace stoa::data {
namespace {

using Texts = std::vector<std::string_view>;

TEST(Sentences, EndAtTheirMarks) {
  EXPECT_EQ(split_sentences("One. Two! Three?  Four"), (Texts{"One.", "Two!", "Three?", "Four"}));
  EXPECT_EQ(split_sentences("He said \"Stop!\" Then left. (So it goes.) End..."),
            (Texts{"He said \"Stop!\"", "Then left.", "(So it goes.)", "End..."}));
  EXPECT_EQ(split_sentences("A line\nthat goes on. Next"), (Texts{"A line\nthat goes on.", "Next"}));
  EXPECT_EQ(split_sentences("Title\n\nText without end"), (Texts{"Title", "Text without end"}));
  EXPECT_EQ(split_sentences("\u4eca\u65e5\u3002\u660e\u65e5\uff01"),
            (Texts{"\u4eca\u65e5\u3002", "\u660e\u65e5\uff01"}));
}

TEST(Sentences, DoNotEndWithinNumbersNamesAndShortForms) {
  for (const char* whole : {"Dr. Smith paid 3.50 to J. Doe, e.g. for tea.", "It was v1.2.3 of it.",
                            "Pears, apples etc. and more.", "What? he asked."})
    EXPECT_EQ(split_sentences(whole), Texts{whole});
}

TEST(Sentences, EmptyTextsHaveNone) {
  EXPECT_TRUE(split_sentences("").empty());
  EXPECT_TRUE(split_sentences(" \n\n ").empty());
}

}  // namespace
}  // namespace stoa::data
