#include "formats/arrow/row_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/escape.h"
#include "formats/parquet/json_value.h"
#include "formats/parquet/page_codec.h"

namespace stoa::arrow {
namespace {

constexpr std::string_view kFileMagic = "ARROW1";
constexpr std::uint32_t kContinuation = 0xFFFFFFFFU;
// Values of a column in a batch; the second where they take no bytes, so that nothing else bounds them.
constexpr std::int64_t kMostValues = std::int64_t{1} << 40, kMostWithoutBytes = 1 << 26;
// Lists can name the same values again and again; a row may not be longer than this and 64 times the file.
constexpr std::size_t kLongestRow = 16 << 20;
enum class Header : std::uint8_t { kNone, kSchema, kDictionaryBatch, kRecordBatch };

template <class T>
T element(std::string_view buffer, std::int64_t i) {
  require<DataError>(i >= 0 && static_cast<std::size_t>(i) < buffer.size() / sizeof(T),
                     "a value lies beyond its buffer of {} bytes", buffer.size());
  T out;
  std::memcpy(&out, buffer.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof out);
  return out;
}

bool bit_of(std::string_view buffer, std::int64_t i) {
  return (element<std::uint8_t>(buffer, i / 8) >> (i % 8) & 1) != 0;
}

std::int64_t integer_at(std::string_view buffer, std::int64_t i, std::int64_t width, bool is_signed) {
  switch (width) {
    case 1:
      return is_signed ? element<std::int8_t>(buffer, i) : element<std::uint8_t>(buffer, i);
    case 2:
      return is_signed ? element<std::int16_t>(buffer, i) : element<std::uint16_t>(buffer, i);
    case 4:
      return is_signed ? element<std::int32_t>(buffer, i)
                       : static_cast<std::int64_t>(element<std::uint32_t>(buffer, i));
    default:
      return element<std::int64_t>(buffer, i);
  }
}

std::string_view piece(std::string_view buffer, std::int64_t begin, std::int64_t end) {
  require<DataError>(begin >= 0 && begin <= end && end <= static_cast<std::int64_t>(buffer.size()),
                     "bytes {} to {} of a buffer of {}", begin, end, buffer.size());
  return buffer.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

// A view holds up to 12 bytes itself; of more it names buffer and place.
std::string_view viewed(const Column& column, std::int64_t row) {
  const std::string_view views = column.buffers.at(1);
  const auto length = element<std::int32_t>(views, 4 * row);
  require<DataError>(length >= 0, "a text of {} bytes", length);
  if (length <= 12) return piece(views, 16 * row + 4, 16 * row + 4 + length);
  const auto buffer = element<std::int32_t>(views, 4 * row + 2),
             begin = element<std::int32_t>(views, 4 * row + 3);
  require<DataError>(buffer >= 0 && static_cast<std::size_t>(buffer) + 2 < column.buffers.size(),
                     "a text in buffer {} of {}", buffer, column.buffers.size() - 2);
  return piece(column.buffers[static_cast<std::size_t>(buffer) + 2], begin, std::int64_t{begin} + length);
}

// Takes nodes and buffers of a batch in the order of its columns.
class BatchReader {
 public:
  BatchReader(const FlatTable& batch, std::string_view body)
      : body_(body),
        nodes_(batch.vector(1, 16)),
        buffers_(batch.vector(2, 16)),
        views_(batch.vector(4, 8)),
        compressed_(batch.has(3)) {
    if (!compressed_) return;
    const auto codec = batch.table(3).number<std::int8_t>(0, 0);
    require<DataError>(codec == 1, "{}",
                       codec == 0 ? "is compressed with LZ4, which is not read (zstd is)"
                                  : "is compressed in a form that is not known");
  }

  Column column(const Field& field) {
    Column out;
    out.length = nodes_.number(node_, 0, 2);
    ++node_;
    const bool without_bytes =
        field.layout == Layout::kNull || field.layout == Layout::kStruct || field.width == 0;
    require<DataError>(out.length >= 0 && out.length <= (without_bytes ? kMostWithoutBytes : kMostValues),
                       "a column of {} values", out.length);
    std::size_t count = field.dictionary                                                        ? 2
                        : field.layout == Layout::kNull                                         ? 0
                        : field.layout == Layout::kBytes                                        ? 3
                        : field.layout == Layout::kStruct || field.layout == Layout::kFixedList ? 1
                                                                                                : 2;
    if (field.layout == Layout::kViews && !field.dictionary) {
      const auto more = views_.number(view_++, 0, 1);
      require<DataError>(more >= 0 && static_cast<std::size_t>(more) <= buffers_.size(),
                         "{} buffers of texts", more);
      count += static_cast<std::size_t>(more);
    }
    out.unpacked.reserve(count);
    for (std::size_t i = 0; i < count; ++i) out.buffers.push_back(buffer(out));
    if (!field.dictionary)
      for (const Field& child : field.children) out.children.push_back(column(child));
    return out;
  }

 private:
  std::string_view buffer(Column& owner) {
    const std::int64_t begin = buffers_.number(buffer_, 0, 2), length = buffers_.number(buffer_, 1, 2);
    ++buffer_;
    require<DataError>(begin >= 0 && length >= 0 && begin <= static_cast<std::int64_t>(body_.size()) &&
                           length <= static_cast<std::int64_t>(body_.size()) - begin,
                       "a buffer of {} bytes at {} of {}", length, begin, body_.size());
    std::string_view bytes = piece(body_, begin, begin + length);
    if (!compressed_ || bytes.empty()) return bytes;
    const auto size = element<std::int64_t>(bytes, 0);
    bytes.remove_prefix(8);
    if (size == -1) return bytes;
    require<DataError>(size >= 0 && static_cast<std::uint64_t>(size) <= parquet::kLargestPage,
                       "a buffer of {} bytes", size);
    parquet::decompress_page(bytes, parquet::Codec::kZstd, static_cast<std::uint64_t>(size),
                             owner.unpacked.emplace_back());
    return owner.unpacked.back();
  }

  const std::string_view body_;
  const FlatVector nodes_, buffers_, views_;
  const bool compressed_;
  std::size_t node_ = 0, buffer_ = 0, view_ = 0;
};

// `within`: the dictionaries whose values hold the fields; one of them cannot be theirs, too.
void collect_dictionaries(const std::vector<Field>& fields, std::vector<std::int64_t>& within,
                          std::map<std::int64_t, Field>& into) {
  for (const Field& field : fields) {
    if (field.dictionary) {
      const std::int64_t id = field.dictionary->id;
      require<DataError>(std::find(within.begin(), within.end(), id) == within.end(),
                         "the dictionary {} holds itself", id);
      Field values = field;
      values.dictionary.reset();
      into.emplace(id, std::move(values));
      within.push_back(id);
    }
    collect_dictionaries(field.children, within, into);
    if (field.dictionary) within.pop_back();
  }
}

}  // namespace

RowReader::RowReader(std::string_view file, std::string name) : file_(file), name_(std::move(name)) {
  try {
    if (file_.starts_with(kFileMagic)) at_ = 8;  // a file holds a stream
    next_batch();
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", name_, error.what());
  }
}

// Reads messages up to the next batch with rows.
bool RowReader::next_batch() {
  for (;;) {
    if (at_ == file_.size() && started_) return false;
    auto size = FlatTable::value_at<std::uint32_t>(file_, at_);
    at_ += 4;
    if (size == kContinuation) {
      size = FlatTable::value_at<std::uint32_t>(file_, at_);
      at_ += 4;
    }
    if (size == 0) {
      at_ = file_.size();
      require<DataError>(started_, "no Arrow data");
      return false;
    }
    require<DataError>(size <= file_.size() - at_, "{}",
                       started_ ? "the file is truncated" : "no Arrow data");
    const FlatTable message(file_.substr(at_, size));
    at_ += size;
    const auto body_bytes = message.number<std::int64_t>(3, 0);
    require<DataError>(body_bytes >= 0 && static_cast<std::uint64_t>(body_bytes) <= file_.size() - at_,
                       "the file is truncated: a batch of {} bytes, {} are there", body_bytes,
                       file_.size() - at_);
    const std::string_view body = file_.substr(at_, static_cast<std::size_t>(body_bytes));
    at_ += body.size();
    const auto header = static_cast<Header>(message.number<std::uint8_t>(1, 0));
    if (header == Header::kSchema) {
      require<DataError>(!started_, "a second schema");
      started_ = true;
      fields_ = read_schema(message.table(2));
      std::vector<std::int64_t> within;
      collect_dictionaries(fields_, within, dictionary_fields_);
    } else if (header == Header::kDictionaryBatch) {
      read_dictionary(message.table(2), body);
    } else if (header == Header::kRecordBatch) {
      const FlatTable batch = message.table(2);
      done_ += rows_;
      row_ = 0;
      rows_ = batch.number<std::int64_t>(0, 0);
      columns_ = read_columns(batch, body, fields_);
      for (const Column& column : columns_)
        require<DataError>(column.length == rows_, "a column of {} values in a batch of {} rows",
                           column.length, rows_);
      // Without a column nothing says that rows are there.
      require<DataError>(!columns_.empty() || rows_ == 0, "a batch of {} rows without columns", rows_);
      if (rows_ > 0) return true;
    } else {
      fail<DataError>("a message of kind {}, expected a schema or a batch", static_cast<int>(header));
    }
  }
}

std::vector<Column> RowReader::read_columns(const FlatTable& batch, std::string_view body,
                                            const std::vector<Field>& fields) const {
  BatchReader reader(batch, body);
  std::vector<Column> out;
  for (const Field& field : fields) out.push_back(reader.column(field));
  return out;
}

void RowReader::read_dictionary(const FlatTable& table, std::string_view body) {
  const auto id = table.number<std::int64_t>(0, 0);
  const auto field = dictionary_fields_.find(id);
  require<DataError>(field != dictionary_fields_.end(), "a dictionary {} that no column has", id);
  auto& pieces = dictionaries_[id];
  if (table.number<std::uint8_t>(2, 0) == 0) pieces.clear();  // not an addition
  pieces.push_back(std::move(read_columns(table.table(1), body, {field->second}).front()));
}

bool RowReader::next(std::string& out) {
  const std::string* column = &name_;
  const std::size_t before = out.size();
  try {
    if (row_ == rows_ && !next_batch()) return false;
    most_text_ = before + kLongestRow + 64 * file_.size();
    out += '{';
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (i > 0) out += ',';
      column = &fields_[i].name;
      append_json_string(*column, out);
      out += ':';
      write(fields_[i], columns_[i], row_, out);
    }
    out += "}\n";
    ++row_;
    return true;
  } catch (const DataError& error) {
    out.resize(before);
    if (column == &name_) fail<DataError>("{}: {}", name_, error.what());
    fail<DataError>("{}: row {}, column '{}': {}", name_, done_ + row_, *column, error.what());
  }
}

void RowReader::write(const Field& field, const Column& column, std::int64_t row, std::string& out) const {
  require<DataError>(out.size() <= most_text_, "the row's lists hold the same values again and again");
  const bool valid =
      field.layout != Layout::kNull && (column.buffers.at(0).empty() || bit_of(column.buffers[0], row));
  if (!valid) {
    out += "null";
    return;
  }
  if (field.dictionary) {
    std::int64_t index =
        integer_at(column.buffers.at(1), row, field.dictionary->width, field.dictionary->is_signed);
    const auto values = dictionaries_.find(field.dictionary->id);
    require<DataError>(values != dictionaries_.end(), "its dictionary is missing");
    for (const Column& part : values->second) {
      if (index >= 0 && index < part.length)
        return write(dictionary_fields_.at(field.dictionary->id), part, index, out);
      index -= part.length;
    }
    fail<DataError>("a number beyond its dictionary");
  }
  switch (field.layout) {
    case Layout::kList:
    case Layout::kMap: {
      const std::string_view offsets = column.buffers.at(1);
      return write_list(field, column, integer_at(offsets, row, field.width, true),
                        integer_at(offsets, row + 1, field.width, true), out);
    }
    case Layout::kFixedList:
      return write_list(field, column, row * field.width, (row + 1) * field.width, out);
    case Layout::kStruct:
      out += '{';
      for (std::size_t i = 0; i < field.children.size(); ++i) {
        if (i > 0) out += ',';
        append_json_string(field.children[i].name, out);
        out += ':';
        require<DataError>(row < column.children[i].length, "a structure without its member");
        write(field.children[i], column.children[i], row, out);
      }
      out += '}';
      return;
    default:
      return write_leaf(field, column, row, out);
  }
}

void RowReader::write_list(const Field& field, const Column& column, std::int64_t begin, std::int64_t end,
                           std::string& out) const {
  const Column& values = column.children.at(0);
  require<DataError>(begin >= 0 && begin <= end && end <= values.length, "a list from {} to {} of {} values",
                     begin, end, values.length);
  const Field& of = field.children[0];
  const bool object = field.layout == Layout::kMap && of.children[0].leaf.meaning == parquet::Meaning::kText;
  out += object ? '{' : '[';
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) out += ',';
    if (!object) {
      write(of, values, i, out);
      continue;
    }
    for (std::size_t member = 0; member < 2; ++member) {
      require<DataError>(i < values.children[member].length, "a map without its {}",
                         member == 0 ? "key" : "value");
      write(of.children[member], values.children[member], i, out);
      if (member == 0) out += ':';
    }
  }
  out += object ? '}' : ']';
}

void RowReader::write_leaf(const Field& field, const Column& column, std::int64_t row,
                           std::string& out) const {
  parquet::Value value;
  std::string reversed;
  const std::string_view data = column.buffers.at(1);
  switch (field.layout) {
    case Layout::kBits:
      value.integer = bit_of(data, row) ? 1 : 0;
      break;
    case Layout::kBytes:
      value.bytes = piece(column.buffers.at(2), integer_at(data, row, field.width, true),
                          integer_at(data, row + 1, field.width, true));
      break;
    case Layout::kViews:
      value.bytes = viewed(column, row);
      break;
    default:
      if (field.leaf.type == parquet::Physical::kFloat)
        value.real = element<float>(data, row);
      else if (field.leaf.type == parquet::Physical::kDouble)
        value.real = element<double>(data, row);
      else if (field.leaf.type == parquet::Physical::kFixedBytes)
        value.bytes = piece(data, row * field.width, (row + 1) * field.width);
      else
        value.integer = integer_at(data, row, field.width, field.is_signed);
  }
  if (field.leaf.meaning == parquet::Meaning::kDecimal) {  // the other byte order than Parquet's
    reversed.assign(value.bytes.rbegin(), value.bytes.rend());
    value.bytes = reversed;
  }
  parquet::append_json_value(value, field.leaf, out);
}

}  // namespace stoa::arrow
