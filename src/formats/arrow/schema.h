// The columns of Arrow data: what its schema message says (apache/arrow, format/Schema.fbs).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/arrow/flat_table.h"
#include "formats/parquet/schema.h"

namespace stoa::arrow {

// How the values of a column are written in its buffers.
enum class Layout : std::uint8_t {
  kNull,       // no buffer
  kBits,       // validity, one bit for each value
  kFixed,      // validity, `width` bytes for each value
  kBytes,      // validity, offsets of `width` bytes, bytes
  kViews,      // validity, views of 16 bytes, any number of buffers with bytes
  kList,       // validity, offsets of `width` bytes; one child
  kFixedList,  // validity; one child with `width` values for each
  kStruct,     // validity; children
  kMap,        // a list of structures of key and value, written as an object if the keys are texts
};

struct Field {
  std::string name;
  Layout layout = Layout::kNull;
  std::int64_t width = 0;
  bool is_signed = true;
  parquet::Node leaf;  // what the values mean, for append_json_value
  std::vector<Field> children;
  struct Dictionary {
    std::int64_t id = 0;
    std::int64_t width = 4;  // bytes of an index
    bool is_signed = true;
  };
  std::optional<Dictionary> dictionary;  // the column holds numbers of values of a dictionary
};

// DataError: a type that is not read (named), more than 64 levels.
std::vector<Field> read_schema(const FlatTable& schema);

}  // namespace stoa::arrow
