// The documents of a data set, read whole.
#pragma once

#include <vector>

#include "base/file.h"
#include "eval/python/text.h"

namespace stoa::eval {

// JSON lines, a JSON list, CSV, TSV (each also .gz or .zst), Parquet or Arrow, by the files' names. All
// documents have the same fields in the same order: one that a document lacks is null.
// DataError "file:line: …".
std::vector<Json> read_documents(const std::vector<fs::path>& files);
// Rows of a CSV file as pandas.read_csv types their columns, which is what the harness's data loader uses.
std::vector<Json> parse_csv(std::string_view text, char separator, const std::string& source);

}  // namespace stoa::eval
