// The records of tuning files, each as the text of one JSON object: JSON lines or a JSON array, whatever the
// file is called, or the rows of a .csv or .tsv file (table_records.h), plain, .gz or .zst.
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "tune/record.h"

namespace stoa::tune {

namespace fs = std::filesystem;

struct RecordText {
  std::string_view json;  // within RecordFile
  std::int64_t number = 0;
};

class RecordFile {
 public:
  // Reads it whole. IoError; DataError: an array that does not end, no record at all. Interrupted: asked to
  // stop.
  explicit RecordFile(const fs::path& path, const std::stop_token& stop = {});
  // The same of a text, for tests and fuzzing.
  RecordFile(std::string name, std::string content);
  RecordFile(RecordFile&&) = default;
  RecordFile& operator=(RecordFile&&) = default;

  const std::string& name() const { return name_; }
  const std::vector<RecordText>& records() const { return records_; }
  Place place(const RecordText& record) const { return {name_, record.number}; }

 private:
  void find_records();
  void split_lines();
  void split_array(std::size_t begin);

  std::string name_;
  std::unique_ptr<const std::string> content_;  // views into it survive a move
  std::vector<RecordText> records_;
};

// DataError: no JSON, or nested deeper than any record is.
Json parse_json(std::string_view text, const Place& place);

}  // namespace stoa::tune
