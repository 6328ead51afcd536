#include "data/npy_array.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/error.h"

namespace stoa::data {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};

struct TypeName {
  NpyType type;
  std::string_view descr;
  std::size_t bytes;
};
constexpr std::array<TypeName, 4> kTypes{{{NpyType::kInt16, "<i2", 2},
                                          {NpyType::kInt32, "<i4", 4},
                                          {NpyType::kInt64, "<i8", 8},
                                          {NpyType::kUint32, "<u4", 4}}};

const TypeName& name_of(NpyType type) {
  for (const auto& t : kTypes)
    if (t.type == type) return t;
  fail<InternalError>("unknown array type {}", static_cast<int>(type));
}

// The value that follows "'key': " in the header dictionary, or nothing.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const auto at = header.find(quoted);
  if (at == std::string_view::npos) return {};
  auto rest = header.substr(at + quoted.size());
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  return rest;
}

// "(3,)" or "(4, 2)" -> rows, columns.
std::optional<std::array<std::int64_t, 2>> parse_shape(std::string_view text) {
  if (text.empty() || text.front() != '(') return {};
  text.remove_prefix(1);
  std::array<std::int64_t, 2> shape{0, 1};
  for (std::size_t i = 0; i < 2; ++i) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    if (i == 1 && !text.empty() && text.front() == ')') return shape;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), shape[i]);
    if (error != std::errc{} || shape[i] < 0) return {};
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  }
  if (text.empty() || text.front() != ')') return {};
  return shape;
}

}  // namespace

NpyArray NpyArray::load(const fs::path& path) {
  auto file = std::make_shared<MappedFile>(path);
  const auto text = file->text();
  const auto refuse = [&](std::string_view why) {
    fail<DataError>("'{}' is not an index array: {}", path.string(), why);
  };
  if (text.size() < 10 || text.substr(0, 8) != kMagic) refuse("no .npy header (version 1.0)");
  const std::size_t header_bytes =
      static_cast<std::uint8_t>(text[8]) | static_cast<std::size_t>(static_cast<std::uint8_t>(text[9])) << 8;
  if (text.size() < 10 + header_bytes) refuse("truncated header");
  const auto header = text.substr(10, header_bytes);
  const TypeName* type = nullptr;
  for (const auto& t : kTypes)
    if (value_of(header, "descr").starts_with(fmt::format("'{}'", t.descr))) type = &t;
  if (!type) refuse("its type is none of <i2, <i4, <i8, <u4");
  if (!value_of(header, "fortran_order").starts_with("False")) refuse("fortran order");
  const auto shape = parse_shape(value_of(header, "shape"));
  if (!shape) refuse("its shape is not (n,) or (n, 2)");
  const std::size_t payload = text.size() - 10 - header_bytes;
  const auto [rows, columns] = *shape;
  const auto limit = std::numeric_limits<std::int64_t>::max() / 16;
  if (rows > limit || columns < 1 || columns > 2 ||
      static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(columns) * type->bytes != payload)
    refuse("its size does not match its shape");
  NpyArray array;
  array.data_ = file->bytes().data() + 10 + header_bytes;
  array.size_ = payload;
  array.rows_ = rows;
  array.columns_ = columns;
  array.type_ = type->type;
  array.owner_ = std::move(file);
  return array;
}

void NpyArray::save(const fs::path& path) const {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},{}), }}", name_of(type_).descr,
                  rows_, columns_ == 1 ? std::string() : fmt::format(" {}", columns_));
  // Magic, length and header end on a multiple of 64 bytes, with a newline last (numpy/lib/format.py).
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  AtomicFile file(path);
  file.write(kMagic);
  const unsigned char length[2] = {static_cast<unsigned char>(header.size() & 0xff),
                                   static_cast<unsigned char>(header.size() >> 8)};
  file.write(length, 2);
  file.write(header);
  file.write(data_, size_);
  file.commit();
}

}  // namespace stoa::data
