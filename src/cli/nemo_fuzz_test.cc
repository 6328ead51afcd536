// Fuzz target of NeMo 1.x's files: any bytes are read or refused with an Error. As a test it runs over seeds
// (the public files of tests/fixtures/nemo) and mutations of them for a second; tests/slow/fuzz.sh runs it
// with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/schema.h"
#include "config/yaml.h"
#include "foreign/nemo/nemo_file.h"

namespace stoa::cli {
namespace {

void read_nemo_bytes(std::string_view bytes) {
  try {
    const config::Node root = config::parse_yaml(bytes, "fuzz");
    if (!root.is_map()) return;
    (void)foreign::is_nemo(root);
    for (const auto purpose : {foreign::Purpose::kPlan, foreign::Purpose::kTrain}) {
      const std::string changes[] = {"training.model.micro_batch_size=2", "data_dir=/d"};
      try {
        (void)read_nemo_run_config(root, changes, purpose);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace stoa::cli

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::cli::read_nemo_bytes({reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::cli {
namespace {

TEST(FuzzNemo, SeedsAndMutations) {
  std::vector<std::string> seeds;
  for (const auto& entry :
       nlohmann::json::parse(read_text(test::source_dir() / "tests/fixtures/nemo/corpus.json")))
    seeds.push_back(config::write_yaml(config::parse_yaml(entry["values"].dump(), "seed")));
  for (std::size_t i = 0; i < seeds.size(); i += 8) read_nemo_bytes(seeds[i]);
  std::mt19937 random(7);
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  constexpr std::string_view kBytes = "\"'$(){}[]=#\\|&:, \n-?*!\0\xFF";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int runs = 0; runs < 20 || std::chrono::steady_clock::now() < end; ++runs) {
    std::string text = seeds[pick(seeds.size())];
    for (std::size_t changes = 1 + pick(4); changes > 0; --changes) {
      const std::size_t at = pick(text.size());
      if (pick(2) == 0)
        text[at] = kBytes[pick(kBytes.size())];
      else
        text.insert(at, text.substr(at, 1 + pick(std::min<std::size_t>(40, text.size() - at))));
    }
    read_nemo_bytes(text);
  }
}

}  // namespace
}  // namespace stoa::cli
#endif
