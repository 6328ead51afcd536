// The rows of a CSV or TSV file, as texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::data {

struct CsvRow {
  std::vector<std::string> cells;
  std::int64_t line = 1;
};

// Rows with anything in them, the header among them. Cells in quotes may hold separators and lines.
// DataError "source:line: …": a quoted cell that does not end.
std::vector<CsvRow> csv_rows(std::string_view text, char separator, const std::string& source);

}  // namespace stoa::data
