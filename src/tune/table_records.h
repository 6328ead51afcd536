// Records of tuning files that are tables: a row is a record, the header has its keys.
#pragma once

#include <string>
#include <string_view>

namespace stoa::tune {

// Whether a file is one by its name: .csv or .tsv, also .gz, .bz2 or .zst.
bool is_table(std::string_view name);

// The rows as JSON lines. Cells are texts, but for those of columns whose values are lists, numbers or truths
// in every form of records; columns without a name are left out. DataError names the row.
std::string table_records(std::string_view text, const std::string& name);

}  // namespace stoa::tune
