// Fuzz target of files that PyTorch wrote: pickles, zip files and the older format. As a test it runs over
// seeds and their mutations for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_paths.h"
#include "ckpt/torch/torch_file.h"

namespace stoa::ckpt::torch {
namespace {

// Walks a bounded part of the tree: values may be shared and hold themselves.
void walk(const TorchFile* file, const Value& value, int depth, std::size_t& left) {
  if (left == 0 || depth == 0) return;
  --left;
  if (value.described().empty()) throw std::logic_error("a value without a description");
  switch (value.kind()) {
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kSet:
      for (std::size_t i = 0; i < value.size() && left > 0; ++i) walk(file, value[i], depth - 1, left);
      break;
    case ValueKind::kDict:
      for (std::size_t i = 0; i < value.size() && left > 0; ++i) {
        walk(file, value.key(i), depth - 1, left);
        walk(file, value.value(i), depth - 1, left);
      }
      break;
    case ValueKind::kObject:
      walk(file, value.arguments(), depth - 1, left);
      if (const auto state = value.state()) walk(file, *state, depth - 1, left);
      break;
    case ValueKind::kTensor: {
      const TensorValue& tensor = value.tensor();
      if (tensor.elements() < 0) throw std::logic_error("a tensor of a negative size");
      if (!file || tensor.elements() > 100'000) break;
      std::vector<std::byte> scratch;
      unsigned sum = 0;
      for (const std::byte b : file->elements(tensor, 0, tensor.elements(), scratch))
        sum += static_cast<unsigned>(b);
      static_cast<void>(sum);
      break;
    }
    default:
      break;
  }
}

// Anything may be refused, with a DataError; nothing may crash, read beyond the bytes or take memory beyond
// their size by more than a factor.
void read_any(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size: a sanitizer sees the first byte read beyond it.
  const std::vector<std::uint8_t> copy(data, data + size);
  const auto bytes = std::as_bytes(std::span(copy));
  std::size_t left = 10'000;
  try {
    const TorchFile file(bytes, "fuzz");
    file.check_sums();
    walk(&file, file.root(), 20, left);
  } catch (const DataError&) {
  }
  try {
    const Pickle pickle(bytes, "fuzz");
    walk(nullptr, pickle.root(), 20, left);
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::ckpt::torch

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::ckpt::torch::read_any(data, size);
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>

#include "base/philox.h"

namespace stoa::ckpt::torch {
namespace {

TEST(TorchFileFuzz, SeedsAndMutations) {
  std::vector<std::string> seeds;
  for (const char* name : {"values.0.pkl", "values.2.pkl", "values.4.pkl", "tensors.pt",
                           "tensors_protocol_5.pt", "tensors_before_1.6.pt", "module.pt", "script.pt"})
    seeds.push_back(read_text(test::source_dir() / "tests/fixtures/torch" / name));
  const std::string tokens[] = {"(",
                                ")",
                                "]",
                                "}",
                                "t",
                                "R",
                                "b",
                                "u",
                                "e",
                                "q",
                                "h",
                                "Q",
                                "0",
                                "2",
                                "\x85",
                                "\x93",
                                "\x81",
                                "ctorch\nSize\n",
                                "I9223372036854775807\n",
                                "PK\x05\x06",
                                "PK\x01\x02",
                                std::string(4, '\0'),
                                std::string(8, '\xff')};
  const PhiloxKey key = philox_key(2024, RandomPurpose::kTest, "torch files");
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(philox_word(key, draw++) % n); };
  const auto start = std::chrono::steady_clock::now();
  std::size_t runs = 0;
  while (runs < 100 || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1000)) {
    std::string text = seeds[runs % seeds.size()];
    const std::size_t edits = runs < seeds.size() ? 0 : 1 + below(6);
    for (std::size_t i = 0; i < edits && text.size() > 1; ++i) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
          break;
        case 2:
          text.erase(at, 1 + below(8));
          break;
        case 3:
          text.insert(at, tokens[below(std::size(tokens))]);
          break;
        default:
          text.replace(at, 1, tokens[below(std::size(tokens))]);
          break;
      }
    }
    ASSERT_NO_THROW(read_any(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
    ++runs;
  }
}

}  // namespace
}  // namespace stoa::ckpt::torch
#endif
