// What a Parquet file says about itself: its footer, read from untrusted bytes (apache/parquet-format,
// parquet.thrift).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/parquet/page_codec.h"

namespace stoa::parquet {

enum class Physical : std::int32_t { kBoolean, kInt32, kInt64, kInt96, kFloat, kDouble, kBytes, kFixedBytes };
enum class Repetition : std::int32_t { kRequired, kOptional, kRepeated };
// What the values mean.
enum class Meaning : std::uint8_t {
  kPlain,
  kText,
  kList,
  kMap,
  kDecimal,
  kDate,
  kTime,
  kTimestamp,
  kUnsigned,
  kUuid,
  kHalf,
};

struct Node {
  std::string name;
  Repetition repetition = Repetition::kRequired;
  Meaning meaning = Meaning::kPlain;
  std::int32_t digits = 0;            // of decimals behind the point; of times: of the fraction (0, 3, 6, 9)
  Physical type = Physical::kBytes;   // of a leaf
  std::int32_t length = 0;            // of fixed bytes
  std::vector<std::size_t> children;  // in Footer::nodes; none: a leaf
  std::size_t first_column = 0, columns = 0;  // the leaves below it
  std::uint32_t definition = 0, repeat = 0;   // levels at which it is there; of its repeated ancestors
};

struct ColumnChunk {
  Codec codec = Codec::kNone;
  std::uint64_t begin = 0, end = 0;  // of its pages in the file
  std::int64_t values = 0;           // nulls included
};

struct RowGroup {
  std::int64_t rows = 0;
  std::vector<ColumnChunk> columns;  // as many as leaves, in their order
};

struct Footer {
  std::vector<Node> nodes;          // the root first
  std::vector<std::size_t> leaves;  // in `nodes`
  std::vector<RowGroup> groups;
};

// The footer of a whole file. DataError: no Parquet file, truncated, encrypted, chunks outside of the file, a
// schema that contradicts itself.
Footer read_footer(std::string_view file);

}  // namespace stoa::parquet
