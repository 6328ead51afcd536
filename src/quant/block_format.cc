#include "quant/block_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "quant/block_bytes.h"
#include "quant/formats.h"

namespace stoa::quant {
namespace {

// Plain numbers are blocks of one.
template <class T>
void decode_number(const std::byte* block, float* out) {
  *out = static_cast<float>(load<T>(block));
}
template <class T>
void encode_number(const float* x, const float*, std::byte* block) {
  store(block, static_cast<T>(*x));
}
template <class T>
constexpr BlockFormat plain(BlockType type, std::string_view name) {
  return {type, name, 1, sizeof(T), decode_number<T>, encode_number<T>};
}

const std::vector<BlockFormat>& table() {
  static const std::vector<BlockFormat> formats{plain<float>(BlockType::kF32, "F32"),
                                                plain<f16>(BlockType::kF16, "F16"),
                                                plain<bf16>(BlockType::kBF16, "BF16"),
                                                plain<double>(BlockType::kF64, "F64"),
                                                kQ4_0Format,
                                                kQ4_1Format,
                                                kQ5_0Format,
                                                kQ5_1Format,
                                                kQ8_0Format,
                                                kQ2_KFormat,
                                                kQ3_KFormat,
                                                kQ4_KFormat,
                                                kQ5_KFormat,
                                                kQ6_KFormat,
                                                kQ8_KFormat,
                                                kIQ4_NLFormat,
                                                kIQ4_XSFormat,
                                                kMXFP4Format,
                                                kNVFP4Format,
                                                kTQ1_0Format,
                                                kTQ2_0Format};
  return formats;
}

// What files may have, too.
struct OtherType {
  std::uint32_t number;
  std::string_view name;
};
constexpr std::array<OtherType, 15> kNotRead{{{9, "Q8_1"},
                                              {16, "IQ2_XXS"},
                                              {17, "IQ2_XS"},
                                              {18, "IQ3_XXS"},
                                              {19, "IQ1_S"},
                                              {21, "IQ3_S"},
                                              {22, "IQ2_S"},
                                              {24, "I8"},
                                              {25, "I16"},
                                              {26, "I32"},
                                              {27, "I64"},
                                              {29, "IQ1_M"},
                                              {41, "Q1_0"},
                                              {42, "Q2_0"},
                                              {4, "Q4_2, which GGML gave up"}}};

std::vector<std::string> names_of_formats() {
  std::vector<std::string> names;
  for (const auto& format : table()) names.emplace_back(format.name);
  return names;
}

std::string list_of_formats() {
  std::string out;
  for (const auto& name : names_of_formats()) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace

std::span<const BlockFormat> block_formats() { return table(); }

const BlockFormat& format_of(BlockType type) {
  for (const auto& format : table())
    if (format.type == type) return format;
  fail<InternalError>("a block type without a format");
}

const BlockFormat& block_format(std::uint32_t number) {
  for (const auto& format : table())
    if (static_cast<std::uint32_t>(format.type) == number) return format;
  for (const auto& other : kNotRead)
    require<DataError>(other.number != number, "type {} ({}) is not read; those that are: {}", number,
                       other.name, list_of_formats());
  fail<DataError>("type {} is none of GGUF's", number);
}

const BlockFormat& block_format(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const auto& format : table())
    if (format.name == upper) return format;
  fail<DataError>("'{}' is no format of numbers{}; known: {}", name, did_you_mean(upper, names_of_formats()),
                  list_of_formats());
}

void decode_numbers(const BlockFormat& format, const std::byte* row, std::int64_t begin, std::int64_t count,
                    float* out) {
  std::array<float, 256> whole;
  for (const std::int64_t end = begin + count; begin < end;) {
    const std::int64_t first = begin / format.numbers * format.numbers;
    const std::byte* block = row + begin / format.numbers * format.bytes;
    const std::int64_t taken = std::min(end, first + format.numbers) - begin;
    if (taken == format.numbers) {
      format.decode(block, out);
    } else {
      format.decode(block, whole.data());
      std::copy_n(whole.data() + (begin - first), taken, out);
    }
    begin += taken;
    out += taken;
  }
}

void encode_numbers(const BlockFormat& format, const float* numbers, std::int64_t count, const float* weights,
                    std::byte* out) {
  require<InternalError>(format.encode != nullptr && count % format.numbers == 0,
                         "{} numbers are not written as {}", count, format.name);
  for (std::int64_t i = 0; i < count; i += format.numbers, out += format.bytes)
    format.encode(numbers + i, weights ? weights + i : nullptr, out);
}

}  // namespace stoa::quant
