#include <charconv>
#include <set>

#include "base/error.h"
#include "data/csv_rows.h"
#include "eval/data/documents.h"

namespace stoa::eval {
namespace {

bool is_missing_cell(const std::string& cell) {
  static const std::set<std::string> kMissing{
      "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
      "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};
  return kMissing.contains(cell);
}

template <class T>
bool reads_as(const std::string& cell, T& out) {
  const std::string_view text = strip(cell);
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, code] = std::from_chars(begin, text.data() + text.size(), out);
  return code == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::vector<Json> parse_csv(std::string_view text, char separator, const std::string& source) {
  const std::vector<data::CsvRow> rows = data::csv_rows(text, separator, source);
  require<DataError>(!rows.empty(), "{}: no header", source);
  const std::vector<std::string>& names = rows.front().cells;
  std::vector<Json> out(rows.size() - 1, Json::object());
  for (std::size_t r = 1; r < rows.size(); ++r)
    require<DataError>(rows[r].cells.size() <= names.size(), "{}:{}: {} cells, the header has {}", source,
                       rows[r].line, rows[r].cells.size(), names.size());
  for (std::size_t column = 0; column < names.size(); ++column) {
    bool whole = true, real = true, truth = true, missing = false, given = false;
    const auto cell_of = [&](std::size_t r) {
      return column < rows[r].cells.size() ? rows[r].cells[column] : std::string();
    };
    for (std::size_t r = 1; r < rows.size(); ++r) {
      const std::string cell = cell_of(r);
      if (is_missing_cell(cell)) {
        missing = true;
        continue;
      }
      given = true;
      std::int64_t i = 0;
      double d = 0;
      whole = whole && reads_as(cell, i);
      real = real && reads_as(cell, d);
      truth = truth && (cell == "True" || cell == "False" || cell == "TRUE" || cell == "FALSE" ||
                        cell == "true" || cell == "false");
    }
    for (std::size_t r = 1; r < rows.size(); ++r) {
      const std::string cell = cell_of(r);
      Json& value = out[r - 1][names[column]];
      if (is_missing_cell(cell) || !given) {
        value = nullptr;
      } else if (whole && !missing) {
        std::int64_t i = 0;
        reads_as(cell, i);
        value = i;
      } else if (real) {
        double d = 0;
        reads_as(cell, d);
        value = d;
      } else if (truth && !missing) {
        value = cell == "True" || cell == "TRUE" || cell == "true";
      } else {
        value = cell;
      }
    }
  }
  return out;
}

}  // namespace stoa::eval
