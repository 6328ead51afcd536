// The values of one column of a row group in order, a page in memory at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/parquet/value_decoders.h"

namespace stoa::parquet {

class ColumnReader {
 public:
  // `file` and `leaf` must outlive it.
  ColumnReader(std::string_view file, const ColumnChunk& chunk, const Node& leaf);

  // Levels of the next entry: at which node above it there is something, and which node it repeats.
  // DataError where the column has ended, or a page is corrupt.
  std::uint32_t definition();
  std::uint32_t repetition();
  bool at_end();
  // Goes beyond the next entry; its value where the definition is that of the leaf.
  Value take();

 private:
  void need();
  bool open_page();  // false at the end

  const std::string_view file_;
  const ColumnChunk chunk_;
  const Node& leaf_;
  std::uint64_t at_;          // in the file
  std::int64_t values_left_;  // of the chunk, beyond this page

  std::string dictionary_bytes_;
  std::vector<Value> dictionary_;
  bool has_dictionary_ = false;

  std::string page_;
  std::int64_t left_ = 0;  // entries of the page
  RunLengthDecoder definitions_, repetitions_;
  std::unique_ptr<ValueDecoder> values_;
  bool known_ = false;  // the next entry's levels:
  std::uint32_t definition_ = 0, repetition_ = 0;
};

}  // namespace stoa::parquet
