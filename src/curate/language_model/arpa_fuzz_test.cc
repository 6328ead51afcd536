// ARPA files from anywhere: read or refused; what is read can score.
#include <cstring>

#include "base/error.h"
#include "curate/language_model/ngram_model.h"

namespace stoa::curate {
namespace {

class ArpaText final : public data::ByteSource {
 public:
  explicit ArpaText(std::string_view text) : text_(text) {}
  std::size_t read(char* to, std::size_t bytes) override {
    const std::size_t count = std::min(bytes, text_.size() - at_);
    std::memcpy(to, text_.data() + at_, count);
    at_ += count;
    return count;
  }
  std::uint64_t position() const override { return at_; }

 private:
  const std::string_view text_;
  std::size_t at_ = 0;
};

void read_any_arpa(std::string_view text) {
  try {
    ArpaText source(text);
    const NgramModel model(source, "fuzz");
    constexpr std::string_view kWords[] = {"the", "ferry", "", "<s>", "</s>", "a"};
    if (model.score(kWords).words != 7) __builtin_trap();
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::curate

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  stoa::curate::read_any_arpa({reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>

#include "base/file.h"
#include "base/philox.h"
#include "base/test_paths.h"

namespace stoa::curate {
namespace {

TEST(ArpaFuzz, SeedAndMutations) {
  const std::string whole = read_text(test::source_dir() / "tests/fixtures/curate/ngrams/model.arpa");
  const std::string small =
      "\\data\\\nngram 1=3\nngram "
      "2=1\n\n\\1-grams:\n-1\t<s>\t-0.3\n-1\t</s>\n-0.5\tthe\t-0.2\n\n\\2-grams:\n-0.1\t<s> "
      "the\n\n\\end\\\n";
  const std::string tokens[] = {"\n",
                                "\t",
                                "-",
                                "nan",
                                "inf",
                                "1e999",
                                "<unk>",
                                "\\3-grams:",
                                "\\end\\",
                                "ngram 3=1\n",
                                std::string(1, '\0')};
  const PhiloxKey key = philox_key(2026, RandomPurpose::kTest, "arpa files");
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(philox_word(key, draw++) % n); };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int i = 0; i < 50 || std::chrono::steady_clock::now() < end; ++i) {
    std::string text = i % 20 == 0 ? whole : small;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t at = below(text.size());
      if (below(2) == 0)
        text.insert(at, tokens[below(std::size(tokens))]);
      else
        text.erase(at, 1 + below(8));
      if (text.empty()) text = small;
    }
    read_any_arpa(text);
  }
}

}  // namespace
}  // namespace stoa::curate
#endif
