// Text as people have it: other encodings, Windows line ends, compressed.
#include <gmock/gmock.h>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class Text : public Workplace {
 protected:
  // As Windows' editors save it: UTF-16 with a mark, "\r\n".
  static std::string for_windows(const std::string& ascii) {
    std::string out = "\xff\xfe";
    for (const char c : ascii) {
      if (c == '\n') out += std::string("\r\0", 2);
      out += c;
      out += '\0';
    }
    return out;
  }
};

TEST_F(Text, OfAnyEncodingGivesTheSameTokenizerAndTokens) {
  const std::string text = pseudo_prose(3, 2000) + "\n\n" + pseudo_prose(4, 2000) + "\n";
  write_text(path("plain.txt"), text);
  write_text(path("windows.txt"), for_windows(text));
  std::map<std::string, std::string> tokenizers, tokens;
  for (const std::string name : {"plain", "windows"}) {
    const Outcome trained =
        stoa_ok({"tokenizer", "train", name + ".txt", "--vocab-size", "400", "--output", name});
    const Outcome prepared = stoa_ok({"data", "prepare", name + ".txt", "--tokenizer", name, "--output",
                                      name + "-data", "--text-split", "paragraph"});
    tokenizers[name] = read_text(path(name + "/tokenizer.json"));
    tokens[name] = read_text(path(name + "-data.bin"));
    if (name == "plain") continue;
    for (const std::string& said : {trained.err, prepared.err})
      EXPECT_THAT(said, HasSubstr("'windows.txt' is read as UTF-16LE, Windows line endings as \"\\n\""));
  }
  EXPECT_EQ(tokenizers["plain"], tokenizers["windows"]);
  EXPECT_EQ(tokens["plain"], tokens["windows"]);
  EXPECT_EQ(stoa_ok({"data", "text", "windows.txt"}).out, text);
}

TEST_F(Text, WrongBytesAreNamedWithTheirPlace) {
  write_text(path("torn.txt"), pseudo_prose(3, 100) + " \xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f \xe9\n");
  const std::size_t place = read_text(path("torn.txt")).size() - 2;
  for (const Arguments& arguments :
       {Arguments{"data", "prepare", "torn.txt", "--tokenizer", "tok", "--output", "other"},
        Arguments{"tokenizer", "train", "torn.txt", "--vocab-size", "300", "--output", "other"}}) {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr("'torn.txt' byte " + std::to_string(place) + ": 0xe9 is not UTF-8"));
    EXPECT_FALSE(fs::exists(path("other")));
    EXPECT_EQ(stoa(arguments + Arguments{"--encoding", "bytes"}).exit_code, 0);
    std::error_code ignored;
    fs::remove_all(path("other"), ignored);
  }
}

}  // namespace
}  // namespace stoa::e2e
