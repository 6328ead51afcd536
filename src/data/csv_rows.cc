#include "data/csv_rows.h"

#include <utility>

#include "base/error.h"

namespace stoa::data {

std::vector<CsvRow> csv_rows(std::string_view text, char separator, const std::string& source) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<CsvRow> rows;
  CsvRow row;
  std::string cell;
  bool any = false;
  std::int64_t line = 1;
  const auto end_row = [&] {
    if (any || !cell.empty() || !row.cells.empty()) {
      row.cells.push_back(std::exchange(cell, {}));
      rows.push_back(std::exchange(row, {}));
    }
    any = false;
    row.line = line;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && cell.empty() && !any) {
      const std::int64_t begin = line;
      for (++i;; ++i) {
        require<DataError>(i < text.size(), "{}:{}: a quoted cell does not end", source, begin);
        if (text[i] == '"') {
          if (i + 1 < text.size() && text[i + 1] == '"')
            ++i;
          else
            break;
        }
        if (text[i] == '\n') ++line;
        cell += text[i];
      }
      any = true;
    } else if (c == separator) {
      row.cells.push_back(std::exchange(cell, {}));
      any = false;
    } else if (c == '\n' || c == '\r') {
      if (c == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
      ++line;
      end_row();
    } else {
      cell += c;
    }
  }
  end_row();
  return rows;
}

}  // namespace stoa::data
