// Rows of Parquet files as lines of JSON, so that whatever reads JSON lines reads these files, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/parquet/column_reader.h"

namespace stoa::parquet {

class RowReader {
 public:
  // `file`: its bytes, which must outlive the reader; `name` stands in messages. DataError: see read_footer.
  RowReader(std::string_view file, std::string name);

  // Appends the next row as a JSON object and "\n"; false at the end. Members are those of the schema in its
  // order: lists and maps as lists and objects, dates and times as ISO 8601 has them, decimals as numbers,
  // what JSON has no number for as null, bytes that are no text in Base64. DataError names file, row and
  // column.
  bool next(std::string& out);
  // Bytes of the file that hold the rows read so far, roughly.
  std::uint64_t position() const;

 private:
  bool open_group();
  void write(const Node& node, std::uint32_t repetition, std::string& out);
  void write_fields(const Node& node, std::uint32_t repetition, std::string& out);
  void write_list(const Node& repeated, const Node& element, std::uint32_t repetition, std::string& out);
  void write_map(const Node& node, std::uint32_t repetition, std::string& out);
  void write_present(const Node& node, std::uint32_t repetition, std::string& out);
  const Node* list_element(const Node& node) const;
  bool is_map(const Node& node) const;
  const Node& child(const Node& node, std::size_t i) const { return footer_.nodes[node.children[i]]; }
  ColumnReader& first_column(const Node& node) { return columns_[node.first_column]; }
  void skip(const Node& node, std::uint32_t repetition);
  void check(const Node& node, std::uint32_t repetition);

  const std::string_view file_;
  const std::string name_;
  Footer footer_;
  std::vector<ColumnReader> columns_;  // of the group that is read
  std::size_t group_ = 0;              // groups opened
  std::int64_t left_ = 0;              // rows of the group
  std::int64_t row_ = 0, rows_ = 0;    // read, of all
  std::string_view column_;            // where it reads, for messages
};

}  // namespace stoa::parquet
