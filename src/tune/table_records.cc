#include "tune/table_records.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/csv_rows.h"

namespace stoa::tune {
namespace {

using TableRow = nlohmann::ordered_json;

constexpr std::array kValueColumns{"messages", "conversations", "history", "tools",
                                   "score",    "label",         "margin"};

std::string_view without_compression(std::string_view name) {
  for (const std::string_view packed : {".gz", ".bz2", ".zst"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  return name;
}

// Programs of countries with decimal commas separate by semicolons.
char separator_of(std::string_view text, std::string_view name) {
  if (without_compression(name).ends_with(".tsv")) return '\t';
  constexpr std::string_view kSeparators = ",;\t";
  std::array<int, kSeparators.size()> counts{};  // in the header
  bool quoted = false;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '"') quoted = !quoted;
    if (const std::size_t at = kSeparators.find(c); at != kSeparators.npos && !quoted) ++counts[at];
  }
  return kSeparators[static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin())];
}

std::string trimmed_cell(std::string_view cell) {
  const std::size_t begin = std::min(cell.find_first_not_of(' '), cell.size());
  return std::string(cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
}

// True, as Python and spreadsheets write it, is true.
TableRow value_cell(const std::string& cell) {
  std::string lower = cell;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "true" || lower == "false") return lower == "true";
  TableRow value = TableRow::parse(cell, nullptr, false);
  return value.is_discarded() ? TableRow(cell) : value;
}

}  // namespace

bool is_table(std::string_view name) {
  const std::string_view plain = without_compression(name);
  return plain.ends_with(".csv") || plain.ends_with(".tsv");
}

std::string table_records(std::string_view text, const std::string& name) {
  const std::vector<data::CsvRow> rows = data::csv_rows(text, separator_of(text, name), name);
  std::string out;
  std::vector<std::string> keys;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::vector<std::string>& cells = rows[r].cells;
    if (r == 0) {
      for (const std::string& cell : cells) {
        std::string key = trimmed_cell(cell);
        require<DataError>(key.empty() || std::ranges::find(keys, key) == keys.end(),
                           "{}: two columns are called '{}'", name, key);
        keys.push_back(std::move(key));
      }
      continue;
    }
    require<DataError>(
        cells.size() == keys.size(),
        "{} record {} (line {}): {} cells, the header has {}: {}; a table is read as a whole or not at all",
        name, r, rows[r].line, cells.size(), keys.size(), fmt::join(keys, ", "));
    TableRow record = TableRow::object();
    for (std::size_t column = 0; column < keys.size(); ++column) {
      if (keys[column].empty()) continue;
      const bool value = std::ranges::find(kValueColumns, keys[column]) != kValueColumns.end();
      record[keys[column]] = value ? value_cell(cells[column]) : TableRow(cells[column]);
    }
    try {
      out += record.dump() + "\n";
    } catch (const TableRow::type_error&) {
      fail<DataError>("{} record {} (line {}) is not UTF-8 text; save the file as UTF-8", name, r,
                      rows[r].line);
    }
  }
  return out;
}

}  // namespace stoa::tune
