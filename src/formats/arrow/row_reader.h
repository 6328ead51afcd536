// Rows of Arrow data (IPC streams and files, as `datasets` caches and saves them) as lines of JSON, so that
// whatever reads JSON lines reads them, too. Facts: the Arrow project, "Arrow Columnar Format".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/arrow/schema.h"

namespace stoa::arrow {

// A column of a batch: its values and those of its children.
struct Column {
  std::int64_t length = 0;
  std::vector<std::string> unpacked;      // buffers that were compressed
  std::vector<std::string_view> buffers;  // as Layout has them
  std::vector<Column> children;
};

class RowReader {
 public:
  // `file`: its bytes, which must outlive the reader; `name` stands in messages. DataError: no Arrow data.
  RowReader(std::string_view file, std::string name);

  // Appends the next row as a JSON object and "\n"; false at the end. Forms of values are those of
  // parquet::RowReader. DataError names file, row and column; also for what is compressed with LZ4.
  bool next(std::string& out);
  std::uint64_t position() const { return at_; }  // bytes that are read

 private:
  bool next_batch();
  void read_dictionary(const FlatTable& table, std::string_view body);
  std::vector<Column> read_columns(const FlatTable& batch, std::string_view body,
                                   const std::vector<Field>& fields) const;
  void write(const Field& field, const Column& column, std::int64_t row, std::string& out) const;
  void write_leaf(const Field& field, const Column& column, std::int64_t row, std::string& out) const;
  void write_list(const Field& field, const Column& column, std::int64_t begin, std::int64_t end,
                  std::string& out) const;

  const std::string_view file_;
  const std::string name_;
  std::size_t at_ = 0;
  bool started_ = false;  // there was a schema
  std::vector<Field> fields_;
  std::map<std::int64_t, Field> dictionary_fields_;
  std::map<std::int64_t, std::vector<Column>> dictionaries_;  // the pieces of each
  std::vector<Column> columns_;                               // of the batch that is read
  std::int64_t row_ = 0, rows_ = 0;                           // in the batch
  std::size_t most_text_ = 0;                                 // length of the output that a row may reach
  std::int64_t done_ = 0;                                     // rows before it
};

}  // namespace stoa::arrow
