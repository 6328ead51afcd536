// Fuzz target of the safetensors reader and the manifest. As a test it runs over seeds and their mutations
// for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "ckpt/safetensors.h"
#include "ckpt/safetensors_writer.h"
#include "ckpt/training_state.h"

namespace stoa::ckpt {
namespace {

// Anything may be refused, with a DataError; nothing may crash or read beyond the bytes. What is accepted
// accounts for every byte, and the layout that the writer makes of it reads back to the same tensors.
void read_once(std::string_view text) {
  try {
    const auto header = parse_safetensors(std::as_bytes(std::span(text.data(), text.size())), "fuzz");
    std::uint64_t position = 0;
    for (const auto& tensor : header.tensors) {
      if (tensor.begin != position || tensor.bytes() != tensor.end - tensor.begin || tensor.elements() < 0)
        throw std::logic_error("an accepted tensor is not where its file says");
      position = tensor.end;
    }
    if (header.data_offset + position != text.size())
      throw std::logic_error("accepted bytes that nobody owns");
    const SafetensorsLayout layout(header.tensors, header.metadata);
    const std::string again = layout.header() + std::string(position, '\0');
    const auto second = parse_safetensors(std::as_bytes(std::span(again)), "again");
    if (second.tensors.size() != header.tensors.size() || second.metadata != header.metadata)
      throw std::logic_error("a written header reads differently");
  } catch (const DataError&) {
  }
  try {
    const Manifest manifest = parse_manifest(text, "fuzz");
    if (manifest_text(parse_manifest(manifest_text(manifest), "again")) != manifest_text(manifest))
      throw std::logic_error("a written manifest reads differently");
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::ckpt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size: a sanitizer sees the first byte read beyond it.
  const std::vector<char> copy(data, data + size);
  stoa::ckpt::read_once({copy.data(), copy.size()});
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>

#include "base/philox.h"

namespace stoa::ckpt {
namespace {

std::string with_length(const std::string& json, std::size_t data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  return out + json + std::string(data, 'x');
}

TEST(SafetensorsFuzz, SeedsAndMutations) {
  const SafetensorsLayout layout({{"a.weight", StorageType::kBF16, {3, 2}, 0, 0},
                                  {"b", StorageType::kF32, {4}, 0, 0},
                                  {"n", StorageType::kI64, {}, 0, 0},
                                  {"empty", StorageType::kF16, {0, 5}, 0, 0}});
  Manifest manifest;
  manifest.files = {{"model/config.json", 3, 5}};
  manifest.training.loss_scale = {65536.0, 0.25};
  manifest.training.metrics = {{"val_loss", 2.5}};
  const std::string seeds[] = {
      layout.header() + std::string(layout.file_bytes() - layout.header().size(), 'x'),
      with_length(R"({"__metadata__":{"format":"pt"}})", 0),
      with_length(R"({"\u00e9\ud83d\ude00":{"dtype":"U8","shape":[2,1,1,1,1,2],"data_offsets":[0,4]}}   )",
                  4),
      with_length(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[],"data_offsets":[8,9]}})",
          9),
      manifest_text(manifest),
  };
  const std::string tokens[] = {"18446744073709551615",
                                "9223372036854775807",
                                "-1",
                                "0",
                                "1e9",
                                "[",
                                "]",
                                "{",
                                "}",
                                "\"",
                                ",",
                                ":",
                                "null",
                                "\"dtype\"",
                                "\"BOOL\"",
                                "\"__metadata__\"",
                                "\\u0000",
                                "\xff",
                                "\xe2\x82",
                                "[0,0]",
                                " "};
  const PhiloxKey key = philox_key(2024, RandomPurpose::kTest, "safetensors");
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(philox_word(key, draw++) % n); };
  const auto start = std::chrono::steady_clock::now();
  std::size_t runs = 0;
  while (runs < 100 || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1000)) {
    std::string text = seeds[runs % std::size(seeds)];
    const std::size_t edits = runs < std::size(seeds) ? 0 : 1 + below(6);
    for (std::size_t i = 0; i < edits && text.size() > 8; ++i) {
      const std::size_t at = below(8) == 0 ? below(8) : 8 + below(text.size() - 8);
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
          text.resize(at);
          break;
      }
    }
    // Half of the time the length is made to fit again, so that the JSON is reached.
    const std::size_t close = text.rfind('}');
    if (below(2) == 0 && text.size() > 8 && close != std::string::npos && close > 8)
      for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>((close - 7) >> (8 * i) & 0xff);
    ASSERT_NO_THROW(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()))
        << text;
    ++runs;
  }
}

}  // namespace
}  // namespace stoa::ckpt
#endif
