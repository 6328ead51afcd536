// Files other than tokenizer.json: vocab.json and merges.txt by class, .tiktoken, tekken.json,
// tokenizer_config.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "token/test_support.h"
#include "token/tokenizer_texts.h"

namespace stoa::token {
namespace {

using Ids = std::vector<TokenId>;
using ::testing::HasSubstr;

template <class Body>
std::string refused_with(Body&& body) {
  try {
    body();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "accepted";
}

// vocab.json and merges.txt with some special tokens after the vocabulary of the GPT-2 fixture.
void write_pair(const fs::path& folder, const std::vector<std::string>& special) {
  const auto file = test::read_json(test::fixture("gpt2/tokenizer.json"));
  auto vocab = file["model"]["vocab"];
  for (const auto& token : special) vocab[token] = vocab.size();
  write_text(folder / "vocab.json", vocab.dump());
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : file["model"]["merges"])
    merges += merge.is_string() ? merge.get<std::string>() + "\n"
                                : merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  write_text(folder / "merges.txt", merges);
}

TEST(VocabFiles, TheClassSaysHowTextsAreCut) {
  const TestFolder d;
  write_pair(d.path(), {"<s>", "</s>", "<mask>"});
  const auto size = static_cast<TokenId>(Tokenizer::load(d.path()).vocab_size());
  const auto with_class = [&](const char* name) {
    write_text(d.path() / "tokenizer_config.json", nlohmann::json{{"tokenizer_class", name}}.dump());
    return Tokenizer::load(d.path());
  };
  const auto plain = with_class("GPT2Tokenizer");
  EXPECT_EQ(plain.encode("a1234", {.add_special = true}), plain.encode("a1234"));
  for (const char* name : {"RobertaTokenizer", "RobertaTokenizerFast", "BartTokenizer"}) {
    const auto roberta = with_class(name);
    const Ids ids = roberta.encode("Hello <mask>.", {.add_special = true});
    EXPECT_EQ(ids.front(), size - 3) << name;
    EXPECT_EQ(ids.back(), size - 2);
    // The mask stands for a word with its blank.
    EXPECT_EQ(ids[ids.size() - 3], size - 1);
    EXPECT_EQ(roberta.decode(Ids(ids.begin() + 1, ids.end() - 3)), "Hello");
    EXPECT_EQ(roberta.mask_id(), size - 1);
  }
  const auto qwen = with_class("Qwen2Tokenizer");
  EXPECT_EQ(qwen.spec().split, SplitPattern::kQwen2);
  EXPECT_EQ(qwen.encode("e\u0301"), plain.encode("\u00e9"));  // NFC
  EXPECT_THAT(refused_with([&] { with_class("XLMTokenizer"); }), HasSubstr("XLMTokenizer"));
  EXPECT_THAT(refused_with([&] { with_class("WhisperTokenizer"); }), HasSubstr("silently give wrong ids"));
}

TEST(VocabFiles, TokensThatOnlyTheLegacyFilesName) {
  const TestFolder d;
  write_pair(d.path(), {"<s>", "<mask>", "<turn>"});
  const auto size = static_cast<TokenId>(Tokenizer::load(d.path()).vocab_size());
  write_text(d.path() / "added_tokens.json",
             nlohmann::json{{"<|im_start|>", size}, {"boat", size + 1}}.dump());
  write_text(d.path() / "special_tokens_map.json",
             R"({"bos_token": {"content": "<s>", "lstrip": false, "rstrip": false, "normalized": true},
                 "mask_token": {"content": "<mask>", "lstrip": true, "rstrip": false, "normalized": false},
                 "additional_special_tokens": ["<turn>", "<|im_start|>"]})");
  const Tokenizer tokenizer = Tokenizer::load(d.path());
  EXPECT_EQ(tokenizer.encode("<s><turn> <mask><|im_start|>boat"),
            (Ids{size - 3, size - 1, size - 2, size, size + 1}));
  // Special or not, as the map says.
  EXPECT_EQ(tokenizer.decode(Ids{size, size + 1}, {.skip_special = true}), "boat");
  const TestFolder saved;
  tokenizer.save(saved.path());
  EXPECT_EQ(Tokenizer::load(saved.path()).fingerprint(), tokenizer.fingerprint());

  write_text(d.path() / "added_tokens.json", R"({"<|im_start|>": -4})");
  EXPECT_THAT(refused_with([&] { Tokenizer::load(d.path()); }),
              HasSubstr("added_tokens.json gives '<|im_start|>' the id -4; expected a number below"));
  write_text(d.path() / "added_tokens.json", R"({"<|im_start|>": 7})");
  EXPECT_THAT(refused_with([&] { Tokenizer::load(d.path()); }), HasSubstr("which the vocabulary gives to"));
}

TEST(VocabFiles, NumbersBeyond64BitsAreNoError) {
  const TestFolder d;
  fs::copy(test::fixture("gpt2/tokenizer.json"), d.path() / "tokenizer.json");
  write_text(d.path() / "tokenizer_config.json",
             R"({"model_max_length": 1000000000000000019884624838656, "eos_token": "<|endoftext|>"})");
  const auto tokenizer = Tokenizer::load(d.path());
  EXPECT_EQ(tokenizer.eos_id(), 0);
  EXPECT_FALSE(tokenizer.spec().model_max_length.has_value());
}

TEST(VocabFiles, AddedBlanksBesideTokensThatSwallowThem) {
  auto file = test::read_json(test::fixture("gpt2/tokenizer.json"));
  const auto size = static_cast<TokenId>(file["model"]["vocab"].size());
  const auto added = [&](TokenId id, const char* content, bool left, bool right) {
    return nlohmann::json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", left},
                          {"rstrip", right}, {"normalized", false}, {"special", false}};
  };
  file["added_tokens"].push_back(added(size, "<R>", false, true));
  file["added_tokens"].push_back(added(size + 1, " ", true, true));
  const auto both = Tokenizer::from_json(file.dump());
  EXPECT_EQ(both.encode("<R>   "), (Ids{size}));  // tokenizers: [<R>] alone
  EXPECT_EQ(both.encode("   <R>"), (Ids{size + 1, size}));
  file["added_tokens"].back()["rstrip"] = false;
  EXPECT_EQ(Tokenizer::from_json(file.dump()).encode("<R>   "), (Ids{size}));
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<std::uint8_t>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * j) & 63];
  }
  return out;
}

// All bytes and some words, in rank order.
std::vector<std::string> ranked() {
  std::vector<std::string> out;
  for (int b = 0; b < 256; ++b) out.emplace_back(1, static_cast<char>(b));
  for (const char* word : {"aa", "he", "ll", "hell", "hello", " he", "aaa", "\n\n", "12"})
    out.emplace_back(word);
  return out;
}

std::string tiktoken_file() {
  std::string out;
  const auto tokens = ranked();
  for (std::size_t i = 0; i < tokens.size(); ++i) out += base64(tokens[i]) + " " + std::to_string(i) + "\n";
  return out;
}

TEST(Tiktoken, ReadsRanksAndCutsByTheKnownOrGivenPattern) {
  const TestFolder d;
  write_text(d.path() / "cl100k_base.tiktoken", tiktoken_file());
  const auto t = Tokenizer::load(d.path());
  EXPECT_EQ(t.spec().split, SplitPattern::kCl100k);
  // tiktoken.Encoding with these ranks.
  EXPECT_EQ(t.encode("hello"), (Ids{260}));
  EXPECT_EQ(t.encode("aaaa"), (Ids{256, 256}));
  EXPECT_EQ(t.encode(" hello"), (Ids{32, 260}));
  EXPECT_EQ(t.encode("1234"), (Ids{264, 51, 52}));
  EXPECT_EQ(t.encode("a\n\n"), (Ids{97, 263}));
  EXPECT_EQ(t.encode("a<|endoftext|>"), (Ids{97, 100257}));
  EXPECT_EQ(t.decode(t.encode("caf\u00e9 \xFF!")), "caf\u00e9 \xFF!");
  // Of few tokens: the ids of cl100k's special tokens lie too far beyond them.
  write_text(d.path() / "r50k_base.tiktoken", tiktoken_file());
  const auto few = Tokenizer::load(d.path() / "r50k_base.tiktoken");
  const TestFolder copy;
  few.save(copy.path());
  EXPECT_EQ(read_text(copy.path() / "r50k_base.tiktoken"), tiktoken_file());
  EXPECT_EQ(Tokenizer::load(copy.path()).fingerprint(), few.fingerprint());

  const TestFolder other;
  write_text(other.path() / "mine.tiktoken", tiktoken_file());
  EXPECT_THAT(refused_with([&] { Tokenizer::load(other.path()); }), HasSubstr("pat_str"));
  write_text(other.path() / "tokenizer_config.json", R"({"pat_str": "\\p{L}{1,2}+|[^\\p{L}]"})");
  const auto mine = Tokenizer::load(other.path());
  EXPECT_EQ(mine.encode("hello"), (Ids{257, 258, 111}));  // he ll o: two letters at a time
  mine.save(copy.path() / "again");
  EXPECT_EQ(Tokenizer::load(copy.path() / "again").fingerprint(), mine.fingerprint());
  // Llama-3's file of ranks has the name of a SentencePiece model.
  const TestFolder llama;
  write_text(llama.path() / "tokenizer.model", tiktoken_file());
  EXPECT_THAT(refused_with([&] { Tokenizer::load(llama.path()); }), HasSubstr("pat_str"));
  write_text(llama.path() / "tokenizer_config.json", R"({"pat_str": "\\p{L}{1,2}+|[^\\p{L}]"})");
  EXPECT_EQ(Tokenizer::load(llama.path()).encode("hello"), (Ids{257, 258, 111}));
  Tokenizer::load(llama.path() / "tokenizer.model").save(copy.path() / "llama");
  EXPECT_EQ(Tokenizer::load(copy.path() / "llama").fingerprint(), mine.fingerprint());
  EXPECT_THAT(refused_with([] { parse_tiktoken("YQ==\n", "r50k_base.tiktoken", ""); }), HasSubstr("line 1"));
  EXPECT_THAT(refused_with([] { parse_tiktoken("YQ== 0\nYg== 0\n", "r50k_base.tiktoken", ""); }),
              HasSubstr("appears twice"));
  EXPECT_THAT(refused_with([] { parse_tiktoken("Y!== 0\n", "r50k_base.tiktoken", ""); }),
              HasSubstr("base64"));
}

TEST(Tekken, ReadsConfigVocabularyAndSpecialTokens) {
  nlohmann::json file = {{"config",
                          {{"pattern", "\\p{L}+|[^\\p{L}]"},
                           {"num_vocab_tokens", 265},
                           {"default_vocab_size", 270},
                           {"default_num_special_tokens", 5},
                           {"version", "v3"}}},
                         {"vocab", nlohmann::json::array()}};
  const auto tokens = ranked();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    file["vocab"].push_back({{"rank", i}, {"token_bytes", base64(tokens[i])}, {"token_str", nullptr}});
  const TestFolder d;
  write_text(d.path() / "tekken.json", file.dump());
  const auto t = Tokenizer::load(d.path());
  EXPECT_EQ(t.vocab_size(), 270);
  EXPECT_EQ(t.encode("hello", {.add_special = true}), (Ids{1, 265}));
  EXPECT_EQ(t.encode("he 1"), (Ids{262, 37, 54}));
  EXPECT_EQ(t.bos_id(), 1);
  EXPECT_EQ(t.eos_id(), 2);
  EXPECT_EQ(t.id_to_token(3), "[INST]");
  const TestFolder copy;
  t.save(copy.path());
  EXPECT_EQ(Tokenizer::load(copy.path()).fingerprint(), t.fingerprint());
  file["special_tokens"] = {{{"rank", 0}, {"token_str", "<unk>"}, {"is_control", true}}};
  EXPECT_EQ(Tokenizer(parse_tekken(file.dump())).id_to_token(4), "<SPECIAL_4>");
  file["config"]["default_vocab_size"] = 999;
  EXPECT_THAT(refused_with([&] { parse_tekken(file.dump()); }), HasSubstr("default_vocab_size"));
}

}  // namespace
}  // namespace stoa::token
