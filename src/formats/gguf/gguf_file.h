// A GGUF file: u32 magic, u32 version, u64 tensors, u64 keys; keys with values; for each tensor its name, its
// dimensions, type and offset; padding; the tensors' bytes. All little endian. Read through a memory map and
// validated strictly: what is accepted here can be trusted. What names mean is others' matter.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "formats/gguf/value.h"
#include "quant/block_format.h"

namespace stoa::gguf {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;  // outermost first, as elsewhere; files have it the other way round
  const quant::BlockFormat* format = nullptr;
  std::span<const std::byte> bytes;  // on the map of the file

  std::int64_t numbers() const;
  std::int64_t columns() const { return shape.empty() ? 1 : shape.back(); }  // numbers of a row
};

// One file.
struct Content {
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;
  Keys keys;
  std::vector<Tensor> tensors;  // in the order of the file
};

// Parses and validates a whole file in memory, on which the tensors point. DataError, which names `source`:
// not GGUF, another version or byte order, counts, sizes or offsets beyond the file, a key or tensor given
// twice, a type that is not read, bytes missing. Never reads outside `file`; allocates in proportion to its
// size.
Content parse(std::span<const std::byte> file, std::string_view source);

// Is it one, by its name or its first bytes?
bool is_gguf(const fs::path& path);

// A model's file or, where it is split (NAME-00001-of-00003.gguf), its files.
class File {
 public:
  // IoError: no such file, a part of a split file is missing. DataError: see parse(); parts that do not
  // belong together; a part other than the first.
  explicit File(const fs::path& path);
  // One file in memory, which must live as long.
  File(std::span<const std::byte> bytes, std::string_view source);

  const fs::path& path() const { return path_; }
  std::size_t parts() const { return maps_.empty() ? 1 : maps_.size(); }
  const Keys& keys() const { return first_.keys; }
  const Content& first() const { return first_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::uint64_t tensor_bytes() const;
  const Tensor* find(std::string_view name) const;  // nullptr: not there
  const Value* key(std::string_view name) const;    // nullptr: not there

  // DataError: the key is of another kind. None: there is none.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  const Value* array(std::string_view key, ValueType element) const;
  // And that there is one.
  std::int64_t need_integer(std::string_view key) const;
  std::string need_text(std::string_view key) const;

 private:
  void index();
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;

  fs::path path_;
  std::vector<std::unique_ptr<MappedFile>> maps_;
  Content first_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> tensor_index_, key_index_;
};

}  // namespace stoa::gguf
