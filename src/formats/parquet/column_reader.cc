#include "formats/parquet/column_reader.h"

#include <zlib.h>

#include <bit>
#include <cstring>

#include "base/error.h"
#include "formats/parquet/thrift_compact.h"

namespace stoa::parquet {
namespace {

constexpr std::int64_t kMostValues = std::int64_t{1} << 27;  // in a page

enum PageKind : std::int64_t { kDataPage = 0, kIndexPage = 1, kDictionaryPage = 2, kDataPage2 = 3 };

struct PageHeader {
  std::int64_t kind = -1, bytes = -1, compressed = -1;
  bool has_checksum = false;
  std::uint32_t checksum = 0;
  std::int64_t values = -1, encoding = -1, definition_encoding = 3, repetition_encoding = 3;
  std::int64_t definition_bytes = 0, repetition_bytes = 0;  // of version 2
  bool is_compressed = true;                                // of version 2
};

PageHeader read_page_header(ThriftReader& in) {
  PageHeader out;
  in.each_field([&](const auto& field) {
    const bool is_struct = field.type == ThriftReader::kStruct;
    if (field.id == 1) {
      out.kind = in.number(field);
    } else if (field.id == 2) {
      out.bytes = in.number(field);
    } else if (field.id == 3) {
      out.compressed = in.number(field);
    } else if (field.id == 4) {
      out.has_checksum = true;
      out.checksum = static_cast<std::uint32_t>(in.number(field));
    } else if ((field.id == 5 || field.id == 7) && is_struct) {
      in.each_field([&](const auto& part) {
        std::int64_t* const to = part.id == 1                    ? &out.values
                                 : part.id == 2                  ? &out.encoding
                                 : field.id == 5 && part.id == 3 ? &out.definition_encoding
                                 : field.id == 5 && part.id == 4 ? &out.repetition_encoding
                                                                 : nullptr;
        if (to != nullptr)
          *to = in.number(part);
        else
          in.skip(part.type);
      });
    } else if (field.id == 8 && is_struct) {
      in.each_field([&](const auto& part) {
        std::int64_t* const to = part.id == 1   ? &out.values
                                 : part.id == 4 ? &out.encoding
                                 : part.id == 5 ? &out.definition_bytes
                                 : part.id == 6 ? &out.repetition_bytes
                                                : nullptr;
        if (to != nullptr)
          *to = in.number(part);
        else if (part.id == 7)
          out.is_compressed = in.number(part) != 0;
        else
          in.skip(part.type);
      });
    } else {
      in.skip(field.type);
    }
  });
  return out;
}

std::string_view take_front(std::uint64_t bytes, std::string_view& in) {
  require<DataError>(bytes <= in.size(), "a page ends within its levels");
  const std::string_view out = in.substr(0, bytes);
  in.remove_prefix(bytes);
  return out;
}

std::string_view take_with_length(std::string_view& in) {
  std::uint32_t length = 0;
  std::memcpy(&length, take_front(sizeof length, in).data(), sizeof length);
  return take_front(length, in);
}

// Levels that a column does not have take no bytes, whatever encoding is written for them: parquet-mr (Spark,
// Hive, Impala) and fastparquet name BIT_PACKED there.
void check_level_encoding(std::uint32_t highest_level, std::int64_t encoding) {
  constexpr std::int64_t kRunLengths = 3;
  require<DataError>(highest_level == 0 || encoding == kRunLengths, "levels in encoding {} cannot be read",
                     encoding);
}

int width_of(std::uint32_t highest_level) { return static_cast<int>(std::bit_width(highest_level)); }

}  // namespace

ColumnReader::ColumnReader(std::string_view file, const ColumnChunk& chunk, const Node& leaf)
    : file_(file), chunk_(chunk), leaf_(leaf), at_(chunk.begin), values_left_(chunk.values) {}

bool ColumnReader::open_page() {
  while (values_left_ > 0) {
    require<DataError>(at_ < chunk_.end, "its pages end {} values too soon", values_left_);
    ThriftReader in(file_.substr(at_, chunk_.end - at_));
    const PageHeader header = read_page_header(in);
    at_ += in.position();
    require<DataError>(header.compressed >= 0 &&
                           static_cast<std::uint64_t>(header.compressed) <= chunk_.end - at_ &&
                           header.bytes >= 0,
                       "a page of {} bytes at byte {} does not fit", header.compressed, at_);
    std::string_view body = file_.substr(at_, static_cast<std::size_t>(header.compressed));
    at_ += body.size();
    require<DataError>(
        !header.has_checksum || header.checksum == ::crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                                           static_cast<uInt>(body.size())),
        "a page before byte {} is corrupt: its checksum is another", at_);
    const auto bytes = static_cast<std::uint64_t>(header.bytes);
    const auto encoding = static_cast<Encoding>(header.encoding);
    if (header.kind == kDictionaryPage) {
      require<DataError>(!has_dictionary_ && values_ == nullptr, "a second dictionary");
      require<DataError>(header.values >= 0 && header.values <= kMostValues, "a dictionary of {} values",
                         header.values);
      decompress_page(body, chunk_.codec, bytes, dictionary_bytes_);
      const auto plain = decode_values(dictionary_bytes_, Encoding::kPlain, leaf_, header.values, nullptr);
      for (std::int64_t i = 0; i < header.values; ++i) dictionary_.push_back(plain->next());
      has_dictionary_ = true;
      continue;
    }
    if (header.kind != kDataPage && header.kind != kDataPage2) continue;  // an index
    require<DataError>(header.values >= 0 && header.values <= values_left_ && header.values <= kMostValues,
                       "a page of {} values where {} are left", header.values, values_left_);
    std::string_view repetitions, definitions;
    if (header.kind == kDataPage) {
      decompress_page(body, chunk_.codec, bytes, page_);
      body = page_;
      check_level_encoding(leaf_.repeat, header.repetition_encoding);
      check_level_encoding(leaf_.definition, header.definition_encoding);
      if (leaf_.repeat > 0) repetitions = take_with_length(body);
      if (leaf_.definition > 0) definitions = take_with_length(body);
    } else {
      require<DataError>(header.repetition_bytes >= 0 && header.definition_bytes >= 0 &&
                             header.repetition_bytes + header.definition_bytes <= header.bytes,
                         "a page with {} bytes of levels", header.repetition_bytes + header.definition_bytes);
      repetitions = take_front(static_cast<std::uint64_t>(header.repetition_bytes), body);
      definitions = take_front(static_cast<std::uint64_t>(header.definition_bytes), body);
      if (header.is_compressed && chunk_.codec != Codec::kNone && !body.empty()) {
        decompress_page(body, chunk_.codec, bytes - repetitions.size() - definitions.size(), page_);
        body = page_;
      }
    }
    repetitions_ = RunLengthDecoder(repetitions, width_of(leaf_.repeat));
    definitions_ = RunLengthDecoder(definitions, width_of(leaf_.definition));
    values_ = body.empty() ? nullptr
                           : decode_values(body, encoding, leaf_, header.values,
                                           has_dictionary_ ? &dictionary_ : nullptr);
    values_left_ -= header.values;
    left_ = header.values;
    if (left_ > 0) return true;
  }
  return false;
}

bool ColumnReader::at_end() { return !known_ && left_ == 0 && !open_page(); }

void ColumnReader::need() {
  if (known_) return;
  require<DataError>(!at_end(), "it has fewer values than the other columns");
  --left_;
  repetition_ = leaf_.repeat > 0 ? repetitions_.next() : 0;
  definition_ = leaf_.definition > 0 ? definitions_.next() : 0;
  require<DataError>(repetition_ <= leaf_.repeat && definition_ <= leaf_.definition,
                     "a value at levels {} and {}", repetition_, definition_);
  known_ = true;
}

std::uint32_t ColumnReader::definition() {
  need();
  return definition_;
}

std::uint32_t ColumnReader::repetition() {
  need();
  return repetition_;
}

Value ColumnReader::take() {
  need();
  known_ = false;
  if (definition_ < leaf_.definition) return {};
  // Empty texts need no bytes in some encodings, but then there is a header or a length.
  require<DataError>(values_ != nullptr, "a page without values");
  return values_->next();
}

}  // namespace stoa::parquet
