// Tokenizers of the SentencePiece library through the commands.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

class SentencePiece : public Workplace {};

TEST_F(SentencePiece, TrainsEncodesDecodesAndFeedsTraining) {
  for (const char* kind : {"unigram", "sentencepiece-bpe"}) {
    const auto trained = json_of({"tokenizer", "train", "text.jsonl", "--kind", kind, "--vocab-size", "60",
                                  "--sentinels", "5", "--output", "pieces", "--json"});
    EXPECT_EQ(trained["vocab_size"], 65) << kind;
    const auto info = json_of({"tokenizer", "info", "--tokenizer", "pieces"});
    EXPECT_EQ(info["sentinels"], 5);
    EXPECT_EQ(info["eos_id"], 1);
    EXPECT_EQ(info["normalizer"], "SentencePiece");
  }
  std::ofstream(path("line.txt")) << "<extra_id_0> and <extra_id_4>\n";
  const Outcome ids = stoa_ok({"tokenizer", "encode", "--tokenizer", "pieces", "--add-special", "line.txt"});
  EXPECT_EQ(ids.out.substr(0, 3), "64 ");
  EXPECT_TRUE(ids.out.ends_with(" 60 1\n")) << ids.out;
  std::ofstream(path("ids.txt")) << ids.out;
  EXPECT_EQ(stoa_ok({"tokenizer", "decode", "--tokenizer", "pieces", "--skip-special", "ids.txt"}).out,
            "and\n");
  stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "pieces", "--output", "piece_data"});
  stoa_ok(train("run", {"model.data=piece_data", "trainer.max_steps=2",
                        "model.tokenizer.library=sentencepiece", "model.tokenizer.model=pieces/spiece.model",
                        "model.tokenizer.num_sentinel_tokens=5", "model.tokenizer.type=null"}));
  EXPECT_TRUE(fs::exists(path("run/checkpoints/latest/model/spiece.model")));
}

class TrainTokenizer : public Workplace {};

TEST_F(TrainTokenizer, CompressedFilesGiveTheVocabularyOfTheirTexts) {
  for (const char* kind : {"bpe", "unigram"}) {
    std::string fingerprint;
    for (const char* command : {"cat text.jsonl > x.jsonl", "gzip -c text.jsonl > x.jsonl.gz"}) {
      ASSERT_EQ(std::system(("cd '" + path("text.jsonl").parent_path().string() + "' && " + command).c_str()),
                0);
      const std::string file =
          std::string(command).find("gzip") == std::string::npos ? "x.jsonl" : "x.jsonl.gz";
      const auto trained =
          json_of({"tokenizer", "train", file, "--kind", kind, "--vocab-size",
                   std::string(kind) == "bpe" ? "300" : "60", "--output", "packed", "--json"});
      if (fingerprint.empty()) fingerprint = trained["fingerprint"].get<std::string>();
      EXPECT_EQ(trained["fingerprint"], fingerprint) << kind << ' ' << file;
    }
  }
  std::ofstream(path("broken.txt.gz")) << "no gzip data";
  EXPECT_NE(stoa({"tokenizer", "train", "broken.txt.gz", "--vocab-size", "300", "--output", "x"}).exit_code,
            0);
}

TEST_F(TrainTokenizer, JsonAsOtherProgramsWriteItGivesTheSameVocabulary) {
  std::istringstream lines(read_text(path("text.jsonl")));
  std::string array = "[\n", with_nan;
  for (std::string line; std::getline(lines, line);) {
    array += (array.size() > 2 ? ",\n" : "") + line;
    with_nan += line.substr(0, line.rfind('}')) + ",\"score\":NaN}\n";
  }
  write_text(path("array.json"), array + "\n]\n");
  write_text(path("nan.jsonl"), with_nan);
  std::string fingerprint;
  for (const char* file : {"text.jsonl", "array.json", "nan.jsonl"}) {
    const auto trained =
        json_of({"tokenizer", "train", file, "--vocab-size", "300", "--output", "packed", "--json"});
    if (fingerprint.empty()) fingerprint = trained["fingerprint"].get<std::string>();
    EXPECT_EQ(trained["fingerprint"], fingerprint) << file;
  }
}

TEST_F(TrainTokenizer, EncodeGivesOffsetsOfTextsThatHoldNewlines) {
  stoa_ok({"tokenizer", "train", "text.jsonl", "--vocab-size", "300", "--output", "tok"});
  std::ofstream(path("line.txt")) << "\"a\\n\u00e9\"\n";
  const auto encoded = json_of(
      {"tokenizer", "encode", "--tokenizer", "tok", "--json", "--offsets", "--json-strings", "line.txt"});
  ASSERT_EQ(encoded["ids"].size(), encoded["offsets"].size());
  EXPECT_EQ(encoded["offsets"].back()[1], 3);
  EXPECT_NE(stoa({"tokenizer", "encode", "--tokenizer", "tok", "--offsets", "line.txt"}).exit_code, 0);
}

TEST_F(SentencePiece, RefusesAVocabularyThatTheTextCannotFill) {
  const Outcome refused = stoa(
      {"tokenizer", "train", "text.jsonl", "--kind", "unigram", "--vocab-size", "90000", "--output", "x"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("cannot train a vocabulary of 90000"), std::string::npos) << refused.text();
  const Outcome both = stoa(train("run", {"model.tokenizer.num_sentinel_tokens=5"}));
  EXPECT_NE(both.err.find("belong to library sentencepiece"), std::string::npos) << both.text();
}

}  // namespace
}  // namespace stoa::e2e
