#include "curate/language/fasttext_trainer.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/philox.h"
#include "base/test_folder.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

// Texts of two kinds that share most words: what differs are a few words, and their order.
std::string kind_of_text(bool letter, std::uint64_t number) {
  const PhiloxKey key = philox_key(number, RandomPurpose::kTest, letter ? "letter" : "list");
  const char* shared[] = {"the", "ferry", "of", "harbour", "and", "boats", "in"};
  const char* own[2][3] = {{"price", "item", "cart"}, {"yesterday", "we", "saw"}};
  std::string text;
  for (std::uint64_t i = 0; i < 30; ++i) {
    if (i > 0) text += i % 7 == 0 ? '\n' : ' ';
    text += philox_word(key, i) % 5 == 0 ? own[letter][philox_word(key, 100 + i) % 3]
                                         : shared[philox_word(key, 200 + i) % 7];
  }
  return text;
}

FastTextTrainer trainer_of(const ClassifierOptions& options) {
  FastTextTrainer trainer(options);
  for (std::uint64_t i = 0; i < 200; ++i)
    trainer.add(i % 2 == 0 ? "letter" : "list", kind_of_text(i % 2 == 0, i));
  return trainer;
}

TEST(FastTextTrainer, LearnsAndWritesWhatTheReaderReads) {
  const TestFolder folder;
  for (const std::int32_t maxn : {0, 3}) {
    ClassifierOptions options;
    options.buckets = 2000;
    options.epochs = 40;
    options.rate = 0.5;
    options.maxn = maxn;
    options.minn = maxn > 0 ? 2 : 0;
    FastTextTrainer trainer = trainer_of(options);
    EXPECT_EQ(trainer.examples(), 200);
    const FastTextModel model = trainer.train();
    FastTextTrainer::write(model, folder / "a.bin");
    FastTextTrainer::write(trainer_of(options).train(), folder / "b.bin");
    EXPECT_EQ(read_text(folder / "a.bin"), read_text(folder / "b.bin"));
    const FastTextModel read(folder / "a.bin");
    EXPECT_EQ(read.labels(), model.labels());
    int right = 0;
    std::vector<float> here, there;
    for (std::uint64_t i = 1000; i < 1100; ++i) {
      const std::string text = kind_of_text(i % 2 == 0, i);
      model.predict(text, here);
      read.predict(text, there);
      EXPECT_EQ(here, there);
      right += (here[0] > here[1]) == (i % 2 == 0);
    }
    EXPECT_GE(right, 95);
  }
}

TEST(FastTextTrainer, AQuantisedModelIsAnEighthAndSaysTheSame) {
  const TestFolder folder;
  ClassifierOptions options;
  options.buckets = 5000;
  options.epochs = 40;
  options.rate = 0.5;
  options.dim = 15;  // the last stretch is shorter
  FastTextTrainer::write(trainer_of(options).train(), folder / "whole.bin");
  options.quantize = true;
  const FastTextModel model = trainer_of(options).train();
  FastTextTrainer::write(model, folder / "codes.ftz");
  FastTextTrainer::write(trainer_of(options).train(), folder / "again.ftz");
  EXPECT_EQ(read_text(folder / "codes.ftz"), read_text(folder / "again.ftz"));
  EXPECT_LT(fs::file_size(folder / "codes.ftz"), fs::file_size(folder / "whole.bin") / 5);
  const FastTextModel whole(folder / "whole.bin"), read(folder / "codes.ftz");
  std::vector<float> said, wanted, here;
  int same = 0;
  for (std::uint64_t i = 1000; i < 1100; ++i) {
    const std::string text = kind_of_text(i % 2 == 0, i);
    read.predict(text, said);
    model.predict(text, here);
    whole.predict(text, wanted);
    EXPECT_EQ(said, here);
    same += (said[0] > said[1]) == (wanted[0] > wanted[1]);
  }
  EXPECT_GE(same, 97);
}

TEST(FastTextTrainer, RareWordsShareRowsAndOneLabelIsRefused) {
  ClassifierOptions options;
  options.word_ngrams = 1;
  options.min_count = 1000;
  const TestFolder folder;
  FastTextTrainer::write(trainer_of(options).train(), folder / "m.bin");
  EXPECT_LT(fs::file_size(folder / "m.bin"), 2000u);  // hardly a word, and no buckets that nothing would use
  FastTextTrainer one(options);
  one.add("only", "text");
  EXPECT_THROW(one.train(), DataError);
}

}  // namespace
}  // namespace stoa::curate
