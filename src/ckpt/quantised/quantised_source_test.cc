// Quantised matrices of Hugging Face directories beside what the reference implementations make of them.
#include "ckpt/quantised/quantised_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "ckpt/tensor_directory.h"

namespace stoa::ckpt {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// tests/oracle/make_quantised_fixtures.py.
fs::path quantised_fixtures() { return test::source_dir() / "tests/fixtures/quantised"; }

nlohmann::json kinds() { return nlohmann::json::parse(read_text(quantised_fixtures() / "kinds.json")); }

TEST(QuantisedSource, ValuesAreThoseOfTheReference) {
  int seen = 0;
  const nlohmann::json all = kinds();
  for (const auto& [kind, config] : all.items()) {
    SCOPED_TRACE(kind);
    EXPECT_TRUE(reads_quantisation(config));
    const QuantisedSource source(std::make_unique<TensorDirectory>(quantised_fixtures(), kind), config,
                                 StorageType::kBF16);
    ASSERT_EQ(source.entries().size(), 2u);  // nothing is left of the parts
    const TensorEntry &found = source.entry("m.weight"), &expected = source.entry("expected");
    EXPECT_EQ(found.shape, expected.shape);
    ASSERT_EQ(name_of(found.type), name_of(expected.type));
    std::vector<std::byte> scratch, other;
    const auto a = source.all_elements(found, scratch), b = source.all_elements(expected, other);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
    // Any range, from within a row too.
    std::vector<std::byte> part;
    const auto piece = source.elements(found, 37, 137, part);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), b.begin() + 74, b.begin() + 274));
    ++seen;
  }
  EXPECT_EQ(seen, 16);
}

// The same files with one tensor of another shape, or without it.
TEST(QuantisedSource, SaysWhatDoesNotFit) {
  const TestFolder directory;
  const auto message = [&](const char* kind, const std::string& changed,
                           std::vector<std::int64_t> shape) -> std::string {
    const TensorDirectory from(quantised_fixtures(), kind);
    std::vector<TensorEntry> entries;
    for (const auto* entry : from.entries())
      if (entry->name != changed || !shape.empty()) {
        entries.push_back(*entry);
        if (entry->name == changed) entries.back().shape = shape;
      }
    fs::remove(directory.path() / (std::string(kind) + ".safetensors"));
    ShardedWriter writer(directory.path(), kind, entries, WriteMode::kInPlace);
    for (const auto& entry : entries) writer.write_bytes(entry.name, std::vector<std::byte>(entry.bytes()));
    writer.commit();
    try {
      const QuantisedSource source(std::make_unique<TensorDirectory>(directory.path(), kind), kinds()[kind],
                                   StorageType::kBF16);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("gptq", "m.qzeros", {2, 3}),
              HasSubstr("'m.qzeros' is I32 [2, 3], expected I32 [2, 4]"));
  EXPECT_THAT(message("gptq", "m.scales", {}), HasSubstr("holds no tensor 'm.scales'"));
  EXPECT_THAT(message("int4_group", "m.weight_shape", {3}), HasSubstr("weight_shape' does not fit"));
  EXPECT_THAT(message("fp8_block", "m.weight_scale_inv", {2, 2}), HasSubstr("every block of [16, 16]"));
  EXPECT_THAT(message("int8", "m.weight_scale", {}), HasSubstr("has no weight_scale"));
  EXPECT_THAT(message("nf4", "m.weight", {5, 1}), HasSubstr("is not a JSON object"));
}

TEST(QuantisedSource, OthersAreNotRead) {
  EXPECT_FALSE(reads_quantisation({{"quant_method", "aqlm"}}));
  EXPECT_TRUE(reads_quantisation({{"load_in_4bit", true}}));
}

}  // namespace
}  // namespace stoa::ckpt
