#include "ckpt/quantised/packed_matrix.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fp8.h"
#include "ckpt/convert.h"

namespace stoa::ckpt {

std::vector<std::string> MatrixTensors::present(std::initializer_list<const char*> names) const {
  std::vector<std::string> out;
  for (const char* name : names)
    if (has(name)) out.push_back(full(name));
  return out;
}

void MatrixTensors::wrong(const char* name, std::string_view expected) const {
  const TensorEntry& found = entry(name);
  fail<DataError>("tensor '{}' is {} {}, expected {}", found.name, name_of(found.type), found.shape_text(),
                  expected);
}

const TensorEntry& MatrixTensors::entry(const char* name, StorageType type,
                                        std::initializer_list<std::int64_t> shape) const {
  const TensorEntry& found = entry(name);
  bool fits = found.type == type && found.shape.size() == shape.size();
  std::string expected;
  std::size_t i = 0;
  for (const std::int64_t size : shape) {
    fits = fits && (size < 0 || found.shape[i] == size);
    expected += (i++ ? ", " : "") + (size < 0 ? std::string("?") : std::to_string(size));
  }
  if (!fits) wrong(name, fmt::format("{} [{}]", name_of(type), expected));
  return found;
}

std::vector<std::byte> MatrixTensors::bytes(const char* name) const {
  std::vector<std::byte> scratch;
  const auto found = source_.all_elements(entry(name), scratch);
  return {found.begin(), found.end()};
}

std::vector<float> MatrixTensors::numbers(const char* name) const {
  const TensorEntry& tensor = entry(name);
  const auto data = bytes(name);
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  if (tensor.type == StorageType::kF8E4M3) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      e4m3 value;
      value.bits = std::to_integer<std::uint8_t>(data[i]);
      out[i] = static_cast<float>(value);
    }
    return out;
  }
  const auto type = memory_type(tensor.type);
  if (!type || !is_float(*type)) wrong(name, "floating-point numbers");
  convert_elements(data.data(), *type, reinterpret_cast<std::byte*>(out.data()), DType::kF32,
                   tensor.elements());
  return out;
}

std::vector<std::int32_t> MatrixTensors::integers(const char* name) const {
  const TensorEntry& tensor = entry(name);
  const auto data = bytes(name);
  std::vector<std::int32_t> out(static_cast<std::size_t>(tensor.elements()));
  if (tensor.type == StorageType::kI32) {
    std::memcpy(out.data(), data.data(), data.size());
  } else if (tensor.type == StorageType::kI64) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::int64_t value;
      std::memcpy(&value, data.data() + i * sizeof value, sizeof value);
      out[i] = static_cast<std::int32_t>(value);
    }
  } else {
    wrong(name, "I32 or I64");
  }
  return out;
}

}  // namespace stoa::ckpt
