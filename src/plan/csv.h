// Tables of comma-separated values (RFC 4180): quoted fields, doubled quotes, line breaks inside quotes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace stoa::plan {

struct CsvTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header

  // Index of a column, or -1.
  int column(std::string_view name) const;
};

// DataError names the line: a quote that does not end, a row with more or fewer fields than the header.
CsvTable parse_csv(std::string_view text, const std::string& source);
CsvTable read_csv(const fs::path& path);
std::string write_csv(const CsvTable& table);

}  // namespace stoa::plan
