// Fuzz target of the checkpoints of other programs: files of one rank, and archives of NeMo. As a test it
// runs over seeds and their mutations for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/test_paths.h"
#include "ckpt/torch/torch_tree.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "foreign/checkpoint/rank_files.h"

namespace stoa::foreign {
namespace {

// Anything may be refused, with an Error; what is accepted can be read.
void open_any(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> copy(data, data + size);
  try {
    const auto tree =
        std::make_shared<const ckpt::torch::TorchTree>(std::as_bytes(std::span(copy)), std::string("fuzz"));
    const ForeignCheckpoint found = open_rank_trees("fuzz", {{"mp_rank_00", tree}}, {});
    std::vector<std::byte> scratch;
    for (const ckpt::TensorEntry* entry : found.weights->entries())
      if (entry->elements() < 100'000) found.weights->all_elements(*entry, scratch);
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace stoa::foreign

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::foreign::open_any(data, size);
  return 0;
}
#else
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/philox.h"
#include "base/test_folder.h"

namespace stoa::foreign {
namespace {

// Up to four edits of the beginning of a file, where its pickle is.
class Mutations {
 public:
  explicit Mutations(const char* name) : key_(philox_key(2024, RandomPurpose::kTest, name)) {}

  std::string of(const std::string& seed) {
    const std::string tokens[] = {"J\x00\x00\x00\x80",   "K\x00", "N", "\x88", "\x89", "}", "]", "h\x05",
                                  std::string(4, '\xff')};
    std::string text = seed;
    for (std::size_t edits = 1 + below(4); edits-- > 0;) {
      const std::size_t at = below(std::min<std::size_t>(text.size(), 12'000));
      if (below(2) == 0)
        text[at] = static_cast<char>(below(256));
      else
        text.replace(at, 1, tokens[below(std::size(tokens))]);
    }
    return text;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(philox_word(key_, draw_++) % n); }

 private:
  const PhiloxKey key_;
  std::uint64_t draw_ = 0;
};

bool goes_on(std::size_t runs, std::chrono::steady_clock::time_point start) {
  return runs < 100 || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1000);
}

TEST(ForeignCheckpointFuzz, SeedsAndMutations) {
  const std::string seed = read_text(test::source_dir() /
                                     "tests/fixtures/megatron_training/gpt_ranks/iter_0000002/mp_rank_00_000/"
                                     "model_optim_rng.pt");
  Mutations mutations("foreign checkpoints");
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t runs = 0; goes_on(runs, start); ++runs) {
    const std::string text = runs == 0 ? seed : mutations.of(seed);
    ASSERT_NO_THROW(open_any(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  }
}

// One file of each run is another than DeepSpeed's or Megatron's.
TEST(ForeignCheckpointFuzz, FoldersOfSeveralFiles) {
  const fs::path seeds = test::source_dir() / "tests/fixtures/deepspeed";
  for (const char* form : {"zero2", "zero3", "universal_zero3", "../megatron_training/moe_distrib_optim"}) {
    const TestFolder scratch;
    fs::copy(seeds / form, scratch.path(), fs::copy_options::recursive);
    std::vector<std::pair<fs::path, std::string> > files;
    for (const auto& item : fs::recursive_directory_iterator(scratch.path()))
      if (item.path().extension() == ".pt") files.emplace_back(item.path(), read_text(item.path()));
    std::sort(files.begin(), files.end());
    Mutations mutations(form);
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t runs = 0; goes_on(runs, start); ++runs) {
      const auto& [path, seed] = files[mutations.below(files.size())];
      write_text(path, mutations.of(seed));
      try {
        const ForeignCheckpoint found = open_foreign(scratch.path());
        std::vector<std::byte> elements;
        for (const ckpt::TensorSource* source :
             {found.weights.get(), found.state ? found.state->exp_avg.get() : nullptr})
          if (source)
            for (const ckpt::TensorEntry* entry : source->entries()) source->all_elements(*entry, elements);
      } catch (const Error&) {
      }
      write_text(path, seed);
    }
  }
}

}  // namespace
}  // namespace stoa::foreign
#endif
