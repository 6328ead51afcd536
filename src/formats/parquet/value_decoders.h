// Encodings of the levels and values in pages (apache/parquet-format, Encodings.md). Each decoder walks over
// bytes that must outlive it; DataError where they end too soon or make no sense.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/parquet/schema.h"

namespace stoa::parquet {

// One value of a leaf: which member counts depends on its physical type.
struct Value {
  std::int64_t integer = 0;  // booleans, int32, int64; int96 as nanoseconds since 1970
  double real = 0;           // float, double
  std::string_view bytes;    // lives until the decoder's next value
};

// Numbers of parquet.thrift's Encoding.
enum class Encoding : std::int32_t {
  kPlain = 0,
  kPlainDictionary = 2,
  kRunLength = 3,
  kBitPacked = 4,
  kDeltaIntegers = 5,
  kDeltaLengths = 6,
  kDeltaTexts = 7,
  kRunLengthDictionary = 8,
  kSplitBytes = 9,
};

// Numbers of `width` <= 32 bits, in runs of one number and packed groups of eight.
class RunLengthDecoder {
 public:
  RunLengthDecoder() = default;
  RunLengthDecoder(std::string_view bytes, int width);
  std::uint32_t next();

 private:
  void next_run();

  std::string_view bytes_;
  int width_ = 0;
  std::uint64_t left_ = 0;  // numbers of the current run
  bool packed_ = false;
  std::uint32_t value_ = 0;  // of a run
  std::string_view group_;   // packed numbers
  std::uint64_t bit_ = 0;    // in group_
};

class ValueDecoder {
 public:
  virtual ~ValueDecoder() = default;
  virtual Value next() = 0;
};

// `count` values at most, of the leaf's type. `dictionary`: of the column, null if it has none.
std::unique_ptr<ValueDecoder> decode_values(std::string_view bytes, Encoding encoding, const Node& leaf,
                                            std::int64_t count, const std::vector<Value>* dictionary);

}  // namespace stoa::parquet
